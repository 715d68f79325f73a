#!/usr/bin/python3
"""Drives pages of reports in a real browser (Debian: chromium-driver, python3-selenium; axe from
scripts/bootstrap.sh test).

    scripts/test-pages.py PAGE.html...

Each page at the width of a desk and of a phone, in light and dark: a chart and what to do
first begin within the first screen, nothing is wider than the window, no error is logged, nothing is
requested, axe finds nothing serious.  Then what its script adds: marks by pointer and by keys, a
flame graph that is explored, profiles that are saved and read again, tables that sort, commands that
copy; the whole page by keys alone.  At further widths and on paper nothing is cut.  The first failure
ends it with what was expected.

It runs under Debian's Python, which has the package.
"""

import shutil
import sys
from pathlib import Path

from pages.browser import DOWNLOADS, browser, expect, requested, unfold
from pages.flame import differences, exports, flame, flame_by_keys, views
from pages.keyboard import keyboard
from pages.layout import SCREENS, look, printed, widths
from pages.marks import commands, crosshair, evidence, heat, marks, tables

PARTS = (evidence, marks, crosshair, keyboard, heat, flame, flame_by_keys, differences, exports, tables, commands, views)


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    if not pages:
        sys.exit(__doc__)
    driver = browser()
    # Long enough on a machine that does other things, too.
    driver.set_script_timeout(600)
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
                            unfold(driver)
                            tried[part.__name__] = tried.get(part.__name__, 0) + part(driver)
                        errors = [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"]
                        expect(not errors, f"logged: {errors}")
                    except AssertionError as failed:
                        sys.exit(f"test-pages.py: {at}: {failed}")
            try:
                widths(driver, page)
                printed(driver, page)
                asked = [url for url in requested(driver) if url != page.as_uri()]
                expect(not asked, f"requested: {asked}")
            except AssertionError as failed:
                sys.exit(f"test-pages.py: {page.name}: {failed}")
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
