"""The report page in a browser: tables, charts, keyboard, phone width, hostile names. Usage: browser_test.py ENCORE"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sample_runs  # noqa: E402

ENCORE = None


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.runs = sample_runs.all_runs()
        for name, run in cls.runs.items():
            source = pathlib.Path(cls.folder, f"{name}.json")
            source.write_text(json.dumps(run))
            subprocess.run([ENCORE, "report", source, "-o", source.with_suffix(".html")], check=True)
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900",
                         f"--user-data-dir={cls.folder}/profile"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        cls.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        cls.addClassCleanup(cls.driver.quit)

    def open(self, name, width=1280):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.get(pathlib.Path(self.folder, f"{name}.html").as_uri())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        found = self.all(selector)
        self.assertEqual(len(found), 1, selector)
        return found[0]

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def column(self, table, number):
        return self.script("return [...document.querySelectorAll(`[data-table=${arguments[0]}] tbody tr`)]"
                           ".map((row) => row.children[arguments[1]].textContent)", table, number)

    def header(self, table, number):
        head = self.all(f"[data-table={table}] thead th")[number]
        return head, head.find_element(By.TAG_NAME, "button")

    def by(self, run, field, reverse):
        """Names of the values as the table should order them: ties stay as they were."""
        return [value["name"] for value in sorted(self.runs[run]["values"], key=lambda v: v[field], reverse=reverse)]

    def test_every_page_opens_without_errors_or_dialogs(self):
        for name in self.runs:
            with self.subTest(name):
                self.driver.get_log("browser")
                self.open(name)
                with self.assertRaises(NoAlertPresentException):
                    self.driver.switch_to.alert.text
                self.assertEqual(self.driver.get_log("browser"), [])
                self.assertEqual(self.one("h1").text, self.runs[name]["name"])
                self.assertEqual(self.script("return performance.getEntriesByType('resource').length"), 0)

    def test_hostile_names_are_text(self):
        self.open("hostile")
        self.assertEqual(self.all("img"), [])
        self.assertEqual(len(self.all("script")), 2)
        names = [value["name"] for value in self.runs["hostile"]["values"]]
        self.assertEqual(sorted(self.column("values", 0)), sorted(names))
        systems = [system["name"] for system in self.runs["hostile"]["systems"]]
        self.assertEqual(self.column("systems", 0), systems)
        self.assertIn(names[0], self.all(".notice.note")[0].text)
        ActionChains(self.driver).move_to_element(self.all("tbody th")[0]).perform()
        with self.assertRaises(NoAlertPresentException):
            self.driver.switch_to.alert.text

    def test_a_click_on_a_header_sorts(self):
        self.open("normal")
        head, button = self.header("values", 2)
        self.assertEqual(head.get_attribute("aria-sort"), "descending")
        self.assertEqual(self.column("values", 0), self.by("normal", "bytes", True)[:25])
        button.click()
        self.assertEqual(head.get_attribute("aria-sort"), "ascending")
        self.assertEqual(self.column("values", 0), self.by("normal", "bytes", False)[:25])
        price, button = self.header("values", 4)
        button.click()
        self.assertEqual(price.get_attribute("aria-sort"), "descending")
        self.assertEqual(head.get_attribute("aria-sort"), "none")
        self.assertEqual(self.column("values", 0), self.by("normal", "price", True)[:25])
        _, button = self.header("values", 0)
        button.click()
        self.assertEqual(self.column("values", 0)[:3], ["add_6", "add_14", "add_22"])

    def test_unknown_numbers_are_last_in_both_directions(self):
        self.open("normal")
        _, button = self.header("steps", 2)
        for _ in range(2):
            button.click()
            self.script("document.querySelectorAll('[data-table=steps] .pages button')[1].click()")
            self.assertEqual(self.column("steps", 0)[-1], "0")
            self.assertEqual(self.column("steps", 2)[-1], "\u2013")

    def test_the_keyboard_reaches_and_presses_the_sort_buttons(self):
        self.open("normal")
        reached = []
        for _ in range(120):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            element = self.driver.switch_to.active_element
            reached.append((element.tag_name, element.get_attribute("aria-label") or element.text))
            if element.text == "Why":
                break
        self.assertEqual(reached[0], ("a", "Skip to the report"))
        buttons = [text for tag, text in reached if tag == "button"]
        self.assertEqual(buttons, ["Op", "Module", "Size", "Share", "Values", "Kind", "Next",  # live at the peak
                                   "Value", "Module", "Size", "Action", "Price", "Why"])
        self.assertEqual(len([1 for _, text in reached if "arrow keys" in text]), 3)
        outline = self.script("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")
        self.driver.switch_to.active_element.send_keys(Keys.ENTER)
        self.assertEqual(self.header("values", 5)[0].get_attribute("aria-sort"), "ascending")
        self.driver.switch_to.active_element.send_keys(Keys.SPACE)
        self.assertEqual(self.header("values", 5)[0].get_attribute("aria-sort"), "descending")

    def test_the_filter_keeps_the_rows_that_hold_its_text(self):
        self.open("normal")
        field = self.one("[data-table=values] input")
        field.send_keys("Blocks.3.")
        names = self.column("values", 0)
        self.assertEqual(sorted(names), sorted(v["name"] for v in self.runs["normal"]["values"] if "blocks.3." in v["path"]))
        self.assertEqual(self.one("[data-table=values] .count").text, "8 of 201 values")
        field.send_keys("zzz")
        self.assertEqual(self.column("values", 0), ["No value has this text."])
        field.clear()
        field.send_keys("recomputed")
        self.assertEqual(set(self.column("values", 3)), {"recomputed"})

    def test_five_thousand_values_are_paged_and_sorted_at_once(self):
        self.open("large")
        self.assertEqual(self.one("[data-table=values] .count").text, "5,000 values")
        self.assertEqual(len(self.column("values", 0)), 25)
        pages = self.all("[data-table=values] .pages button")
        pages[1].click()
        self.assertEqual(self.column("values", 0), self.by("large", "bytes", True)[25:50])
        self.assertEqual(self.one("[data-table=values] .pages p").text, "26\u201350 of 5,000")
        # Rows outside the page are not in the document: that, not the clock, is what keeps it smooth.
        self.assertLess(self.script("return document.querySelectorAll('*').length"), 2500)
        for column in range(6):
            took = self.script("const button = document.querySelectorAll('[data-table=values] thead button')[arguments[0]];"
                               "const start = performance.now(); button.click();"
                               "document.body.offsetHeight; return performance.now() - start", column)
            print(f"sorting 5,000 values by column {column}: {took:.1f} ms")

    def test_nothing_is_wider_than_a_phone(self):
        for name in self.runs:
            for width in 375, 320, 1280:
                with self.subTest(name, width=width):
                    self.open(name, width)
                    self.assertEqual(self.script("return innerWidth"), width)
                    self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)

    def test_charts_have_their_lines_and_words(self):
        self.open("normal")
        lines = {chart: [line.get_attribute("data-series") for line in self.all(f"#{chart}-chart path.line")]
                 for chart in ("memory", "curve", "prediction")}
        self.assertEqual(lines, {"memory": ["Plain", "Measured", "Planned"], "curve": ["Least step time known"],
                                 "prediction": ["Measured", "Predicted"]})
        for chart in lines:
            self.assertEqual(len(self.all(f"#{chart}-chart path.rule.budget")), 1)
            picture = self.one(f"#{chart}-chart svg[role=img]")
            for name in picture.get_attribute("aria-labelledby").split():
                self.assertNotEqual(self.one("#" + name).get_attribute("textContent"), "")
        self.assertEqual([band.text for band in self.all("#memory-chart .band-name")], ["forward", "backward"])
        self.assertEqual(self.one("#curve-chart .mark").text, "chosen: 486.0 MiB, 224 ms")
        budget = self.one("#memory-chart path.rule.budget").rect
        plot = self.one("#memory-chart .plot").rect
        top = max(point["bytes"] for point in self.runs["normal"]["timelines"][0]["points"])
        peak = self.script("return Math.min(...[...arguments[0].getAttribute('d').matchAll(/V([0-9.]+)/g)].map((m) => +m[1]))",
                           self.all("#memory-chart path.line")[0])
        at = plot["y"] + plot["height"] * (1 - (1 - peak / 1000) * self.runs["normal"]["limit_bytes"] / top)
        self.assertAlmostEqual(budget["y"], at, delta=2)

    def test_charts_answer_pointer_and_keys(self):
        self.open("normal")
        plot = self.one("#memory-chart .plot")
        ActionChains(self.driver).move_to_element(plot).perform()
        tip = self.one("#memory-chart .tip")
        self.assertRegex(tip.text, r"(?s)time in the step 9\d\.\d ms.*Plain.*MiB.*Measured.*MiB.*Planned.*MiB")
        ActionChains(self.driver).move_to_element(self.one("h1")).perform()
        self.assertEqual(self.all("#memory-chart .tip"), [])
        frame = self.one("#curve-chart")
        frame.send_keys(Keys.HOME)
        readout = self.one("#curve-chart .readout")
        first = readout.get_attribute("textContent")
        self.assertEqual(first, "peak memory 378.0 MiB: Least step time known 278 ms")
        frame.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(readout.get_attribute("textContent"), "peak memory 414.0 MiB: Least step time known 258 ms")
        frame.send_keys(Keys.ESCAPE)
        self.assertEqual(self.all("#curve-chart .tip"), [])

    def test_charts_can_be_looked_at_closely(self):
        self.open("normal")
        plot = self.one("#memory-chart .plot")

        def box():
            return self.script("return document.querySelector('#memory-chart svg[role=img]').getAttribute('viewBox')")
        width = plot.rect["width"]
        # A drag over the second quarter shows that quarter: what was at its end is at the right edge.
        ActionChains(self.driver).move_to_element_with_offset(plot, -int(width / 4), 0).click_and_hold().move_by_offset(
            int(width / 4), 0).release().perform()
        left, _, span, _ = map(float, box().split())
        self.assertAlmostEqual(left, 250, delta=5)
        self.assertAlmostEqual(span, 250, delta=5)
        ActionChains(self.driver).move_to_element_with_offset(plot, 0, 0).perform()
        whole = 0.1824
        told = float(self.one("#memory-chart .tip p").text.split()[-2]) / 1000
        self.assertAlmostEqual(told, whole * 0.375, delta=0.002)
        self.assertFalse(self.all("#memory-chart .x-ticks span")[0].is_displayed())
        frame = self.one("#memory-chart")
        frame.send_keys(Keys.ESCAPE)
        self.assertEqual(box(), "0 0 1000 1000")
        self.assertTrue(self.all("#memory-chart .x-ticks span")[0].is_displayed())
        frame.send_keys("+")
        self.assertAlmostEqual(float(box().split()[2]), 500, delta=1)
        frame.send_keys("-")
        self.assertEqual(box(), "0 0 1000 1000")

    def test_what_was_live_at_the_peak_is_summed_by_module_and_op(self):
        self.open("normal")
        self.assertIn("while aten::_softmax runs", self.one("#peak .intro").text)
        self.assertEqual(self.column("peak", 0)[:2], ["what the plan can't drop", "aten::gelu"])
        self.assertEqual(self.column("peak", 3)[0], "30.1%")
        self.assertEqual(self.one("#peak .legend li:first-child").text.split("\n"),
                         ["parameters, gradients, state", "150.0 MiB", "in 1 value"])
        summary = self.all("#peak .tree summary")[0]
        inside = self.all("#peak .tree details ul")[0]
        self.assertFalse(inside.is_displayed())
        summary.click()
        self.assertTrue(inside.is_displayed())

    def test_tables_can_be_read_aloud(self):
        self.open("normal")
        for table in "values", "steps", "systems", "peak":
            self.assertNotEqual(self.one(f"[data-table={table}] caption").get_attribute("textContent"), "")
            heads = self.all(f"[data-table={table}] thead th")
            self.assertEqual({head.get_attribute("scope") for head in heads}, {"col"})
            rows = self.all(f"[data-table={table}] tbody th")
            self.assertEqual({row.get_attribute("scope") for row in rows}, {"row"})

    def test_an_empty_run_and_a_refused_step_say_so(self):
        self.open("empty")
        self.assertIn("This run holds no steps", self.one("main").text)
        self.assertEqual(self.all("table"), [])
        self.open("refused")
        self.assertIn("needs at least 612.0 MiB", self.one(".notice.bad").text)
        self.assertEqual(self.column("steps", 1), ["refused"])

    def test_text_stands_out_in_light_and_dark(self):
        contrast = """
          const parse = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
          const light = (color) => parse(color).map((c) => c / 255)
              .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
              .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = (node) => {
            const color = getComputedStyle(node).backgroundColor;
            return node.parentElement && color === 'rgba(0, 0, 0, 0)' ? behind(node.parentElement) : color;
          };
          return arguments[0].map((selector) => {
            const node = document.querySelector(selector);
            const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
            return [selector, (a + 0.05) / (b + 0.05)];
          });"""
        words = ["h1", ".lead", ".verdict", ".notice h2", ".notice li", ".figures dt", ".figures small", ".contents a",
                 ".legend li", ".y-ticks span", "td.is-text", ".unit", ".pill", ".pill.good", ".pill.bad", "thead button",
                 "footer p"]
        for scheme in "light", "dark":
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                        {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.open("normal")
            for selector, ratio in self.script(contrast, words):
                with self.subTest(selector, scheme=scheme):
                    self.assertGreaterEqual(ratio, 4.5)


if __name__ == "__main__":
    ENCORE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
