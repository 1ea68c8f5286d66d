from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from browser import chromium, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    path = chromium()
    if path is None:
        pytest.skip("no chromium; `make browser` installs it")
    with playwright.sync_playwright() as started:
        # The sandbox cannot be had as root, where containers run.
        yield started.chromium.launch(executable_path=path, args=["--no-sandbox"])


@dataclass
class Watched:
    """A page, and what its console complained about."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def open(self, hash_: str = "#/") -> Page:
        """Show a view."""
        self.page.goto(f"{self.address}/{hash_}")
        return self.page


@pytest.fixture
def opened(browser: Browser) -> Iterator[list[Watched]]:
    """Pages that a test opens by `watch`; none may complain, or ask anybody but its server."""
    pages: list[Watched] = []
    yield pages
    for watched in pages:
        watched.page.context.close()
        # A page may still have asked something when the test's server was stopped; that is no fault of its own.
        assert [said for said in watched.complaints if "ERR_CONNECTION" not in said] == []


def watch(browser: Browser, opened: list[Watched], address: str, **options: Any) -> Watched:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    watched = Watched(context.new_page(), address)
    page = watched.page
    page.on("console", lambda said: watched.complaints.extend([said.text] if said.type in ("error", "warning") else []))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", lambda asked: watched.complaints.extend([] if asked.url.startswith(address) else [asked.url]))
    opened.append(watched)
    return watched


@pytest.fixture
def demo() -> Iterator[str]:
    """The address of the film graph, fresh."""
    with served("--demo") as address:
        yield address


@pytest.fixture
def films(browser: Browser, opened: list[Watched], demo: str) -> Watched:
    """A wide window on the film graph."""
    return watch(browser, opened, demo)
