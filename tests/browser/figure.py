"""The picture of the page in docs: `PYTHONPATH=tests python -m browser.figure`."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from browser import chromium, served
from browser.steps import add_tenet, await_nodes

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "page.png"


def main() -> None:
    """Add TENET to the film graph, ask for its language, and keep what can be seen."""
    path = chromium()
    if path is None:
        sys.exit("no chromium; `make browser` installs it")
    with served("--demo") as address, sync_playwright() as playwright:
        add_tenet(address)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1010}, color_scheme="light", reduced_motion="reduce")
        page.goto(f"{address}/#/entity/TENET?ask=language&end=head")
        expect(page.locator(".answers-table")).to_be_visible()
        await_nodes(page, 7)
        page.screenshot(path=FIGURE)
    print(f"{FIGURE}: {FIGURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
