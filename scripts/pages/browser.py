"""A browser, and what all tests of pages ask of it."""

import json
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

# Where the browser writes what a page saves.
DOWNLOADS = Path(tempfile.mkdtemp(prefix="pgassay-pages-"))

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


def until(driver, condition, what):
    """What follows a key comes when the machine has time for it: waited for, a minute at most."""
    for _ in range(200):
        if condition():
            return
        driver.execute_async_script(WAIT)
    raise AssertionError(what)


def unfold(driver):
    """Opens the parts of the page: what is tested is within one of them."""
    driver.execute_script("document.querySelectorAll('details.part').forEach(part => { part.open = true })")
    driver.execute_async_script(WAIT)


def requested(driver):
    """Addresses that the page asked for."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    sent = (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
    return [url for url in sent if not url.startswith(("chrome", "data:,"))]


def tip(driver):
    element = driver.find_element(By.CSS_SELECTOR, ".tip")
    return element.text if element.is_displayed() else ""


def click(driver, element):
    """As a pointer would, wherever the page is scrolled to."""
    driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", element)
    driver.execute_async_script(WAIT)


def centre(element):
    """The same, scrolled out from under the contents."""
    element.parent.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    return element


def button(parent, words):
    return centre(next(b for b in parent.find_elements(By.CSS_SELECTOR, "button") if b.text == words))


def copying(driver, element, press):
    """Whether a button says that it copied, once it is pressed: it says so for a moment only."""
    watch = """const [button] = arguments;
      window.copied = false;
      new MutationObserver(() => { window.copied ||= button.textContent === "Copied"; })
        .observe(button, { childList: true, characterData: true, subtree: true })"""
    driver.execute_script(watch, element)
    press()
    driver.execute_async_script(WAIT)
    return driver.execute_script("return window.copied")


def download(driver, figure, words):
    for old in DOWNLOADS.iterdir():
        old.unlink()
    button(figure, words).click()
    for _ in range(50):
        files = [file for file in DOWNLOADS.glob("*.json") if file.stat().st_size]
        if files:
            return json.loads(files[0].read_text())
        driver.execute_async_script(WAIT)
    raise AssertionError(f"{words!r} saves nothing")
