"""A page by keys alone."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .browser import copying, expect, tip, until

# What the focus is on, whether it is seen, and whether it shows.
FOCUSED = """
const e = document.activeElement;
if (!e || e === document.body) return null;
const kinds = { skip: "a.skip", flame: "svg.flame", evident: "svg.chart:has([data-evidence])", chart: "svg.chart", sort: ".sort", copy: ".copy", summary: "summary", tile: "a.figure" };
const kind = Object.keys(kinds).find(kind => e.matches(kinds[kind])) || e.tagName.toLowerCase();
const { top, bottom, left, right } = e.getBoundingClientRect();
const style = getComputedStyle(e);
return [kind, bottom > 0 && top < innerHeight && right > 0 && left < innerWidth,
  style.outlineStyle !== "none" || style.boxShadow !== "none", e.outerHTML.slice(0, 120)];
"""


def keyboard(driver):
    """The whole page by keys alone: every stop is seen and marked, and does what it is there for."""
    if not driver.find_elements(By.CSS_SELECTOR, "svg.chart:has(path.estimate[data-evidence])"):
        return False
    plain = driver.current_url.partition("#")[0]
    driver.get("about:blank")
    driver.get(plain)
    press = lambda *keys: ActionChains(driver).send_keys(*keys).perform()
    focus = lambda script: driver.execute_script(f"const e = document.activeElement; {script}")
    met = []
    for _ in range(2000):
        press(Keys.TAB)
        on = driver.execute_script(FOCUSED)
        if on is None:
            break
        kind, seen, marked, what = on
        expect(seen, f"the focus is out of sight: {what}")
        expect(marked, f"the focus shows nowhere: {what}")
        first = kind not in met
        met.append(kind)
        if kind in ("chart", "evident") and first:
            press(Keys.ARROW_RIGHT)
            until(driver, lambda: tip(driver), f"keys show no mark: {what}")
            if kind == "chart":
                continue
            press(Keys.ENTER)
            drawer = driver.find_element(By.CSS_SELECTOR, "dialog.drawer")
            until(driver, drawer.is_displayed, "Enter shows no evidence")
            press(Keys.ESCAPE)
            until(driver, lambda: not drawer.is_displayed(), "Escape leaves the evidence")
            expect(driver.execute_script(FOCUSED)[0] == kind, "the focus is not where it was")
        elif kind == "flame" and first:
            press(Keys.ARROW_UP)
            until(driver, lambda: tip(driver), "keys show no box")
            press(Keys.ESCAPE)
        elif kind == "sort" and first:
            press(Keys.ENTER)
            until(driver, lambda: focus("return e.closest('[aria-sort]') !== null"), "Enter sorts nothing")
        elif kind == "summary" and first:
            before = focus("return e.parentElement.open")
            press(Keys.ENTER)
            expect(focus("return e.parentElement.open") != before, "Enter unfolds nothing")
        elif kind == "copy" and first:
            expect(copying(driver, focus("return e"), lambda: press(Keys.ENTER)), "Enter copies nothing")
    else:
        raise AssertionError("the focus never leaves the page")
    expect(met and met[0] == "skip", f"the first stop is {met[:1]}")
    expect("evident" in met, "no chart with evidence is reached by keys")
    driver.get_log("performance")
    return True
