"""Runs to make pages of: what a training run looks like, and what it may look like at worst."""
import math
import random

MIB = 1 << 20
HOSTILE = "<script>alert(1)</script>"


def timeline(name, seconds, resting, peak, kept, count=400):
    """Memory that climbs through forward, falls through backward, and swings where values come back."""
    draw = random.Random(7)
    heights = []
    for k in range(count):
        at = k / count
        base = at / 0.36 if at < 0.36 else (1 - at) / 0.64
        back = (1 - kept) * abs(math.sin(30 * at)) * (at > 0.36) * (1.2 - at)
        heights.append(kept * base + back + 0.04 * draw.random())
    points = [{"seconds": seconds * k / count, "bytes": int(resting + (peak - resting) * height / max(heights))}
              for k, height in enumerate(heights)]
    return {"name": name, "points": points + [{"seconds": seconds, "bytes": resting}]}


def values(count):
    draw = random.Random(1)
    ops = ["linear", "softmax", "gelu", "layer_norm", "dropout", "matmul", "add", "embedding"]
    made = []
    for k in range(count):
        op = ops[k % len(ops)]
        size = draw.choice([4096, 98304, 1.5 * MIB, 3 * MIB, 6 * MIB, 12 * MIB])
        price = size * draw.uniform(2e-11, 9e-10)
        recomputed = price / size < 4e-10 and size > MIB
        made.append({"name": f"{op}_{k}", "path": f"blocks.{k // len(ops)}.{'attention' if k % 2 else 'mlp'}.{op}",
                     "bytes": int(size + k), "action": "recomputed" if recomputed else "kept",
                     "why": "cheap for its size" if recomputed else
                            "small" if size < MIB else "needed again at once", "price": price})
    return made


def peak():
    """498 MiB, of which 150 rest."""
    parts = [{"name": op, "path": f"blocks.{k}.{part}", "bytes": size * MIB, "kind": kind}
             for k in range(8) for op, part, size, kind in
             (("aten::gelu", "mlp", 16, "kept"), ("aten::addmm", "mlp", 12, "kept"), ("aten::bmm", "attention", 13, "kept"),
              ("aten::bernoulli_", "attention", 1, "packed as bits"))]
    return {"during": "aten::_softmax", "seconds": 0.071, "parts": parts + [
        {"name": "aten::_softmax", "path": "blocks.7.attention", "bytes": 12 * MIB, "kind": "scratch"},
        {"name": "what the plan can't drop", "path": "", "bytes": 150 * MIB, "kind": "outside"}]}


def step(index, **fields):
    base = {"index": index, "signature": "float32[8,256], int64[8,256]", "mode": "planned", "message": "",
            "predicted_peak_bytes": 498 * MIB, "measured_peak_bytes": 498 * MIB + (index % 3) * 70000,
            "plain_peak_bytes": 846 * MIB, "step_seconds": 0.1824 + 0.002 * math.sin(index), "replay_seconds": 0.0141,
            "planning_seconds": 0, "ops_replayed": 152, "values_kept": 61, "values_dropped": 140,
            "loss": 5.1 * math.exp(-index / 30) + 1.2}
    return {**base, **fields}


def run(name, **fields):
    return {"format": "encore-run-1", "name": name, "limit_bytes": 512 * MIB, "resting_bytes": 150 * MIB, "process_bytes": 700 * MIB,
            "steps": [], **fields}


def normal(value_count=201):
    steps = [step(k) for k in range(42)]
    steps[0].update(mode="online", predicted_peak_bytes=-1, measured_peak_bytes=511 * MIB, step_seconds=0.2317,
                    replay_seconds=0.0502, planning_seconds=0.342, ops_replayed=498)
    steps[17].update(mode="online", message="left the plan at aten::dropout (op 812 of 'step')",
                     measured_peak_bytes=508 * MIB, step_seconds=0.221)
    curve = [{"bytes": int((846 - 36 * k) * MIB), "seconds": 0.168 + 0.00014 * k ** 2.6} for k in range(14)]
    events, at = [], 0.0
    for k in range(60):
        kind = ["forward", "record", "evict", "backward", "replay", "plan"][k % 6]
        events.append({"name": f"{kind} {k}", "category": kind, "start_us": at, "duration_us": 1500.5, "thread": k % 2})
        at += 3000
    return run("gpt-small, batch 8", steps=steps, backward_begins_seconds=0.0657, timelines=[
        timeline("plain", 0.168, 150 * MIB, 846 * MIB, 1), timeline("planned", 0.182, 150 * MIB, 498 * MIB, 0.7),
        timeline("measured", 0.1824, 150 * MIB, 498 * MIB + 140000, 0.7)],
        curve={"points": curve, "chosen": 10}, values=values(value_count), peak=peak(), events=events, systems=[
            {"name": "Plain LibTorch", "peak_bytes": 846 * MIB, "step_seconds": 0.168, "bit_identical": True},
            {"name": "Encore", "peak_bytes": 498 * MIB, "step_seconds": 0.1824, "bit_identical": True},
            {"name": "Checkpoint each block", "peak_bytes": 431 * MIB, "step_seconds": 0.221, "bit_identical": True},
            {"name": "Half-precision store", "peak_bytes": 520 * MIB, "step_seconds": 0.179, "bit_identical": False}])


def hostile():
    made = normal(8)
    evil = [HOSTILE, "</script><script>alert(1)</script>", "<!--<script>alert(1)", "\"><img src=x onerror=alert(1)>",
            "' onmouseover='alert(1)", "\u202egnp.exe", "x" * 300, "a\u0000b\nc\u2028d &amp; \u4f60\u597d"]
    made["name"] = made["peak"]["during"] = HOSTILE
    for value, name in zip(made["values"], evil):
        value.update(name=name, path=name, why=name, action=name)
        made["peak"]["parts"].append({"name": name, "path": name, "bytes": 1, "kind": name})
    for index, name in enumerate(evil):
        made["steps"][index].update(signature=name, message=name)
        made["systems"].append({"name": name, "peak_bytes": 1, "step_seconds": 1, "bit_identical": False})
        made["events"].append({"name": name, "category": name, "start_us": 1, "duration_us": 1, "thread": 0})
    made["steps"][3]["mode"] = "refused"
    return made


def refused():
    message = "budget: this step needs at least 612.0 MiB, the budget is 512.0 MiB; raise it or lower the batch"
    return run("gpt-large, batch 32", steps=[step(
        0, mode="refused", message=message, predicted_peak_bytes=612 * MIB, measured_peak_bytes=-1, plain_peak_bytes=-1,
        step_seconds=0, replay_seconds=0, ops_replayed=0, values_kept=0, values_dropped=0, loss=None)])


def all_runs():
    return {"normal": normal(), "large": normal(5000), "hostile": hostile(), "empty": run("an empty run"),
            "refused": refused()}
