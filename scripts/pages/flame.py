"""Flame graphs: explored, held against others, saved and read again; views that addresses hold."""

import base64
import json
import os
import zlib
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from .browser import DOWNLOADS, WAIT, button, centre, click, download, expect, requested, tip, unfold

# What the program writes for the Firefox Profiler, where the caller has such a file.
FIREFOX = json.loads(Path(os.environ["FIREFOX_PROFILE"]).read_text()) if "FIREFOX_PROFILE" in os.environ else None


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


def exports(driver):
    """What is saved holds all samples of the page, whatever functions are called."""
    figures = driver.find_elements(By.CSS_SELECTOR, "figure.flamegraph")
    figures = [figure for figure in figures if figure.is_displayed()]
    if not figures:
        return False
    figure = figures[0]
    packed = driver.execute_script("return document.querySelector('script.profiles').textContent")
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
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
    unfold(driver)
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
    head = next(head for head in heads if head.is_displayed())
    centre(head.find_element(By.CSS_SELECTOR, ".sort")).click()
    driver.execute_async_script(WAIT)
    both, address = shown(), driver.current_url
    expect(both[1] != first[1], "a table does not sort")
    driver.get("about:blank")
    driver.get(address)
    unfold(driver)
    expect(shown() == both, f"{address} does not show what it showed")
    driver.back()
    driver.get(plain)
    driver.get(address)
    driver.back()
    unfold(driver)
    expect(shown() == first, "back does not show the page as it was")
    asked = [url for url in requested(driver) if not url.startswith((plain, "about:"))]
    expect(not asked, f"requested: {asked}")
    return True
