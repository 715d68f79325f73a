#!/usr/bin/python3
"""Drives `pgassay serve` in a real browser (Debian: chromium-driver, python3-selenium).

    scripts/test-serve.py PROGRAM RUNS [PICTURES]

RUNS is a directory with at least two runs.  The list, a run, a comparison of two and the history at the width
of a desk and of a phone, in light and dark: nothing is wider than the window, no error is logged, nothing is
asked of another host, axe finds nothing serious.  Then by keys alone: search, open a run, choose two and compare them.  Then a run that
`pgassay run` measures meanwhile is followed second by second, paused and let go by keys, until it has a report; and that
run is started again from its page, followed, and stopped.  The first failure ends it with what
was expected.  With PICTURES, screenshots are written there.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from pages.browser import browser, expect, requested
from pages.layout import SCREENS, STICKS_OUT, accessible
from pages.marks import marks

# Seconds until what a page waits for must be there, on a machine that does other things, too.
PATIENCE = 180


class Served:
    """A server, ended with Ctrl-C."""

    def __init__(self, program, runs):
        self.process = subprocess.Popen([program, "serve", runs, "--allow-run"], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.base = self.address.rstrip("/")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(10)
        expect(code == 0, f"serve ended with {code}")


def wait(driver, what, condition):
    passing = [StaleElementReferenceException]
    WebDriverWait(driver, PATIENCE, 0.2, passing).until(lambda _: condition(), f"never: {what}")


def shown(driver, css):
    return [element for element in driver.find_elements(By.CSS_SELECTOR, css) if element.is_displayed()]


def tops(driver, css):
    """Where what is shown begins, in one step: a live page replaces its elements at any time."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
        ".map(e => e.getBoundingClientRect().top + scrollY)",
        css,
    )


def quiet(driver, base):
    """Nothing was logged, and nobody else was asked."""
    errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    expect(not errors, f"logged: {errors}")
    elsewhere = [url for url in requested(driver) if not url.startswith(base)]
    expect(not elsewhere, f"asked of others: {elsewhere}")


def emulate(driver, width, height, scheme):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def fits(driver, what):
    out = driver.execute_script(STICKS_OUT)
    expect(not out, f"{what}: wider than the window: {out[:3]}")
    wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    expect(wide <= 0, f"{what} scrolls sideways by {wide} px")


def looked_at(driver, base, runs, pictures):
    """Every page, on every screen."""
    both = "&".join(f"run={run}" for run in runs[:2])
    places = {
        "list": "/",
        "run": f"/run/{runs[0]}",
        "compared": f"/compare?{both}",
        "history": f"/history?run={runs[0]}",
        "missing": "/run/nothing",
    }
    for width, height in SCREENS:
        for scheme in ("light", "dark"):
            emulate(driver, width, height, scheme)
            for name, path in places.items():
                driver.get(base + path)
                what = f"{name}, {width} x {height}, {scheme}"
                expect(driver.find_elements(By.CSS_SELECTOR, ".bar .home"), f"{what}: no bar")
                fits(driver, what)
                if name == "missing":
                    # The browser logs its status, which is not 200.
                    driver.get_log("browser")
                if name in ("run", "compared"):
                    # On a phone a run's figures, and what to do, stand before its charts.
                    first = ".tiles" if name == "run" and width < height else "svg.chart"
                    parts = shown(driver, first)
                    expect(parts and parts[0].rect["y"] < height, f"{what}: no {first} on the first screen")
                if pictures:
                    driver.save_screenshot(str(pictures / f"serve-{name}-{width}-{scheme}.png"))
                accessible(driver)
                quiet(driver, base)


