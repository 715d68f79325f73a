"""Marks of charts, what they lead to, tables and commands."""

import re

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .browser import WAIT, button, centre, copying, expect, tip, until



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


def crosshair(driver):
    """A chosen mark is led to the axes, by keys and by a pointer; nothing is left when none is chosen."""
    charts = driver.find_elements(By.CSS_SELECTOR, "svg.chart:not(.forest):has(path.estimate):has(.axes .grid)")
    charts = [chart for chart in charts if chart.is_displayed()]
    if not charts:
        return False
    chart = charts[0]
    lines = lambda: chart.find_element(By.CSS_SELECTOR, ".cross").get_attribute("d")
    # Whatever was chosen before.
    driver.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ESCAPE)
    expect(not lines(), "a cross without a mark")
    chart.send_keys(Keys.ARROW_RIGHT)
    first = lines()
    expect(first and "H" in first and "V" in first, f"keys: the cross is {first!r}")
    box = driver.execute_script("const b = arguments[0].querySelector('.cross').getBBox(); return [b.width, b.height]", chart)
    expect(min(box) > 50, f"the cross measures {box}")
    chart.send_keys(Keys.ESCAPE)
    expect(not lines(), "Escape leaves the cross")
    mark = chart.find_elements(By.CSS_SELECTOR, "path.estimate")[-1]
    ActionChains(driver).move_to_element(mark).perform()
    expect(lines(), "a pointer shows no cross")
    touch = """const { x, y, width, height } = arguments[1].getBoundingClientRect();
      const at = { clientX: x + width / 2, clientY: y + height / 2, pointerType: "touch", bubbles: true };
      arguments[0].dispatchEvent(new PointerEvent("pointerleave", at));
      const before = arguments[0].querySelector(".cross").getAttribute("d");
      arguments[0].dispatchEvent(new PointerEvent("pointerdown", at));
      return [before, arguments[0].querySelector(".cross").getAttribute("d")]"""
    before, after = driver.execute_script(touch, chart, mark)
    expect(not before and after, f"a touch shows {after!r} after {before!r}")
    chart.send_keys(Keys.ESCAPE)
    return True


def heat(driver):
    maps = [heat for heat in driver.find_elements(By.CSS_SELECTOR, "svg.chart:has(.heat)") if heat.is_displayed()]
    if not maps:
        return False
    columns = maps[0].find_elements(By.CSS_SELECTOR, ".heat rect")
    # Both pictures draw the same cells, one of them from the other's.
    stroke = """const use = arguments[0].querySelector(".heat use");
      const cells = use ? document.querySelector(use.getAttribute("href")) : arguments[0].querySelector(".cells");
      return [use ? use.getBBox().width : cells.getBBox().width, getComputedStyle(cells.querySelector("path")).stroke]"""
    wide, colour = driver.execute_script(stroke, maps[0])
    expect(wide > 1 and colour != "none", f"cells are {wide} wide, drawn in {colour}")
    ActionChains(driver).move_to_element(columns[len(columns) // 2]).perform()
    until(driver, lambda: "half within" in tip(driver) or "no transaction" in tip(driver), "a column says nothing")
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
    centre(head.find_element(By.CSS_SELECTOR, ".sort")).click()
    driver.execute_async_script(WAIT)
    down = names()
    centre(head.find_element(By.CSS_SELECTOR, ".sort")).click()
    driver.execute_async_script(WAIT)
    up = names()
    # Sorted by the first figure, else by words; rows of the same key keep their order.
    keys = lambda names: list(dict.fromkeys(re.sub(r"^([\d.,]+).*", r"\1", name) for name in names))
    expect(keys(down) == list(reversed(keys(up))), f"sorted down {down}, up {up}")
    expect(sorted(before) == sorted(down) == sorted(up), "rows were lost")
    return True


def commands(driver):
    button = next((b for b in driver.find_elements(By.CSS_SELECTOR, "button.copy") if b.is_displayed()), None)
    if button is None:
        return False
    expect(copying(driver, button, centre(button).click), f"the button says {button.text!r}")
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
            centre(link).click()
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
