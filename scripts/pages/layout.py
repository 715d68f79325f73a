"""How pages are laid out: first screen, widths, paper, and what axe finds."""

import base64
import re
from pathlib import Path

from selenium.webdriver.common.by import By

from .browser import expect, requested

AXE = Path(__file__).resolve().parents[2] / "target/tools/axe.min.js"

SCREENS = [(1440, 900), (390, 844)]

# Where nothing may be cut, either.
FURTHER = [(320, 640), (600, 900), (768, 1024), (1024, 768), (1920, 1080)]

# A page of paper without its margins, in CSS pixels.
PAPER = (718, 1047)

# Labels of pictures that leave their picture.
CUT = """
return [...document.querySelectorAll("svg.chart text")].filter(label => {
  const box = label.getBoundingClientRect();
  if (box.width === 0 || label.closest("details:not([open])")) return false;
  const picture = label.ownerSVGElement.getBoundingClientRect();
  return box.left < picture.left - 1 || box.right > picture.right + 1 || box.bottom > picture.bottom + 2;
}).map(label => label.textContent);
"""

# What sticks out of the window and is not within something that scrolls.
STICKS_OUT = """
const width = document.documentElement.clientWidth;
return [...document.body.querySelectorAll("*")].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || e.closest(".scroll, nav ul, pre, .skip, .tip, .unseen, svg, details:not([open])")) return false;
  return box.right > width + 1 || box.left < -1;
}).map(e => e.outerHTML.slice(0, 160));
"""


# What is touched and is smaller than WCAG 2.2 (2.5.8) has it.
SMALL = """
return [...document.querySelectorAll("a, button, summary, input, select")].filter(e => {
  if (!e.checkVisibility() || e.closest(".skip, .unseen")) return false;
  const box = e.getBoundingClientRect();
  return box.width > 0 && (box.height < 24 || box.width < 24);
}).map(e => e.outerHTML.slice(0, 120));
"""


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
    if shown and width >= 600:
        top = shown[0].rect["y"]
        expect(top < height, f"the first chart begins at {top}, below the first screen of {height}")
    steps = [step for step in driver.find_elements(By.CSS_SELECTOR, ".first li strong") if step.is_displayed()]
    if steps:
        top = steps[0].rect["y"]
        expect(top + 20 < height, f"what to do first begins at {top}, below the first screen of {height}")
    nav = driver.find_element(By.CSS_SELECTOR, "nav.contents")
    expect(nav.value_of_css_property("position") == "sticky", "the contents do not stay")
    if width < 600:
        small = driver.execute_script(SMALL)
        expect(not small, f"lower or narrower than 24 px: {small[:5]}")
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


def widths(driver, page):
    """Nothing is cut, however wide the window is."""
    for width, height in FURTHER + SCREENS:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(page.as_uri())
        cut = driver.execute_script(CUT)
        expect(not cut, f"{width} px wide: labels are cut: {cut[:5]}")
        out = driver.execute_script(STICKS_OUT)
        expect(not out, f"{width} px wide: wider than the window: {out[:3]}")
        wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        expect(wide <= 0, f"{width} px wide: the page scrolls sideways by {wide} px")


def printed(driver, page):
    """On paper nothing scrolls, so nothing may be beside what is seen."""
    width, height = PAPER
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(page.as_uri())
    beside = """const width = document.documentElement.clientWidth;
      return [...document.querySelectorAll("main *, header *")].filter(e => e.checkVisibility() && !e.closest("svg, .tip, .unseen, dialog")
        && e.getBoundingClientRect().right > width + 1).map(e => e.outerHTML.slice(0, 120))"""
    out = driver.execute_script(beside)
    expect(not out, f"beside the paper: {out[:3]}")
    seen = driver.execute_script("return [...document.querySelectorAll('button:not(.sort)')].filter(b => b.checkVisibility()).map(b => b.textContent)")
    expect(not seen, f"buttons on paper: {seen[:5]}")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    if driver.find_elements(By.CSS_SELECTOR, ".chapter"):
        paper = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
        pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(paper["data"])))
        expect(pages <= 2, f"a run's answer takes {pages} pages of paper")
