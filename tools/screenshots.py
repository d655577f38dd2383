"""Picture every page of the built site, light, dark, and as on a phone. It checks nothing: look at the pictures.

Usage: python tools/screenshots.py [page.html ...]

Pages are named relative to _build/html; without any, all are pictured. The pictures go to _build/screenshots.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
PICTURES = ROOT / "_build" / "screenshots"
FOLDERS = ["book", "notebooks"]  # the pages with content; the rest are indices and the search
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}


def main(names):
    pages = [SITE / name for name in names] or sorted(p for f in FOLDERS for p in (SITE / f).rglob("*.html"))
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not pages or chromium is None:
        sys.exit("screenshots need a built site (make book) and chromium on the PATH")
    if not names:
        shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for look, options in LOOKS.items():
            tab = browser.new_context(**options).new_page()
            for page in pages:
                tab.goto(page.as_uri())
                tab.evaluate("() => window.MathJax?.startup?.promise")
                name = "_".join(page.relative_to(SITE).with_suffix("").parts)
                tab.screenshot(path=PICTURES / f"{name}.{look}.png", full_page=True)
        browser.close()
    print(f"{len(pages) * len(LOOKS)} pictures in {PICTURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