def by_keys(driver, base, runs):
    """Searching, opening and comparing without a pointer."""
    emulate(driver, 1440, 900, "light")
    driver.get(base + "/")
    body = driver.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    search = driver.switch_to.active_element
    expect(search.get_attribute("name") == "q", "/ does not go to the search")
    search.send_keys("nothing-of-the-kind")
    wait(driver, "a search that finds nothing", lambda: "Nothing matches" in driver.find_element(By.ID, "runs").text)
    wait(driver, "the whole search in the address", lambda: "q=nothing-of-the-kind" in driver.current_url)
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys(runs[0])
    rows = lambda: shown(driver, ".runs tbody tr")
    wait(driver, "a search that finds one run", lambda: len(rows()) == 1)
    # The view can be pasted.
    address = driver.current_url
    driver.get("about:blank")
    driver.get(address)
    expect(len(rows()) == 1, f"{address} does not show what it showed")
    search = driver.find_element(By.NAME, "q")
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys(Keys.BACKSPACE)
    wait(driver, "all runs again", lambda: len(rows()) >= 2)
    # From the search onwards by Tab alone.
    reached = []
    for _ in range(40):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        element = driver.switch_to.active_element
        if element.get_attribute("name") == "run":
            element.send_keys(Keys.SPACE)
            reached.append(element.get_attribute("value"))
            if len(reached) == 2:
                break
    expect(len(reached) == 2, "two runs can't be chosen by keys")
    button = driver.find_element(By.ID, "compare")
    expect("2" in button.text and button.is_enabled(), f"the button says {button.text!r}")
    button.send_keys(Keys.ENTER)
    wait(driver, "a comparison", lambda: "2 runs side by side" in driver.title)
    driver.back()
    wait(driver, "the list again", lambda: len(rows()) >= 2)
    link = shown(driver, ".runs tbody th a")[0]
    name = link.get_attribute("title")
    link.send_keys(Keys.ENTER)
    wait(driver, "a run", lambda: f"/run/{name}" in driver.current_url)
    expect(marks(driver), "a run's chart has no marks")
    quiet(driver, base)


def followed(driver, program, runs, base, pictures):
    """A measurement, from its list entry to its report."""
    words = [program, "run", "select-only", "temp", "--clients", "1,2", "--trials", "8", "--time", "2.5"]
    words += ["--scale", "1", "--runs", runs]
    measuring = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        emulate(driver, 1440, 900, "light")
        def listed():
            expect(measuring.poll() is None, "the measurement ended before it was seen")
            driver.get(base + "/")
            return shown(driver, ".runs a.live")
        wait(driver, "a run that is measured, in the list", listed)
        wait(driver, "a click on it", lambda: shown(driver, ".runs a.live")[0].click() or True)
        # In one step: the page replaces the element when there is news.
        told = lambda: driver.execute_script("return document.querySelector('#live .headline')?.textContent")
        wait(driver, "the page of the measurement", told)
        first = told()
        wait(driver, "news of the measurement", lambda: told() not in (first, None))
        wait(driver, "a chart of it", lambda: shown(driver, "#live svg.chart"))
        # The trial that runs, second by second.
        wait(driver, "the seconds of a trial", lambda: shown(driver, "#live-minute svg.chart"))
        seconds = lambda: driver.execute_script("return document.querySelector('#live-minute .tiles')?.textContent")
        first = seconds()
        wait(driver, "a further second", lambda: seconds() not in (first, None))
        for width, height in SCREENS:
            for scheme in ("light", "dark"):
                emulate(driver, width, height, scheme)
                what = f"live, {width} x {height}, {scheme}"
                fits(driver, what)
                charts = tops(driver, "#live svg.chart")
                expect(charts and charts[0] < height, f"{what}: no chart on the first screen")
                accessible(driver)
                if pictures:
                    driver.save_screenshot(str(pictures / f"serve-live-{width}-{scheme}.png"))
        emulate(driver, 1440, 900, "light")
        paused_by_keys(driver, pictures)
        # When it ends, the page becomes its report by itself.
        wait(driver, "its report", lambda: not driver.find_elements(By.ID, "live"))
        wait(driver, "its report", lambda: "Share as one file" in driver.find_element(By.CSS_SELECTOR, ".bar").text)
        expect(measuring.wait(PATIENCE) == 0, measuring.stderr.read())
        quiet(driver, base)
    finally:
        if measuring.poll() is None:
            measuring.send_signal(signal.SIGINT)
            measuring.wait(30)


