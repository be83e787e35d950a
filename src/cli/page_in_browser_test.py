#!/usr/bin/env python3
"""The page as people open it: a small comparison is run, and its report.html looked at in headless Chromium.

    page_in_browser_test.py PROGRAM

Needs Debian's chromium-driver and python3-selenium (script/setup test); ends with 77, skipped, where they are not.
"""
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError as missing:
    print(f"skipped: {missing}; script/setup test installs it")
    sys.exit(77)

CHROMIUM, DRIVER = pathlib.Path("/usr/bin/chromium"), pathlib.Path("/usr/bin/chromedriver")
for needed in (CHROMIUM, DRIVER):
    if not needed.exists():
        print(f"skipped: no {needed}; script/setup test installs it")
        sys.exit(77)

PROGRAM = sys.argv.pop(1)


def tutti(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=200)


class PageInBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.downloads = cls.folder / "downloads"
        cls.downloads.mkdir()
        cls.runs = cls.folder / "compare"
        done = tutti("compare", "--data", "synthetic", "--strategies", "local,ring,ps-async", "--workers", "1,2", "--steps",
                     "12", "--batch", "16", "--threads", "1", "--repeats", "2", "--out", str(cls.runs))
        assert done.returncode == 0, done.stderr
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1000"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": str(cls.downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(str(DRIVER)), options=options)
        cls.addClassCleanup(cls.browser.quit)

    def open(self, page, width=1400):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
        self.browser.get(page.as_uri())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def tearDown(self):
        complaints = [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(complaints, [])

    def test_every_figure_that_is_shown_is_drawn(self):
        self.open(self.runs / "report.html")
        shown = [figure for figure in self.all("figure") if figure.is_displayed()]
        names = {figure.get_attribute("id") for figure in shown}
        for name in ("throughput", "speed-up", "efficiency", "loss-steps", "loss-time", "anatomy", "bytes", "schedule",
                     "staleness", "cpu", "memory"):
            self.assertIn(name, names)
        for figure in shown:
            svg = figure.find_element(By.CSS_SELECTOR, ".plot svg")
            self.assertGreater(len(svg.find_elements(By.CSS_SELECTOR, "path, rect, line")), 3, figure.get_attribute("id"))
            self.assertNotEqual(svg.get_attribute("aria-label"), "")
            self.assertNotIn("NaN", svg.get_attribute("outerHTML"), figure.get_attribute("id"))
        self.assertEqual(len(self.all("#results tbody tr")), 5)
        self.assertTrue(self.one(".verdict p").text)

    def test_the_hashes_of_final_weights_are_told_apart(self):
        self.open(self.runs / "report.html")
        cells = [cell["summary"] for cell in json.loads((self.runs / "compare.json").read_text())]
        shown = [code.get_attribute("textContent") for code in self.all("code.digest")]
        self.assertEqual(sorted(shown), sorted(cell["parameters_sha256"][:8] for cell in cells))
        ends = len({cell["parameters_sha256"] for cell in cells})
        self.assertGreater(ends, 1)
        self.assertEqual(len({code.value_of_css_property("border-left-color") for code in self.all("code.digest")}), ends)
        self.assertIn(f"{len(cells)} runs, {ends} different ends", self.one("body").get_attribute("textContent"))

    def test_the_theme_follows_its_switch(self):
        self.open(self.runs / "report.html")
        colours = []
        for theme in ("light", "dark"):
            self.one(f'.theme button[data-theme="{theme}"]').click()
            self.assertEqual(self.one(f'.theme button[data-theme="{theme}"]').get_attribute("aria-pressed"), "true")
            colours.append(self.one("body").value_of_css_property("background-color"))
        self.assertNotEqual(*colours)

    def test_a_figure_s_data_comes_as_csv(self):
        self.open(self.runs / "report.html")
        self.browser.execute_script("document.querySelector('#throughput .csv').click()")
        file = self.downloads / "throughput.csv"
        # The browser takes the name first, and then puts the whole file there.
        WebDriverWait(self.browser, 20).until(lambda _: file.exists() and file.stat().st_size > 0)
        with file.open() as lines:
            rows = list(csv.DictReader(lines))
        self.assertEqual({row["strategy"] for row in rows}, {"local", "ring", "ps-async"})
        cells = json.loads((self.runs / "compare.json").read_text())
        speeds = {cell["strategy"]: cell["summary"]["samples_per_second"] for cell in cells}
        for row in rows:
            self.assertAlmostEqual(float(row["samples_per_second"]), speeds[row["strategy"]])

    def test_controls_choose_what_is_drawn(self):
        self.open(self.runs / "report.html")
        bars = lambda: len(self.all("#throughput .plot g[aria-label='bar'] rect, #throughput .plot g[aria-label='bar'] path"))
        before = bars()
        self.one('.chip[data-strategy="ring"]').click()
        self.assertEqual(bars(), before - 1)
        self.one('.chip[data-strategy="ring"]').click()
        self.assertEqual(bars(), before)
        Select(self.one("#workers")).select_by_value("1")
        self.assertEqual(bars(), 3)
        self.assertFalse(self.one("#schedule").is_displayed())  # alone there is nothing to exchange

    def test_a_phone_shows_it_without_scrolling_sideways(self):
        self.open(self.runs / "report.html", width=390)
        self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 390)

    def test_a_single_run_has_a_page(self):
        run = self.runs / "ring-2"
        self.assertEqual(tutti("report", str(run)).returncode, 0)
        self.open(run / "report.html")
        self.assertIn("ring", self.one("h1").text)
        self.assertTrue(self.one("#loss-steps").is_displayed())
        self.assertEqual(self.all(".verdict"), [])

    def test_a_study_comes_first(self):
        study = self.folder / "study"
        shutil.copytree(self.runs, study)
        claims = [{"text": f"claim {holds}", "reported": "", "ours": "1.9 times", "holds": holds} for holds in (True, False, None)]
        lines = [{"name": "ring", "points": [[1, 1], [2, 1.9]], "reference": False}, {"name": "theirs", "points": [[1, 1], [2, 1.5]], "reference": True}]
        (study / "study.json").write_text(json.dumps({
            "study": "made-up", "title": "A study", "ran": "<b>nothing</b>", "quick": True, "claims": claims,
            "tables": [{"title": "Speeds", "header": ["model", "theirs", "ours"], "rows": [["net", None, 12.345]]}],
            "charts": [{"title": "Speed-up", "x": "workers", "y": "times", "lines": lines}]}))
        done = tutti("report", str(study))
        self.assertEqual(done.returncode, 0, done.stderr)
        for width in (1400, 390):
            self.open(study / "report.html", width)
            self.assertEqual(self.one("h1").text, "A study")
            self.assertEqual(self.one("main section").get_attribute("id"), "study")
            self.assertEqual([row.text for row in self.all("#study .claims tbody td:nth-child(2)")], ["confirmed", "not confirmed", "not measured"])
            self.assertIn("12.35", self.one("#study").text)
            self.assertIn("<b>nothing</b>", self.one("#study .lead").text)
            self.assertEqual(len(self.all("#study-1 .plot svg")), 1)
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), width)

    def test_a_damaged_cell_is_shown_as_such_wherever_the_folder_lies(self):
        moved = self.folder / "moved"
        shutil.copytree(self.runs, moved)
        for repeat in moved.glob("ps-async-2*"):
            (repeat / "summary.json").write_text("<script>document.title = 'broken'</script>")
        done = tutti("report", str(moved))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.open(moved / "report.html")
        self.assertIn("damaged", self.one("#results tr.failed").text)
        self.assertNotEqual(self.browser.title, "broken")
        self.assertTrue(self.one("#throughput").is_displayed())


if __name__ == "__main__":
    unittest.main(verbosity=2)
