#!/usr/bin/python3
"""Drives pages of reports in a real browser (Debian: chromium-driver, python3-selenium).

    scripts/test-pages.py PAGE.html...

Each page at the width of a desk and of a phone, in light and dark: a chart and what to do
first begin within the first screen, nothing is wider than the window, no error is logged, nothing is requested.  Then
what its script adds: marks by pointer and by keys, a flame graph that zooms and searches, tables
that sort, commands that copy.  The first failure ends it with what was expected.

It runs under Debian's Python, which has the package.
"""

import json
import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

SCREENS = [(1440, 900), (390, 844)]

# What sticks out of the window and is not within something that scrolls.
STICKS_OUT = """
const width = document.documentElement.clientWidth;
return [...document.body.querySelectorAll("*")].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || e.closest(".scroll, nav ul, pre, .skip, .tip, .unseen, svg, details:not([open])")) return false;
  return box.right > width + 1 || box.left < -1;
}).map(e => e.outerHTML.slice(0, 160));
"""

# A script that ends after 300 ms.
WAIT = "const done = arguments[0]; setTimeout(done, 300)"


def browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def requested(driver):
    """Addresses that the page asked for."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    sent = (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
    return [url for url in sent if not url.startswith(("chrome", "data:,"))]


def look(driver, page, scheme, width, height):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    driver.get(page.as_uri())
    charts = driver.find_elements(By.CSS_SELECTOR, "svg.chart")
    shown = [chart for chart in charts if chart.is_displayed()]
    if shown:
        top = shown[0].rect["y"]
        expect(top < height, f"the first chart begins at {top}, below the first screen of {height}")
    steps = [step for step in driver.find_elements(By.CSS_SELECTOR, ".first li strong") if step.is_displayed()]
    if steps:
        top = steps[0].rect["y"]
        expect(top + 20 < height, f"what to do first begins at {top}, below the first screen of {height}")
    out = driver.execute_script(STICKS_OUT)
    expect(not out, f"wider than the window: {out[:3]}")
    wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    expect(wide <= 0, f"the page scrolls sideways by {wide} px")
    errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    expect(not errors, f"logged: {errors}")
    asked = [url for url in requested(driver) if url != page.as_uri()]
    expect(not asked, f"requested: {asked}")


def tip(driver):
    element = driver.find_element(By.CSS_SELECTOR, ".tip")
    return element.text if element.is_displayed() else ""


def marks(driver):
    charts = driver.find_elements(By.CSS_SELECTOR, "svg.chart:has(path.estimate)")
    charts = [chart for chart in charts if chart.is_displayed()]
    if not charts:
        return False
    chart = charts[0]
    driver.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_RIGHT)
    first = tip(driver)
    expect(first, "a key shows no mark")
    chart.send_keys(Keys.ARROW_RIGHT)
    expect(tip(driver) != first or not tip(driver), "a second key shows the same mark")
    chart.send_keys(Keys.ESCAPE)
    expect(tip(driver) == "", "Escape hides nothing")
    mark = chart.find_element(By.CSS_SELECTOR, "path.estimate")
    ActionChains(driver).move_to_element_with_offset(mark, 6, 4).perform()
    expect(tip(driver), "a pointer beside a mark shows nothing")
    return True


def heat(driver):
    maps = [heat for heat in driver.find_elements(By.CSS_SELECTOR, "svg.chart:has(.heat)") if heat.is_displayed()]
    if not maps:
        return False
    columns = maps[0].find_elements(By.CSS_SELECTOR, ".heat rect")
    ActionChains(driver).move_to_element(columns[len(columns) // 2]).perform()
    expect("half within" in tip(driver) or "no transaction" in tip(driver), f"a column says {tip(driver)!r}")
    return True


def flame(driver):
    graphs = driver.find_elements(By.CSS_SELECTOR, "svg.flame")
    graphs = [graph for graph in graphs if graph.is_displayed()]
    if not graphs:
        return False
    graph = graphs[0]
    whole = graph.rect["width"]
    rects = graph.find_elements(By.CSS_SELECTOR, "rect")
    small = sorted(rects, key=lambda rect: rect.rect["width"])[len(rects) // 2]
    width = small.rect["width"]
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", small)
    driver.execute_async_script(WAIT)
    expect(small.rect["width"] > 0.9 * whole, f"a box of {width} px zooms to {small.rect['width']} of {whole}")
    figure = graph.find_element(By.XPATH, "./ancestor::figure")
    figure.find_element(By.CSS_SELECTOR, ".controls button").click()
    driver.execute_async_script(WAIT)
    expect(abs(small.rect["width"] - width) < 2, "the whole is not shown again")
    search = figure.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("exec")
    driver.execute_async_script(WAIT)
    said = figure.find_element(By.CSS_SELECTOR, ".controls [role=status]").text
    expect("found" in said and "%" in said, f"a search says {said!r}")
    search.clear()
    return True


def tables(driver):
    # A phone shows some tables as lists, which have no heads.
    css = "thead th:first-child:has(.sort):not(details:not([open]) *)"
    heads = driver.find_elements(By.CSS_SELECTOR, css)
    head = next((head for head in heads if head.is_displayed()), None)
    if head is None:
        return False
    table = head.find_element(By.XPATH, "./ancestor::table")

    def names():
        """What the rows are called, without the marks of their notes."""
        script = "return [...arguments[0].tBodies[0].rows].map(row => row.cells[0].firstChild.textContent)"
        return driver.execute_script(script, table)

    before = names()
    head.find_element(By.CSS_SELECTOR, ".sort").click()
    driver.execute_async_script(WAIT)
    down = names()
    head.find_element(By.CSS_SELECTOR, ".sort").click()
    driver.execute_async_script(WAIT)
    up = names()
    # Rows of the same name keep their order.
    expect(list(dict.fromkeys(down)) == list(reversed(dict.fromkeys(up))), f"sorted down {down}, up {up}")
    expect(sorted(before) == sorted(down) == sorted(up), "rows were lost")
    return True


def views(driver):
    """What is shown stands in the address: opened anew it is shown again, and back is as before."""
    graphs = [graph for graph in driver.find_elements(By.CSS_SELECTOR, "svg.flame") if graph.is_displayed()]
    heads = driver.find_elements(By.CSS_SELECTOR, "thead th:first-child:has(.sort):not(details:not([open]) *)")
    if not graphs or not any(head.is_displayed() for head in heads):
        return False
    plain = driver.current_url.partition("#")[0]
    # Another address first, so that the page is read anew.
    driver.get("about:blank")
    driver.get(plain)
    widths = "return [...document.querySelectorAll('svg.flame rect')].map(rect => rect.getAttribute('width')).join()"
    order = "return [...document.querySelectorAll('tbody th')].map(cell => cell.textContent).join()"
    shown = lambda: (driver.execute_script(widths), driver.execute_script(order))
    first = shown()
    graph = next(graph for graph in driver.find_elements(By.CSS_SELECTOR, "svg.flame") if graph.is_displayed())
    rects = sorted(graph.find_elements(By.CSS_SELECTOR, "rect"), key=lambda rect: rect.rect["width"])
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", rects[len(rects) // 2])
    driver.execute_async_script(WAIT)
    zoomed = shown()
    expect(zoomed[0] != first[0], "a box does not zoom")
    heads = driver.find_elements(By.CSS_SELECTOR, "thead th:first-child:has(.sort):not(details:not([open]) *)")
    next(head for head in heads if head.is_displayed()).find_element(By.CSS_SELECTOR, ".sort").click()
    driver.execute_async_script(WAIT)
    both, address = shown(), driver.current_url
    expect(both[1] != first[1], "a table does not sort")
    driver.get("about:blank")
    driver.get(address)
    driver.execute_async_script(WAIT)
    expect(shown() == both, f"{address} does not show what it showed")
    driver.back()
    driver.get(plain)
    driver.get(address)
    driver.back()
    driver.execute_async_script(WAIT)
    expect(shown() == first, "back does not show the page as it was")
    asked = [url for url in requested(driver) if not url.startswith((plain, "about:"))]
    expect(not asked, f"requested: {asked}")
    return True


def commands(driver):
    button = next((b for b in driver.find_elements(By.CSS_SELECTOR, "button.copy") if b.is_displayed()), None)
    if button is None:
        return False
    button.click()
    driver.execute_async_script(WAIT)
    expect(button.text == "Copied", f"the button says {button.text!r}")
    return True


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    if not pages:
        sys.exit(__doc__)
    driver = browser()
    tried = {}
    try:
        for page in pages:
            for width, height in SCREENS:
                for scheme in ("light", "dark"):
                    at = f"{page.name}, {width} x {height}, {scheme}"
                    try:
                        look(driver, page, scheme, width, height)
                        for part in (marks, heat, flame, tables, commands, views):
                            tried[part.__name__] = tried.get(part.__name__, 0) + part(driver)
                        errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
                        expect(not errors, f"logged: {errors}")
                    except AssertionError as failed:
                        sys.exit(f"test-pages.py: {at}: {failed}")
            print(f"{page.name}: looked at on a desk and on a phone, in light and dark")
    finally:
        driver.quit()
    missing = [name for name, count in tried.items() if not count]
    if missing:
        sys.exit(f"test-pages.py: no page had: {', '.join(missing)}")
    print("tried:", ", ".join(f"{name} {count} times" for name, count in tried.items()))


if __name__ == "__main__":
    main()
