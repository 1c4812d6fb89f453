"""The README's pictures, from what `make bench` measured. Usage: pictures.py FOLDER

Reads FOLDER/results.json and FOLDER/gpt.run.json; writes FOLDER/memory.svg (memory over a step) and FOLDER/systems.svg
(time against memory of every system on the GPT).
"""
import html
import json
import math
import statistics
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 70, 20, 40, 50
COLOURS = {"plain": "#8a8f98", "planned": "#2f6fde", "measured": "#c2410c"}


def ticks(span):
    """Four to eight round numbers within the span."""
    step = 10 ** math.floor(math.log10((span[1] - span[0]) / 2))
    while (span[1] - span[0]) / step > 8:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    return [round(i * step, 10) for i in range(math.ceil(span[0] / step), math.floor(span[1] / step) + 1)]


class Chart:
    """A plot area with axes; x and y are data."""

    def __init__(self, title, x_label, y_label, x_range, y_range):
        self.x_range, self.y_range = x_range, y_range
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="12"><title>{html.escape(title)}</title>'
            f'<rect width="100%" height="100%" fill="#ffffff"/>'
            f'<text x="{LEFT}" y="22" font-size="15" font-weight="600" fill="#1f2430">{html.escape(title)}</text>']
        for y in ticks(y_range):
            self.parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(y):.1f}" y2="{self.y(y):.1f}" stroke="#e4e7ec"/>'
                f'<text x="{LEFT - 8}" y="{self.y(y) + 4:.1f}" text-anchor="end" fill="#5b6270">{y:g}</text>')
        for x in ticks(x_range):
            self.parts.append(f'<text x="{self.x(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" '
                              f'fill="#5b6270">{x:g}</text>')
        self.parts.append(
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle" fill="#1f2430">{x_label}</text>'
            f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" '
            f'fill="#1f2430">{y_label}</text>')

    def x(self, value):
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def line(self, points, colour, dash=""):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8" '
                          f'stroke-dasharray="{dash}"/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4.5" fill="{colour}"/>')

    def text(self, x, y, text, colour, anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">'
                          f'{html.escape(text)}</text>')

    def write(self, file):
        with open(file, "w") as out:
            out.write("\n".join([*self.parts, "</svg>\n"]))


def memory_over_a_step(run):
    lines = {line["name"]: [(p["seconds"], p["bytes"] / 1e6) for p in line["points"]] for line in run["timelines"]}
    # Each on its own clock: a planned step takes longer than a plain one.
    end = max(points[-1][0] for points in lines.values())
    top = 1.05 * max(y for points in lines.values() for _, y in points)
    chart = Chart("Memory over one step of the GPT", "seconds", "MB of tensors", (0, end), (0, top))
    for number, (name, points) in enumerate(lines.items()):
        chart.line(points, COLOURS[name])
        chart.text(WIDTH - RIGHT - 8, TOP + 16 + 18 * number, name, COLOURS[name], "end")
    budget = run["limit_bytes"] / 1e6
    chart.line([(0, budget), (end, budget)], "#1f2430", "5 4")
    chart.text(chart.x(0) + 6, chart.y(budget) - 6, f"budget {budget:.0f} MB", "#1f2430")
    return chart


def time_against_memory(results):
    rows = [row for row in results if row["workload"] == "gpt" and row["refused"] is None]
    points = [(row, (row["peak_bytes"] - row["resting_bytes"]) / 1e6, statistics.median(row["step_seconds"]))
              for row in rows]
    times = [y for _, _, y in points]
    chart = Chart("GPT: step time against peak memory above what rests", "MB of activations and temporaries",
                  "seconds a step (median)", (0, 1.7 * max(x for _, x, _ in points)),
                  (0.95 * min(times), 1.03 * max(times)))
    chart.line(sorted((x, y) for row, x, y in points if row["budget_bytes"]), "#2f6fde")
    # Points lie close together: each has a number, and the names are a list at the side.
    names = WIDTH - 275
    chart.text(names, TOP + 14, "● Encore within budgets", "#2f6fde")
    numbers = []  # where they stand
    for row, x, y in points:
        colour = "#2f6fde" if row["budget_bytes"] else "#c2410c" if "Python" in row["system"] else "#3f4654"
        chart.dot(x, y, colour)
        if not row["budget_bytes"]:
            left, base = chart.x(x) + 7, chart.y(y) + 4
            while any(abs(left - other[0]) < 16 and abs(base - other[1]) < 11 for other in numbers):
                left += 4
            numbers.append((left, base))
            chart.text(left, base, str(len(numbers)), colour)
            chart.text(names, TOP + 14 + 18 * len(numbers), f"{len(numbers)}  {row['system']}", colour)
    return chart


folder = sys.argv[1]
with open(f"{folder}/results.json") as file:
    time_against_memory(json.load(file)).write(f"{folder}/systems.svg")
with open(f"{folder}/gpt.run.json") as file:
    memory_over_a_step(json.load(file)).write(f"{folder}/memory.svg")
