"""TENET from an empty form to its language and the reason, and back; an update while asking."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright.sync_api")

from playwright.sync_api import expect

from browser.conftest import Watched
from browser.steps import add, add_tenet, ask, await_nodes, fill_in_tenet


def test_a_newcomer_from_an_empty_form_to_its_language(films: Watched) -> None:
    page = films.open()
    page.get_by_role("navigation").get_by_role("link", name="Add").click()
    fill_in_tenet(page)
    page.get_by_role("button", name="Add to the graph").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("TENET")
    expect(page).to_have_title("TENET · ookg")
    expect(page.get_by_role("status").filter(has_text="3 facts added")).to_be_visible()
    ask(page, "language")
    expect(page.locator(".headline-answer")).to_have_text("English")
    expect(page.locator(".headline")).to_contain_text(
        "10 of 10 with directed_by Christopher Nolan have language English"
    )
    expect(page.locator(".trust")).to_contain_text("made from 3 facts that agree well (spread 0.35")
    table = page.get_by_role("table", name="TENET · language · ?")
    expect(table.get_by_role("row")).to_have_count(11)
    expect(table.get_by_role("row").nth(1)).to_contain_text("English")
    expect(table.get_by_role("row").nth(1)).to_contain_text("10 of 10 with directed_by Christopher Nolan")
    page.get_by_label("By the vector alone").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(table.get_by_role("row").nth(1)).to_contain_text("English−")  # then a score is a distance

    table.get_by_role("link", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("English")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("TENET")
    expect(page.locator(".headline-answer")).to_have_text("English")


def test_undo_takes_a_newcomer_back(films: Watched) -> None:
    add_tenet(films.address)
    page = films.open("#/changes")
    batch = page.locator(".timeline > li").filter(has_text="Added 3 facts about TENET")
    expect(batch).to_contain_text("by editor")
    batch.locator("summary").click()
    expect(batch.get_by_role("link", name="John David Washington")).to_be_visible()
    batch.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").filter(has_text="Batch 1 undone")).to_be_visible()
    expect(page.locator(".timeline > li").filter(has_text="Removed 3 facts about TENET")).to_be_visible()

    page.get_by_role("combobox", name="Search entities").fill("TENET")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The graph has nothing by this name.")).to_be_visible()


def test_the_message_after_adding_offers_undo(films: Watched) -> None:
    page = films.open("#/add?head=TENET")
    row = page.locator(".row").first
    row.get_by_role("combobox", name="Relation", exact=True).fill("genre")
    row.get_by_role("combobox", name="Entity", exact=True).fill("action")
    page.get_by_role("button", name="Add to the graph").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("TENET")
    films.complaints.clear()
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    # What is shown is gone: the browser itself notes the 404 in its console.
    expect(page.get_by_role("link", name="Add it as a newcomer")).to_be_visible()
    films.complaints[:] = [said for said in films.complaints if "404" not in said]


def test_an_update_while_asking(films: Watched) -> None:
    add_tenet(films.address)
    page = films.open("#/changes")
    expect(page.locator(".update")).to_contain_text("has not learned yet: 1 batch, 3 facts added, 1 new entity")
    # The update may be over before the next look, so the page itself keeps what the pill said.
    page.evaluate("""() => {
        window.said = [];
        const pill = document.getElementById("updating");
        new MutationObserver(() => pill.hidden || window.said.push(pill.textContent))
          .observe(pill, { attributes: true, childList: true });
    }""")
    page.get_by_role("button", name="Start update").click()
    page.evaluate("location.hash = '#/entity/TENET'")
    for relation in ("language", "country", "genre", "language"):
        ask(page, relation)
        expect(page.get_by_role("table", name=f"TENET · {relation} · ?")).to_be_visible()
    expect(page.locator(".headline-answer")).to_have_text("English")
    expect(page.locator("#toasts")).to_contain_text("Version 2 is the model now", timeout=120_000)
    assert page.evaluate("window.said.length > 0 && window.said.every((words) => words.startsWith('Updating'))")

    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("TENET")
    expect(page.locator(".entity-title .tag")).to_have_count(0)
    page.get_by_role("navigation").get_by_role("link", name="Changes").click()
    expect(page.locator(".timeline")).to_contain_text("Version 2")
    expect(page.locator(".update")).to_contain_text("has learned all there is")


def test_a_claim_and_its_verdict(films: Watched) -> None:
    add_tenet(films.address)
    page = films.open("#/entity/TENET")
    page.get_by_role("link", name="Check a claim").click()
    expect(page.get_by_role("combobox", name="Head", exact=True)).to_have_value("TENET")
    page.get_by_role("combobox", name="Relation", exact=True).fill("language")
    page.get_by_role("combobox", name="Tail", exact=True).fill("English")
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".verdict-word")).to_have_text("Likely true")
    page.get_by_role("combobox", name="Tail", exact=True).fill("Hindi")
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".verdict-word")).to_have_text("Likely false")
    page.go_back()
    expect(page.get_by_role("combobox", name="Tail", exact=True)).to_have_value("English")
    expect(page.locator(".verdict-word")).to_have_text("Likely true")
    page.get_by_role("combobox", name="Tail", exact=True).fill("Klingon")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("The graph has no entity “Klingon”.")).to_be_visible()


def test_the_picture_grows_by_click_and_list(films: Watched) -> None:
    add_tenet(films.address)
    page = films.open("#/entity/TENET")
    expect(page.locator(".fact-group")).to_have_count(3)
    await_nodes(page, 4)
    place = page.evaluate("""() => {
        const { cy } = document.querySelector(".picture-canvas")._cyreg;
        const node = cy.nodes().filter((each) => each.data("label") === "Christopher Nolan");
        return node.renderedPosition();
    }""")
    page.locator(".picture-canvas").click(position=place)
    drawn = await_nodes(page, 11)
    assert {"Inception", "Dunkirk", "TENET"} <= set(drawn)
    expect(page.locator(".picture-about")).to_contain_text("Christopher Nolan")
    page.get_by_role("button", name="Show the neighbours of John David Washington in the picture").click()
    await_nodes(page, len(drawn) + 1)
    page.locator(".picture-about").get_by_role("link", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("John David Washington")


def test_long_lists_come_in_pages(films: Watched) -> None:
    page = films.open("#/entity/drama")
    expect(page.locator(".facts-list li")).to_have_count(16)
    page.get_by_role("button", name="Show more: 16 of 202").click()
    expect(page.locator(".facts-list li")).to_have_count(32)


def test_a_fact_that_was_added_can_be_removed(films: Watched) -> None:
    add(films.address, [("TENET", "genre", "action"), ("TENET", "genre", "war")])
    page = films.open("#/entity/TENET")
    page.get_by_role("button", name="Remove: TENET genre war").click()
    expect(page.locator(".facts-list li")).to_have_count(1)
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator(".facts-list li")).to_have_count(2)
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="TENET removed, with 2 facts")).to_be_visible()


def test_where_there_are_many_relations_its_own_are_offered(films: Watched) -> None:
    long = "/film/film/release_date_s./film/film_regional_release_date/film_release_region"
    add(films.address, [(f"festival {number}", f"shown_at_{number}", "Inception") for number in range(10)])
    add(films.address, [("TENET", "genre", "action"), ("Dunkirk", long, "TENET"), ("Dunkirk", long, "Inception")])
    page = films.open("#/entity/TENET")
    offered = page.get_by_role("group", name="Ask for").get_by_role("button")
    expect(offered).to_have_count(2)
    offered.filter(has_text="…").click()
    expect(page.get_by_role("table", name=f"? · {long} · TENET")).to_be_visible()