def press(driver, key):
    """A key to whatever has the focus: a live page may replace the element meanwhile."""
    ActionChains(driver).send_keys(key).perform()


def tab_to(driver, name):
    """Reaches an element by Tab alone, from wherever the focus is."""
    for _ in range(80):
        if driver.execute_script("return document.activeElement.id") == name:
            return
        press(driver, Keys.TAB)
    raise AssertionError(f"#{name} is not reached by keys")


def paused_by_keys(driver, pictures):
    """The measurement waits and goes on, and the focus stays on the button."""
    head = lambda: driver.execute_script("return document.getElementById('live-head').textContent")
    button = lambda: driver.execute_script("return document.getElementById('pause').textContent")
    focused = lambda: driver.execute_script("return document.activeElement.id")
    tab_to(driver, "pause")
    press(driver, Keys.ENTER)
    wait(driver, "the pause", lambda: "Paused since" in head())
    wait(driver, "what goes on", lambda: button() == "Go on")
    expect(focused() == "pause", "the focus is lost when the button changes")
    if pictures:
        driver.save_screenshot(str(pictures / "serve-paused-1440-light.png"))
    accessible(driver)
    press(driver, Keys.ENTER)
    wait(driver, "that it goes on", lambda: "Paused" not in head() and button().startswith("Pause"))


def started(driver, base, run, pictures):
    """A measurement from a page: asked, begun, followed, stopped."""
    driver.get(f"{base}/run/{run}")
    link = [a for a in driver.find_elements(By.CSS_SELECTOR, ".bar a") if a.text.startswith("Measure again")]
    expect(link, "no link that measures again")
    link[0].send_keys(Keys.ENTER)
    wait(driver, "the question", lambda: "Measure this again?" in driver.title)
    for width, height in SCREENS:
        emulate(driver, width, height, "light")
        fits(driver, f"question, {width} x {height}")
        if pictures:
            driver.save_screenshot(str(pictures / f"serve-question-{width}-light.png"))
    accessible(driver)
    tab_to(driver, "start")
    press(driver, Keys.ENTER)
    said = lambda: driver.execute_script("return document.getElementById('output')?.textContent || ''")
    wait(driver, "its output", lambda: "It runs." in said() and "server:" in said())
    for width, height in SCREENS:
        emulate(driver, width, height, "light")
        fits(driver, f"output, {width} x {height}")
        if pictures:
            driver.save_screenshot(str(pictures / f"serve-output-{width}-light.png"))
    accessible(driver)
    tab_to(driver, "stop")
    press(driver, Keys.ENTER)
    wait(driver, "its end", lambda: "It ended with exit code" in said())
    quiet(driver, base)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    # A shell's background jobs ignore Ctrl-C, and so would what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program, runs = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    pictures = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    names = sorted(entry.name for entry in Path(runs).iterdir() if (entry / "end.json").is_file())
    served = Served(program, runs)
    driver = browser()
    driver.set_script_timeout(PATIENCE)
    try:
        driver.get(served.address)
        wait(driver, "the list", lambda: driver.current_url == served.address)
        expect(not driver.get_cookies(), "a cookie goes to every port of this machine")
        wait(driver, "all runs read", lambda: not driver.find_elements(By.CSS_SELECTOR, "[data-unread]"))
        quiet(driver, served.base)
        looked_at(driver, served.base, names, pictures)
        by_keys(driver, served.base, names)
        followed(driver, program, runs, served.base, pictures)
        newest = max(entry.name for entry in Path(runs).iterdir() if (entry / "end.json").is_file())
        started(driver, served.base, newest, pictures)
    except (AssertionError, TimeoutException) as failed:
        sys.exit(f"test-serve.py: {failed}")
    finally:
        driver.quit()
        served.end()
    print("serve: looked at on a desk and on a phone, in light and dark; by keys; a measurement followed, paused, and started")


if __name__ == "__main__":
    main()
