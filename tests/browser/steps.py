"""What a person does on the page, as the tests need it again and again."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from browser import TENET

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WAIT_SECONDS = 30.0


def add(address: str, triples: Sequence[Sequence[str]]) -> None:
    """Add triples past the page."""
    body = json.dumps({"triples": triples}).encode()
    request = urllib.request.Request(f"{address}/v1/triples", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).close()


def add_tenet(address: str) -> None:
    """Add the newcomer past the page."""
    add(address, [("TENET", relation, tail) for relation, tail in TENET])


def complete(field: Locator, beginning: str, whole: str) -> None:
    """Type the beginning of a name and click the suggestion."""
    field.fill(beginning)
    field.page.get_by_role("option", name=whole, exact=True).click()


def fill_in_tenet(page: Page) -> None:
    """Fill the empty form, by completion."""
    page.get_by_role("combobox", name="Name", exact=True).fill("TENET")
    rows = page.locator(".row")
    for number, (relation, tail) in enumerate(TENET):
        row = rows.nth(number)
        complete(row.get_by_role("combobox", name="Relation", exact=True), relation[:4], relation)
        complete(row.get_by_role("combobox", name="Entity", exact=True), tail[:6].lower(), tail)


def ask(page: Page, relation: str) -> None:
    """Ask by a click on a relation."""
    page.get_by_role("group", name="Ask for").get_by_role("button", name=relation, exact=True).click()


def nodes(page: Page) -> list[str]:
    """What the picture shows, by label."""
    drawn: Any = page.evaluate(
        "document.querySelector('.picture-canvas')?._cyreg?.cy.nodes().map((node) => node.data('label')) ?? []"
    )
    return sorted(drawn)


def await_nodes(page: Page, least: int) -> list[str]:
    """The same, once there are so many. Playwright's own waiting needs `eval`, which the content policy forbids."""
    begun = time.monotonic()
    while len(drawn := nodes(page)) < least:
        if time.monotonic() - begun > WAIT_SECONDS:
            raise AssertionError(f"{len(drawn)} nodes, not {least}")
        page.wait_for_timeout(50)
    return drawn
