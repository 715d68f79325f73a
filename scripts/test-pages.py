#!/usr/bin/python3
"""Drives pages of reports in a real browser (Debian: chromium-driver, python3-selenium; axe from
scripts/bootstrap.sh test).

    scripts/test-pages.py PAGE.html...

Each page at the width of a desk and of a phone, in light and dark: a chart and what to do
first begin within the first screen, nothing is wider than the window, no error is logged, nothing is
requested, axe finds nothing serious.  Then what its script adds: marks by pointer and by keys, a
flame graph that is explored, profiles that are saved and read again, tables that sort, commands that
copy.  The first failure ends it with what was expected.

It runs under Debian's Python, which has the package.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

# Where the browser writes what a page saves.
DOWNLOADS = Path(tempfile.mkdtemp(prefix="pgassay-pages-"))
# What the program writes for the Firefox Profiler, where the caller has such a file.
FIREFOX = json.loads(Path(os.environ["FIREFOX_PROFILE"]).read_text()) if "FIREFOX_PROFILE" in os.environ else None

AXE = Path(__file__).resolve().parent.parent / "target/tools/axe.min.js"

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
    downloads = {
        "download.default_directory": str(DOWNLOADS),
        "profile.default_content_setting_values.automatic_downloads": 1,
    }
    options.add_experimental_option("prefs", downloads)
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


def look(driver, page, colours, width, height):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    media = {"features": [{"name": "prefers-color-scheme", "value": colours}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
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
    # Rules look at the layout and at the colours: each of both once.
    if (width, colours) in ((SCREENS[0][0], "light"), (SCREENS[1][0], "dark")):
        accessible(driver)
    driver.refresh()
    driver.get_log("performance")


def accessible(driver):
    """axe's rules, over all that can be unfolded, but for the thousands of marks within pictures."""
    driver.execute_script("document.querySelectorAll('details').forEach(details => details.open = true)")
    driver.execute_script(AXE.read_text())
    script = """const done = arguments[0];
      const context = { include: document.documentElement, exclude: ["svg.chart > *"] };
      axe.run(context, { resultTypes: ["violations"] }).then(({ passes, violations }) => done([passes.length, violations.map(found =>
        [found.impact, found.id, found.help, found.nodes.slice(0, 3).map(node => node.html.slice(0, 160))])]))"""
    passed, found = driver.execute_async_script(script)
    expect(passed > 10, f"only {passed} rules of accessibility were applied")
    grave = [rule for rule in found if rule[0] in ("serious", "critical")]
    expect(not grave, f"not accessible: {grave}")


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
    # Both pictures draw the same cells, one of them from the other's.
    stroke = """const use = arguments[0].querySelector(".heat use");
      const cells = use ? document.querySelector(use.getAttribute("href")) : arguments[0].querySelector(".cells");
      return [use ? use.getBBox().width : cells.getBBox().width, getComputedStyle(cells.firstChild).stroke]"""
    wide, colour = driver.execute_script(stroke, maps[0])
    expect(wide > 1 and colour != "none", f"cells are {wide} wide, drawn in {colour}")
    ActionChains(driver).move_to_element(columns[len(columns) // 2]).perform()
    expect("half within" in tip(driver) or "no transaction" in tip(driver), f"a column says {tip(driver)!r}")
    return True


def click(driver, element):
    """As a pointer would, wherever the page is scrolled to."""
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", element)
    driver.execute_async_script(WAIT)


def boxes(figure):
    """Boxes of a flame graph: what each says, where it is, how wide it is."""
    script = """return [...arguments[0].querySelectorAll("svg.flame rect")].map(rect => {
      const { x, y, width } = rect.getBoundingClientRect();
      return { said: rect.getAttribute("data-tip"), x, y, width };
    })"""
    return figure.parent.execute_script(script, figure)


def saids(figure):
    return [box["said"] for box in boxes(figure)]


def function_of(said):
    return said.partition(":")[0]


def button(parent, words):
    return next(b for b in parent.find_elements(By.CSS_SELECTOR, "button") if b.text == words)


def flame(driver):
    figures = driver.find_elements(By.CSS_SELECTOR, "figure.flamegraph")
    figures = [figure for figure in figures if figure.is_displayed()]
    if not figures:
        return False
    figure = figures[0]
    graph = figure.find_element(By.CSS_SELECTOR, "svg.flame")
    whole = graph.rect["width"]
    first = boxes(figure)
    small = sorted(range(len(first)), key=lambda index: first[index]["width"])[len(first) // 2]
    said = first[small]["said"]
    click(driver, graph.find_elements(By.CSS_SELECTOR, "rect")[small])
    zoomed = max(box["width"] for box in boxes(figure) if box["said"] == said)
    expect(zoomed > 0.9 * whole, f"a box of {first[small]['width']} px zooms to {zoomed} of {whole}")
    told = figure.find_element(By.CSS_SELECTOR, ".functions").text
    expect(function_of(said) in told and "from" in told and "to" in told, f"callers and callees: {told!r}")
    button(figure, "Show the whole").click()
    driver.execute_async_script(WAIT)
    expect(saids(figure) == [box["said"] for box in first], "the whole is not shown again")
    button(figure, "All functions").click()
    driver.execute_async_script(WAIT)

    search = figure.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("exec")
    driver.execute_async_script(WAIT)
    told = figure.find_element(By.CSS_SELECTOR, ".controls [role=status]").text
    expect("found" in told and "%" in told, f"a search says {told!r}")
    dim = figure.find_elements(By.CSS_SELECTOR, "svg.flame .dim")
    expect(0 < len(dim) < len(first), f"a search dims {len(dim)} of {len(first)}")
    search.send_keys(Keys.BACKSPACE * 4)
    driver.execute_async_script(WAIT)

    # Inverted, the first row are the functions that were sampled themselves.
    button(figure, "Invert").click()
    driver.execute_async_script(WAIT)
    table = figure.find_element(By.CSS_SELECTOR, ".functions tbody tr").text.split("\n")[0]
    widest = function_of(min(boxes(figure), key=lambda box: (box["y"], box["x"]))["said"])
    expect(table.startswith(widest), f"the widest leaf is {widest}, the table begins with {table}")
    button(figure, "Invert").click()
    driver.execute_async_script(WAIT)
    return True


def flame_by_keys(driver):
    graphs = [graph for graph in driver.find_elements(By.CSS_SELECTOR, "svg.flame") if graph.is_displayed()]
    if not graphs:
        return False
    graph = graphs[0]
    driver.execute_script("arguments[0].focus()", graph)
    graph.send_keys(Keys.ARROW_UP)
    first = tip(driver)
    graph.send_keys(Keys.ARROW_UP)
    second = tip(driver)
    expect(first and second and first != second, f"keys walk from {first!r} to {second!r}")
    graph.send_keys(Keys.ARROW_DOWN)
    expect(tip(driver) == first, "a key does not lead back")
    graph.send_keys(Keys.ARROW_UP, Keys.ENTER)
    driver.execute_async_script(WAIT)
    expect("zoom." in driver.current_url, "Enter does not zoom")
    graph.send_keys(Keys.ESCAPE)
    driver.execute_async_script(WAIT)
    expect("zoom." not in driver.current_url, "Escape does not show the whole")
    graph.send_keys("/")
    focus = driver.execute_script("return document.activeElement.type")
    expect(focus == "search", f"/ leads to {focus}")
    figure = graph.find_element(By.XPATH, "./ancestor::figure")
    button(figure, "All functions").click()
    driver.execute_async_script(WAIT)
    return True


def differences(driver):
    """Another profile of the page, and one that another run saved."""
    figures = driver.find_elements(By.CSS_SELECTOR, "figure.flamegraph")
    figures = [figure for figure in figures if figure.is_displayed()]
    if not figures:
        return False
    figure = figures[0]
    profile, against = [Select(select) for select in figure.find_elements(By.CSS_SELECTOR, ".controls select")]
    names = [option.text for option in profile.options]
    expect(len(names) > 1, f"profiles: {names}")
    chosen = profile.first_selected_option.text
    other = next(name for name in names if name != chosen)
    before = against.first_selected_option.text
    against.select_by_visible_text(other)
    driver.execute_async_script(WAIT)
    told = saids(figure)
    expect(all("points)" in said for said in told), f"a difference says {told[:2]}")
    expect(figure.find_elements(By.CSS_SELECTOR, "svg.flame .look-more, svg.flame .look-less"), "nothing is coloured")
    expect("change" in figure.find_element(By.CSS_SELECTOR, ".functions").text, "functions have no change")
    # The same profile is no different from itself, saved and read again.
    saved = download(driver, figure, "Save for speedscope")
    names = [profile["name"] for profile in saved["profiles"]]
    profile.select_by_visible_text(names[0])
    figure.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(DOWNLOADS / "pgassay.speedscope.json"))
    driver.execute_async_script(WAIT)
    driver.execute_async_script(WAIT)
    shown = against.first_selected_option.text
    expect(shown == f"pgassay.speedscope.json: {names[0]}", f"a file is shown as {shown!r}")
    changed = [said for said in saids(figure) if "(+0.0 points)" not in said]
    expect(not changed, f"the same profile differs: {changed[:2]}")
    against.select_by_visible_text(before)
    profile.select_by_visible_text(chosen)
    driver.execute_async_script(WAIT)
    return True


def download(driver, figure, words):
    for old in DOWNLOADS.iterdir():
        old.unlink()
    button(figure, words).click()
    for _ in range(50):
        files = list(DOWNLOADS.glob("*.json"))
        if files:
            return json.loads(files[0].read_text())
        driver.execute_async_script(WAIT)
    raise AssertionError(f"{words!r} saves nothing")


def exports(driver):
    """What is saved holds all samples of the page, whatever functions are called."""
    figures = driver.find_elements(By.CSS_SELECTOR, "figure.flamegraph")
    figures = [figure for figure in figures if figure.is_displayed()]
    if not figures:
        return False
    figure = figures[0]
    data = json.loads(driver.execute_script("return document.querySelector('script.profiles').textContent"))
    totals = [sum(view["own"][1::2]) for view in data["views"]]
    speedscope = download(driver, figure, "Save for speedscope")
    expect([sum(p["weights"]) for p in speedscope["profiles"]] == totals, "speedscope's samples are not the page's")
    frames = len(speedscope["shared"]["frames"])
    for profile in speedscope["profiles"]:
        expect(len(profile["samples"]) == len(profile["weights"]), "a sample has no weight")
        expect(all(0 <= f < frames for sample in profile["samples"] for f in sample), "a frame is not there")
    firefox = download(driver, figure, "Save for the Firefox Profiler")
    expect([sum(t["samples"]["weight"]) for t in firefox["threads"]] == totals, "Firefox's samples are not the page's")
    for thread in firefox["threads"]:
        for name in ("frameTable", "funcTable", "stackTable", "samples"):
            table = thread[name]
            columns = {key: len(column) for key, column in table.items() if isinstance(column, list)}
            expect(set(columns.values()) == {table["length"]}, f"{name}: {columns}")
    if FIREFOX:
        # The program writes the same keys.
        shape = lambda thread: {key: sorted(table) for key, table in thread.items() if isinstance(table, dict)}
        expect(sorted(firefox) == sorted(FIREFOX), f"{sorted(firefox)}, {sorted(FIREFOX)}")
        expect(sorted(firefox["meta"]) == sorted(FIREFOX["meta"]), "meta differs")
        expect(sorted(firefox["threads"][0]) == sorted(FIREFOX["threads"][0]), "threads differ")
        expect(shape(firefox["threads"][0]) == shape(FIREFOX["threads"][0]), "tables differ")
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
    # Sorted by the first figure, else by words; rows of the same key keep their order.
    keys = lambda names: list(dict.fromkeys(re.sub(r"^([\d.,]+).*", r"\1", name) for name in names))
    expect(keys(down) == list(reversed(keys(up))), f"sorted down {down}, up {up}")
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
    click(driver, rects[len(rects) // 2])
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


def evidence(driver):
    """A point of the chart, by pointer and by keys, a tile, and a row of a table lead to what they rest on."""
    charts = driver.find_elements(By.CSS_SELECTOR, "svg.chart:has(path.estimate[data-evidence])")
    charts = [chart for chart in charts if chart.is_displayed()]
    if not charts:
        return False
    chart = charts[0]
    drawer = driver.find_element(By.CSS_SELECTOR, "dialog.drawer")
    expect(not drawer.is_displayed(), "the drawer is open at first")

    def shown(by):
        driver.execute_async_script(WAIT)
        expect(drawer.is_displayed(), f"{by} shows no evidence")
        expect("point=" in driver.current_url, f"{by}: not in the address: {driver.current_url}")
        text = drawer.text
        expect("trial" in text, f"{by}: no trials: {text[:80]!r}")
        wide = driver.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", drawer)
        expect(wide <= 0, f"{by}: the drawer scrolls sideways by {wide} px")
        return text.split("\n")[0]

    def close(by):
        driver.execute_async_script(WAIT)
        expect(not drawer.is_displayed(), f"{by} does not close the drawer")
        expect("point=" not in driver.current_url, f"{by} leaves the drawer in the address")

    mark = chart.find_elements(By.CSS_SELECTOR, "path.estimate")[-1]
    ActionChains(driver).move_to_element(mark).click().perform()
    by_pointer = shown("a click")
    address = driver.current_url
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    close("Escape")
    driver.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_LEFT, Keys.ENTER)
    expect(shown("Enter") == by_pointer, "keys lead elsewhere")
    button(drawer, "Close").click()
    close("Close")
    for css in (".tiles a.figure", "tbody th a[href*=point-]"):
        links = [link for link in driver.find_elements(By.CSS_SELECTOR, css) if link.is_displayed()]
        for link in links[:1]:
            link.click()
            shown(css)
            driver.back()
            close("going back")
    driver.get("about:blank")
    driver.get(address)
    expect(driver.find_element(By.CSS_SELECTOR, "dialog.drawer").is_displayed(), "the address does not open it")
    button(driver.find_element(By.CSS_SELECTOR, "dialog.drawer"), "Close").click()
    driver.execute_async_script(WAIT)
    driver.get_log("performance")
    return True


PARTS = (evidence, marks, heat, flame, flame_by_keys, differences, exports, tables, commands, views)


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    if not pages:
        sys.exit(__doc__)
    driver = browser()
    driver.set_script_timeout(120)
    tried = {}
    try:
        for page in pages:
            for width, height in SCREENS:
                for scheme in ("light", "dark"):
                    at = f"{page.name}, {width} x {height}, {scheme}"
                    try:
                        look(driver, page, scheme, width, height)
                        # What it can do is the same in other colours.
                        for part in PARTS if scheme == "light" else ():
                            tried[part.__name__] = tried.get(part.__name__, 0) + part(driver)
                        errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
                        expect(not errors, f"logged: {errors}")
                    except AssertionError as failed:
                        sys.exit(f"test-pages.py: {at}: {failed}")
            print(f"{page.name}: looked at on a desk and on a phone, in light and dark")
    finally:
        driver.quit()
        shutil.rmtree(DOWNLOADS)
    missing = [name for name, count in tried.items() if not count]
    if missing:
        sys.exit(f"test-pages.py: no page had: {', '.join(missing)}")
    print("tried:", ", ".join(f"{name} {count} times" for name, count in tried.items()))


if __name__ == "__main__":
    main()
