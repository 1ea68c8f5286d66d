"""By keyboard alone, for screen readers, on narrow screens, in light and dark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")

from playwright.sync_api import Browser, Page, expect

from browser import TENET, WIDTHS, axe
from browser.conftest import Watched, watch
from browser.steps import add_tenet, ask, await_nodes, nodes

VIEWS = {
    "explore": "#/",
    "newcomer": "#/entity/TENET?ask=language&end=head",
    "hub": "#/entity/drama",
    "add": "#/add",
    "check": "#/check?head=TENET&relation=language&tail=English",
    "changes": "#/changes?batch=1",
    "search": "#/search?q=the",
}
SETTLED = {
    "explore": ".timeline",
    "newcomer": ".answers-table",
    "hub": ".more button",
    "add": ".row input",
    "check": ".verdict",
    "changes": ".batch-facts li",
    "search": ".results li",
}


def _window(width: int, scheme: str) -> dict[str, Any]:
    return {
        "viewport": {"width": width, "height": 900},
        "color_scheme": scheme,
        "reduced_motion": "reduce",
    }


def _show(watched: Watched, view: str) -> Page:
    page = watched.open(VIEWS[view])
    expect(page.locator(SETTLED[view]).first).to_be_visible()
    if view in ("newcomer", "hub"):
        await_nodes(page, 4)
    return page


def test_the_journey_by_keyboard_alone(films: Watched) -> None:
    page = films.open()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("main")).to_be_focused()
    keys.press("Tab")
    expect(page.get_by_role("link", name="Add a newcomer")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("combobox", name="Name", exact=True)).to_be_focused()
    keys.type("TENET")
    for relation, tail in TENET:
        _tab_to(page, "Relation")
        _complete(page, relation[:5], relation)
        _tab_to(page, "Entity")
        _complete(page, tail[:7], tail)
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("TENET")
    expect(page.get_by_role("combobox", name="Relation")).to_be_visible()
    _tab_to(page, "Relation")
    _complete(page, "lang", "language")
    expect(page.locator(".headline-answer")).to_have_text("English")
    expect(page.locator("#announcer")).to_have_text("10 answers. First: English")


def _tab_to(page: Page, label: str) -> None:
    """Tab until the field has the focus; which are passed on the way is not the matter here."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.labels?.[0]?.textContent ?? ''") == label:
            return
    raise AssertionError(f"no Tab leads to {label}")


def _complete(page: Page, beginning: str, whole: str) -> None:
    page.keyboard.type(beginning)
    options = page.get_by_role("option")
    expect(options.filter(has_text=whole).first).to_be_visible()
    labels = options.all_inner_texts()
    for _ in range(labels.index(whole) + 1):
        page.keyboard.press("ArrowDown")
    expect(page.locator("[role=listbox]:not([hidden]) [aria-selected=true]")).to_have_text(whole)
    page.keyboard.press("Enter")
    expect(options).to_have_count(0)


def test_search_by_keyboard(films: Watched) -> None:
    page = films.open()
    expect(page.locator(".timeline, .batches .empty")).to_be_visible()
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search entities")
    expect(field).to_be_focused()
    page.keyboard.type("incep")
    expect(page.get_by_role("option", name="Inception")).to_be_visible()
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(field).to_have_attribute("aria-expanded", "false")
    expect(field).to_have_value("incep")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="Inception")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", page.get_by_role("option").first.get_attribute("id") or "")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Inception")


def test_the_picture_by_keyboard(films: Watched) -> None:
    page = _show_newcomer(films)
    canvas = page.locator(".picture-canvas")
    canvas.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".picture-name")).to_have_text("TENET")
    page.keyboard.press("ArrowUp")
    expect(page.locator(".picture-name")).not_to_have_text("TENET")
    before, name = len(nodes(page)), page.locator(".picture-name").inner_text()
    page.keyboard.press("Enter")
    await_nodes(page, before + 1)
    expect(page.locator("#announcer")).to_contain_text(f"of {name} added to the picture")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def _show_newcomer(watched: Watched) -> Page:
    add_tenet(watched.address)
    page = watched.open("#/entity/TENET")
    await_nodes(page, 4)
    return page


def test_colours_follow_the_system_and_the_switch(browser: Browser, opened: list[Watched], demo: str) -> None:
    page = watch(browser, opened, demo, color_scheme="dark").open()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Colours: auto").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Colours: light").click()
    assert page.evaluate(ground) == dark


def test_nothing_is_wider_than_a_narrow_screen(browser: Browser, opened: list[Watched], demo: str) -> None:
    add_tenet(demo)
    narrow = watch(browser, opened, demo, viewport={"width": 375, "height": 760})
    for view in VIEWS:
        page = _show(narrow, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, view


@pytest.mark.skipif(axe() is None, reason="axe-core is not installed; `make browser` does it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, opened: list[Watched], demo: str, scheme: str) -> None:
    add_tenet(demo)
    path = axe()
    assert path is not None
    for width in (375, 1280):
        watched = watch(
            browser,
            opened,
            demo,
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            reduced_motion="reduce",
        )
        for view in VIEWS:
            page = _show(watched, view)
            page.evaluate(path.read_text(encoding="utf-8"))
            violations = page.evaluate("async () => (await axe.run()).violations")
            told = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in violations]
            assert told == [], f"{view} at {width}"


def test_screenshots_at_three_widths(browser: Browser, opened: list[Watched], demo: str, tmp_path: Path) -> None:
    """They are kept where OOKG_SCREENSHOTS says, to be looked at."""
    folder = Path(os.environ.get("OOKG_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    add_tenet(demo)
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            watched = watch(
                browser,
                opened,
                demo,
                color_scheme=scheme,
                viewport={"width": width, "height": 900},
                reduced_motion="reduce",
            )
            for view in VIEWS:
                page = _show(watched, view)
                expect(page.locator(".loading")).to_have_count(0)
                image = page.screenshot(path=folder / f"{view}-{width}-{scheme}.png", full_page=True)
                assert len(image) > 8_000, f"{view} at {width} is blank"


def test_a_question_can_be_turned_around(films: Watched) -> None:
    page = films.open("#/entity/Christopher%20Nolan")
    page.get_by_role("button", name="Ask for what points to it").click()
    ask(page, "directed_by")
    expect(page.get_by_role("table", name="? · directed_by · Christopher Nolan")).to_be_visible()
    expect(page.locator(".answers-table .tag").first).to_contain_text("known")
    page.get_by_label("Only what is missing").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answers-table .tag")).to_have_count(0)
    expect(page.locator(".answers-table tbody tr")).to_have_count(10)
