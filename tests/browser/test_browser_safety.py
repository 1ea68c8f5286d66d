"""Labels are text, addresses carry any label, keys and read-only servers, a server that is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("playwright.sync_api")

from playwright.sync_api import Browser, expect

from browser import served
from browser.conftest import Watched, watch
from browser.steps import add, add_tenet, ask
from ookg.demo.tour import train_on_films

MARKUP = """<img src=x onerror="document.title='owned'">"""
ODD = "AC/DC: 100% ?#& \"x\" 'y' ../z"


def test_a_label_that_is_markup_is_shown_as_text(films: Watched) -> None:
    add(films.address, [(MARKUP, "<b>made</b>", "Christopher Nolan"), (MARKUP, "genre", "action")])
    page = films.open(f"#/entity/{quote(MARKUP, safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
    expect(page.get_by_role("heading", name="<b>made</b>")).to_be_visible()
    ask(page, "genre")
    expect(page.locator(".answers-table")).to_be_visible()
    page.get_by_role("combobox", name="Search entities").fill("<img")
    expect(page.get_by_role("option", name=MARKUP)).to_be_visible()
    page.evaluate("location.hash = '#/changes'")
    expect(page.locator(".timeline")).to_contain_text(f"about {MARKUP}")
    assert page.locator("img, main b").count() == 0
    assert "owned" not in page.title()


def test_any_label_can_be_linked(films: Watched) -> None:
    add(films.address, [(ODD, "genre", "action")])
    page = films.open()
    page.get_by_role("combobox", name="Search entities").fill("AC/DC")
    page.get_by_role("option", name=ODD).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)
    ask(page, "language")
    expect(page.locator(".headline-answer")).to_be_visible()


def test_a_read_only_server_has_no_forms(browser: Browser, opened: list[Watched]) -> None:
    with served("--demo", "--read-only") as address:
        page = watch(browser, opened, address).open("#/entity/Inception")
        expect(page.get_by_role("heading", level=1)).to_have_text("Inception")
        assert page.get_by_role("link", name="Add", exact=True).count() == 0
        assert page.get_by_role("link", name="Add facts").count() == 0
        ask(page, "language")
        expect(page.locator(".headline-answer")).to_have_text("English")
        page.evaluate("location.hash = '#/add'")
        expect(page.get_by_text("This server is read-only")).to_be_visible()
        assert page.locator("main form").count() == 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The film graph's model as a directory."""
    directory = tmp_path_factory.mktemp("films") / "model"
    train_on_films().save(directory)
    return directory


def test_names_are_shown_with_ids_beside_them(
    browser: Browser, opened: list[Watched], kept: Path, tmp_path: Path
) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("Christopher Nolan\tSir Christopher\tfilm director\nlanguage\toriginal language\tspoken in it\n")
    with served(str(kept), "--names", str(names)) as address:
        page = watch(browser, opened, address).open()
        search = page.get_by_role("combobox", name="Search entities")
        search.fill("sir chr")
        option = page.get_by_role("option")
        expect(option).to_have_text("Sir Christopher Christopher Nolan film director")
        option.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sir Christopher")
        expect(page.locator(".entity-title code")).to_have_text("Christopher Nolan")
        page.evaluate("location.hash = '#/entity/Inception?ask=language&end=head'")
        expect(page.get_by_role("table", name="Inception · original language · ?")).to_be_visible()
        expect(
            page.locator(".facts-list").get_by_role("link", name="Sir Christopher Christopher Nolan")
        ).to_be_visible()
        add(address, [("TENET", "directed_by", "Christopher Nolan")])
        page.evaluate("location.hash = '#/changes?batch=1'")
        expect(page.locator(".batch-facts").get_by_role("link", name="Sir Christopher")).to_be_visible()


def _new_key(directory: Path, role: str) -> str:
    command = [sys.executable, "-m", "ookg", "keys", "add", str(directory), f"a {role}er", "--role", role, "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return str(answer["key"])


def test_a_key_is_asked_for_and_kept(browser: Browser, opened: list[Watched], kept: Path) -> None:
    key = _new_key(kept, "write")
    with served(str(kept), "--keys", str(kept / "keys.json")) as address:
        watched = watch(browser, opened, address)
        page = watched.open("#/entity/Inception")
        dialog = page.get_by_role("dialog", name="This graph needs a key")
        dialog.get_by_label("Key").fill("wrong")
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog).to_be_visible()
        dialog.get_by_label("Key").fill(key)
        dialog.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Inception")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("Inception")
        expect(dialog).to_have_count(0)
        # The browser itself notes each 401.
        watched.complaints[:] = [said for said in watched.complaints if "401" not in said]


def test_a_server_that_is_gone_is_said(browser: Browser, opened: list[Watched]) -> None:
    with served("--demo") as address:
        page = watch(browser, opened, address).open("#/entity/Inception")
        expect(page.get_by_role("group", name="Ask for").get_by_role("button")).to_have_count(7)
    ask(page, "language")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer. Is it still running?")


def test_an_entity_that_nobody_knows_can_be_added(films: Watched) -> None:
    add_tenet(films.address)
    page = films.open("#/entity/Nobody")
    page.get_by_role("link", name="Add it as a newcomer").click()
    expect(page.get_by_role("combobox", name="Name", exact=True)).to_have_value("Nobody")
    page.get_by_role("button", name="Add to the graph").click()
    expect(page.get_by_role("alert")).to_have_text("Give at least one fact that ties it to the graph.")
    films.complaints[:] = [said for said in films.complaints if "404" not in said]
