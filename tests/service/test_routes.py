from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import ookg
from live_server import Client, Serve, problem
from ookg.model.updating import update_model
from ookg.service.service import Service
from ookg.training.continuing import UpdateSettings


def added(client: Client, triples: list[list[str]], key: str | None = None) -> dict[str, Any]:
    response = client.post("/v1/triples", json={"triples": triples} | ({"key": key} if key else {}))
    assert response.status_code == 200, response.text
    values: dict[str, Any] = response.json()
    return values


def test_what_is_added_is_in_the_next_answer_and_in_the_directory(
    client: Client, directory: Path, tenet: list[list[str]]
) -> None:
    assert added(client, tenet) == {
        "added": 3, "known_before": 0, "new_entities": 1, "new_relations": 0, "journal": 1, "notes": []
    }  # fmt: skip
    values = client.post("/v1/predict", json={"head": "TENET", "relation": "language", "top": 3}).json()
    answers = values["answers"]
    assert [answer["rank"] for answer in answers] == [1, 2, 3]
    expected = ookg.open(directory).predict(head="TENET", relation="language")
    assert answers[0] == {
        "entity": "English",
        "name": None,
        "score": expected.answers[0].score,
        "rank": 1,
        "probability": None,
        "is_known": False,
        "is_new": False,
        "reasons": [],
        "lead": None,
        "shares": [],
    }
    assert values["trust"]["triples"] == 3
    assert values["explanation"] == []
    assert values["question"] == {
        "head": "TENET", "head_name": None, "relation": "language", "relation_name": None
    }  # fmt: skip


def test_what_the_command_line_adds_is_in_the_next_answer(
    client: Client, directory: Path, tenet: list[list[str]]
) -> None:
    problem(client.get("/v1/entities/TENET"), 404)
    ookg.open(directory).add([tuple(triple) for triple in tenet])
    assert client.get("/v1/entities/TENET").json()["triples"]["total"] == 3
    assert client.post("/v1/predict", json={"head": "TENET", "relation": "country"}).status_code == 200


def test_explained_answers_say_why(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    question = {"head": "TENET", "relation": "language", "top": 1, "explain": True}
    values = client.post("/v1/predict", json=question).json()
    assert values["answers"][0]["reasons"] == [
        "10 of 10 with directed_by Christopher Nolan have language English",
        "6 of 6 with starring John David Washington have language English",
        "113 of 144 with genre action have language English",
    ]
    best = values["answers"][0]
    assert best["lead"] == pytest.approx(sum(share["worth"] for share in best["shares"]))
    assert best["lead"] > 0
    assert best["reasons"][0] in [share["text"] for share in best["shares"]]
    weights = [reason["weight"] for reason in values["explanation"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)
    first = values["explanation"][0]
    assert (first["entity"], first["relation"], first["direction"]) == ("Christopher Nolan", "directed_by", "out")
    assert first["text"] == f"TENET directed_by Christopher Nolan, which makes {first['weight']:.0%} of its vector"
    same = client.post("/v1/explain", json={"head": "TENET", "relation": "language"}).json()
    assert same["explanation"] == values["explanation"]
    assert same["reasons"] == [reason["text"] for reason in values["explanation"]]
    answer = client.post("/v1/explain", json={"head": "TENET", "relation": "language", "answer": "Japanese"}).json()
    assert answer["reasons"] == ["6 of 144 with genre action have language Japanese"]
    misspelt = client.post("/v1/explain", json={"head": "TENET", "relation": "language", "answer": "Japanes"})
    assert "did you mean 'Japanese'" in problem(misspelt, 404)


def test_reasons_for_heads(client: Client) -> None:
    question = {"tail": "Christopher Nolan", "relation": "directed_by", "top": 1, "explain": True, "hide_known": False}
    answer = client.post("/v1/predict", json=question).json()["answers"][0]
    assert answer["is_known"]
    assert any(reason.startswith("citizen_of United Kingdom, and ") for reason in answer["reasons"])


def test_many_questions(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    questions = [{"head": "TENET", "relation": "language"}, {"tail": "English", "relation": "language"}]
    predictions = client.post("/v1/predict", json={"questions": questions, "top": 2}).json()["predictions"]
    assert [len(one["answers"]) for one in predictions] == [2, 2]
    assert predictions[1]["question"]["tail"] == "English"
    alone = client.post("/v1/predict", json=questions[0] | {"top": 2}).json()
    assert predictions[0] == alone


def test_known_answers_are_hidden_or_marked(client: Client) -> None:
    question = {"head": "Inception", "relation": "directed_by", "top": 1}
    assert client.post("/v1/predict", json=question).json()["answers"][0]["entity"] != "Christopher Nolan"
    answer = client.post("/v1/predict", json=question | {"hide_known": False}).json()["answers"][0]
    assert (answer["entity"], answer["is_known"]) == ("Christopher Nolan", True)


def test_a_key_counts_once(client: Client, tenet: list[list[str]]) -> None:
    first = added(client, tenet, "films-1")
    assert added(client, tenet, "films-1") == first
    other = {"triples": [["A", "genre", "action"]], "key": "films-1"}
    refusal = problem(client.post("/v1/triples", json=other), 409)
    assert "another batch" in refusal
    assert refusal.startswith("journal.sqlite: ")  # and not where that lies on the machine


def test_a_batch_is_all_or_nothing(client: Client, tenet: list[list[str]]) -> None:
    problem(client.post("/v1/triples", json={"triples": [*tenet, ["TENET", "genre", " "]]}), 422)
    problem(client.get("/v1/entities/TENET"), 404)


def test_removing_triples_and_entities(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    body = {"triples": [tenet[0], ["TENET", "genre", "comedy"]]}
    assert client.request("DELETE", "/v1/triples", json=body).json() == {"removed": 1, "not_there": 1, "journal": 2}
    assert client.get("/v1/entities/TENET").json()["triples"]["total"] == 2
    assert client.delete("/v1/entities/TENET").json() == {"removed": 2, "not_there": 0, "journal": 3}
    assert "unknown entity 'TENET'" in problem(client.get("/v1/entities/TENET"), 404)
    problem(client.delete("/v1/entities/TENET"), 404)


def test_an_entity_that_came_again_came_by_the_last_batch(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet[:1])
    added(client, tenet[1:])
    assert client.get("/v1/entities/TENET").json()["came"]["journal"] == 1
    client.delete("/v1/entities/TENET")
    assert added(client, tenet[:2])["journal"] == 4
    added(client, tenet[2:])
    assert client.get("/v1/entities/TENET").json()["came"]["journal"] == 4


def test_an_entity(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    values = client.get("/v1/entities/TENET").json()
    assert values["is_new"]
    assert values["came"]["journal"] == 1
    assert values["trust"]["triples"] == 3
    assert values["triples"]["items"][0] == {
        "head": "TENET", "relation": "directed_by", "tail": "Christopher Nolan",
        "head_name": None, "relation_name": None, "tail_name": None, "is_added": True,
    }  # fmt: skip
    assert "vector" not in values
    known = client.get("/v1/entities/Christopher Nolan", params={"vector": True}).json()
    assert not known["is_new"]
    assert known["came"] is None
    assert known["trust"] is None
    assert len(known["vector"]) == 48
    assert {"head": "TENET", "is_added": True}.items() <= known["triples"]["items"][-1].items()
    newcomer = client.get("/v1/entities/TENET", params={"vector": True, "relation": "language"}).json()
    assert len(newcomer["vector"]) == 48


def test_long_lists_come_in_pages(client: Client) -> None:
    whole = client.get("/v1/entities/English", params={"limit": 1000}).json()["triples"]
    items: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = client.get("/v1/entities/English", params={"limit": 100, "offset": offset}).json()["triples"]
        assert page["total"] == whole["total"]
        items += page["items"]
        offset = page["next"]
    assert items == whole["items"]
    assert len(items) == whole["total"] > 200


def test_any_label_is_an_address(client: Client) -> None:
    odd = "a/b c?d#e%2F ü\n/../x"
    added(client, [[odd, "genre", "action"]])
    from urllib.parse import quote

    response = client.get(f"/v1/entities/{quote(odd, safe='')}")
    assert response.json()["entity"] == odd
    assert client.delete(f"/v1/entities/{quote(odd, safe='')}").json()["removed"] == 1


def test_a_newcomer_without_a_vector(client: Client) -> None:
    added(client, [["A", "unheard of", "B"]])
    values = client.get("/v1/entities/A").json()
    assert values["is_new"]
    assert values["trust"] is None
    assert "no usable neighbour" in problem(client.post("/v1/predict", json={"head": "A", "relation": "genre"}), 422)


def test_search_finds_beginnings_then_parts_and_newcomers(client: Client) -> None:
    added(client, [["Nolan's next", "genre", "action"]])
    values = client.get("/v1/search", params={"q": "NOLAN"}).json()
    assert [result["entity"] for result in values["results"]] == ["Nolan's next", "Christopher Nolan"]
    assert [result["is_new"] for result in values["results"]] == [True, False]
    labels = [result["entity"] for result in client.get("/v1/search", params={"q": "the"}).json()["results"]]
    begins = [label.lower().startswith("the") for label in labels]
    assert begins[0]
    assert begins == sorted(begins, reverse=True)
    assert len(client.get("/v1/search", params={"kind": "relation"}).json()["results"]) == 7
    relations = client.get("/v1/search", params={"q": "dir", "kind": "relation"}).json()
    assert relations == {
        "results": [{"relation": "directed_by", "name": None, "description": None, "is_new": False}], "next": None
    }  # fmt: skip


def test_search_in_pages(client: Client) -> None:
    added(client, [["an entity", "genre", "action"], ["one and one", "genre", "action"]])
    whole = client.get("/v1/search", params={"q": "an", "limit": 1000}).json()
    found: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = client.get("/v1/search", params={"q": "an", "limit": 7, "offset": offset}).json()
        assert len(page["results"]) <= 7
        found += page["results"]
        offset = page["next"]
    assert found == whole["results"]
    assert len(found) > 50


def test_classify(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    claims = [["TENET", "language", "English"], ["TENET", "language", "Hindi"], ["x", "language", "Hindi"]]
    values = client.post("/v1/classify", json={"claims": claims}).json()
    assert [verdict["is_true"] for verdict in values["verdicts"]] == [True, False, None]
    first = values["verdicts"][0]
    assert first["score"] >= first["threshold"]
    assert values["verdicts"][2]["score"] is None
    assert first["probability"] >= 0.5
    assert values["verdicts"][2]["probability"] is None
    assert "1 of 3 claims" in values["notes"][1]
    assert values["verdicts"][2]["threshold"] is None
    assert (first["head"], first["head_name"], first["tail_name"]) == ("TENET", None, None)
    assert "the judge learned from" in values["notes"][-2]
    assert "training triples and as many false ones made from them" in values["notes"][-2]
    assert "judged by all evidence" in values["notes"][-1]


def test_the_server_and_the_command_line_say_the_same(client: Client, directory: Path, tenet: list[list[str]]) -> None:
    added(client, tenet)
    claims = [("TENET", "language", "English"), ("TENET", "language", "Hindi"), ("Inception", "language", "English")]
    values = client.post("/v1/classify", json={"claims": claims}).json()
    living = ookg.open(directory)
    alone = ookg.load(directory).classify(claims, given=[tuple(row) for row in tenet])
    expected = [(one.verdict, one.score, one.probability) for one in alone.claims]
    assert [(one["is_true"], one["score"], one["probability"]) for one in values["verdicts"]] == expected
    assert [(one.verdict, one.score, one.probability) for one in living.classify(claims).claims] == expected
    assert values["notes"][0] == alone.notes[0]
    assert "training triples and as many false ones made from them" in alone.notes[0]


def test_classify_by_labelled_triples(serve: Serve, tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    rows = ["Inception\tlanguage\tEnglish\t1", "Inception\tlanguage\tHindi\t0", "Memento\tlanguage\tEnglish\t1"]
    valid.write_text("\n".join(rows) + "\n")
    values = serve(valid=valid).post("/v1/classify", json={"claims": [["Interstellar", "language", "English"]]}).json()
    assert values["verdicts"][0]["is_true"]
    assert values["notes"] == [f"thresholds fit {valid.name}"]  # where it lies is nobody's business


def test_history_and_undo(client: Client, tenet: list[list[str]]) -> None:
    assert client.get("/v1/history").json()["batches"] == []
    added(client, tenet, "k")
    added(client, [["A", "genre", "action"]])
    client.delete("/v1/entities/A")
    values = client.get("/v1/history", params={"limit": 2}).json()
    assert [batch["number"] for batch in values["batches"]] == [3, 2]
    assert values["next"] == 2
    assert [version["number"] for version in values["versions"]] == [1]
    rest = client.get("/v1/history", params={"before": values["next"]}).json()
    assert [(batch["number"], batch["key"], batch["changed"]) for batch in rest["batches"]] == [(1, "k", 3)]
    assert rest["next"] is None
    one = client.get("/v1/history/1").json()
    assert [[triple["head"], triple["relation"], triple["tail"]] for triple in one["triples"]] == tenet
    assert one["triples"][0]["tail_name"] is None
    assert client.get("/v1/history/1", params={"limit": 2, "offset": 1}).json()["triples"] == one["triples"][1:]
    assert client.post("/v1/history/1/undo").json() == {"undone": 1, "removed": 3, "not_there": 0, "journal": 4}
    problem(client.get("/v1/entities/TENET"), 404)
    assert "undone already" in problem(client.post("/v1/history/1/undo"), 409)
    assert client.post("/v1/history/4/undo").json()["added"] == 3
    assert client.get("/v1/entities/TENET").status_code == 200
    for number in (0, 99, -1, 2**63, 2**200):
        problem(client.get(f"/v1/history/{number}"), 404)


def test_status(client: Client, tenet: list[list[str]]) -> None:
    added(client, tenet)
    values = client.get("/v1/status").json()
    assert (values["version"], values["added"], values["new_entities"], values["read_only"]) == (1, 3, 1, False)
    assert values["entities"] == 1516


def test_a_version_that_comes_is_swapped_in(client: Client, directory: Path, tenet: list[list[str]]) -> None:
    added(client, tenet)
    update_model(directory, UpdateSettings(steps=5), device="cpu")
    service = client.service
    service.living.refresh()
    values = client.get("/v1/status").json()
    assert (values["version"], values["added"]) == (2, 0)
    assert not client.get("/v1/entities/TENET").json()["is_new"]
    assert client.get("/v1/search", params={"q": "tenet"}).json()["results"][0]["is_new"] is False


def test_names_are_shown_and_searched(client: Client, directory: Path) -> None:
    names = [
        ("Inception", "Der Anfang", "a film in a film"),
        ("English", "Englisch"),
        ("language", "Sprache"),
        ("Q1", "Neuling", "not there yet"),
    ]
    ookg.open(directory).add_names(names)
    added(client, [["Q1", "genre", "action"], ["Q1", "directed_by", "Christopher Nolan"]])
    entity = client.get("/v1/entities/Inception").json()
    assert (entity["name"], entity["description"]) == ("Der Anfang", "a film in a film")
    stated = next(one for one in entity["triples"]["items"] if one["relation"] == "language")
    assert (stated["head_name"], stated["relation_name"], stated["tail_name"]) == ("Der Anfang", "Sprache", "Englisch")
    question = {"head": "Q1", "relation": "language", "top": 1, "explain": True}
    values = client.post("/v1/predict", json=question).json()
    assert values["question"]["head_name"] == "Neuling"
    assert values["answers"][0]["name"] == "Englisch"
    assert values["answers"][0]["reasons"][0] == "10 of 10 with directed_by Christopher Nolan have Sprache Englisch"
    for text, label, is_new in (("ANFANG", "Inception", False), ("neu", "Q1", True), ("incep", "Inception", False)):
        result = client.get("/v1/search", params={"q": text}).json()["results"][0]
        assert (result["entity"], result["is_new"]) == (label, is_new)
    relation = client.get("/v1/search", params={"q": "spra", "kind": "relation"}).json()["results"]
    assert relation == [{"relation": "language", "name": "Sprache", "description": None, "is_new": False}]


def test_a_name_stands_for_its_id(client: Client, directory: Path) -> None:
    names = [
        ("Inception", "Der Anfang"),
        ("language", "Sprache"),
        ("genre", "Art"),
        ("English", "Zwei"),
        ("drama", "Zwei"),
    ]
    ookg.open(directory).add_names([*names, ("action", "crime")])
    by_id = client.post("/v1/predict", json={"head": "Inception", "relation": "genre", "explain": True}).json()
    by_name = client.post("/v1/predict", json={"head": "Der Anfang", "relation": "Art", "explain": True}).json()
    assert by_name == by_id
    assert client.get("/v1/entities/Der%20Anfang").json()["entity"] == "Inception"
    assert client.get("/v1/entities/Der%20Anfang?vector=true&relation=Sprache").json()["vector"]
    tail = {"tail": "crime", "relation": "Art"}  # an id is an id, whoever else is called so
    assert client.post("/v1/predict", json=tail).json()["question"]["tail"] == "crime"
    both = problem(client.post("/v1/predict", json={"tail": "Zwei", "relation": "Art"}), 422)
    assert both == "entity 'Zwei' is the name of 2 ids ('English', 'drama'); give one of them"
    assert "unknown relation 'Zwei'" in problem(
        client.post("/v1/predict", json={"tail": "crime", "relation": "Zwei"}), 404
    )
    why = {"head": "Der Anfang", "relation": "Sprache", "answer": "English"}
    assert client.post("/v1/explain", json=why).status_code == 200
    added(client, [["Der Anfang", "genre", "action"]])  # in triples there are ids alone
    assert client.get("/v1/entities/Der%20Anfang").json()["is_new"]
    client.delete("/v1/entities/Der%20Anfang")
    assert client.delete("/v1/entities/Der%20Anfang").json()["removed"] > 1
    assert client.get("/v1/entities/Inception").json()["triples"]["total"] == 0


def test_everything_likely_about_an_entity(client: Client, directory: Path, tenet: list[list[str]]) -> None:
    added(client, tenet)
    values = client.post("/v1/likely", json={"entity": "TENET", "top": 4}).json()
    assert values["question"] == {"entity": "TENET", "name": None, "end": "both"}
    expected = ookg.open(directory).likely("TENET", options=ookg.AnswerOptions(top=4))
    shown = [(one["head"], one["relation"], one["tail"], one["score"], one["rank"]) for one in values["answers"]]
    assert shown == [(*one.triple, one.answer.score, one.answer.rank) for one in expected]
    assert values["notes"] == expected.notes
    assert "`ookg tune --save`" in values["notes"][0]
    heads = client.post("/v1/likely", json={"head": "TENET"}).json()
    assert {one["head"] for one in heads["answers"]} == {"TENET"}
    assert client.post("/v1/likely", json={"tail": "TENET"}).json()["question"]["end"] == "tail"
    assert "give one of" in problem(client.post("/v1/likely", json={}), 422)
    assert "give one of" in problem(client.post("/v1/likely", json={"head": "TENET", "tail": "TENET"}), 422)
    assert "unknown entity" in problem(client.post("/v1/likely", json={"entity": "TENT"}), 404)
    assert "not measured" in problem(client.post("/v1/likely", json={"entity": "TENET", "min_probability": 0.5}), 422)


@pytest.mark.parametrize(
    ("call", "body", "line"),
    [
        ("POST predict", [], "the body is not a JSON object; send one, with content-type application/json"),
        ("POST predict", {"head": 1, "relation": "genre"}, "head is 1, expected text"),
        ("POST predict", {"head": "a", "relation": ""}, 'relation is "", expected text that is not empty'),
        ("POST predict", {"head": "a", "relation": "b", "top": 1.5}, "top is 1.5, expected a whole number"),
        ("POST predict", {"head": "a", "relation": "b", "top": 0}, "top is 0, expected 1 or more"),
        ("POST predict", {"head": "a", "relation": "b", "explain": "x" * 60}, "expected true or false"),
        ("POST predict", {"heads": "a"}, "heads is nothing that this call takes; leave it out, /docs has the form"),
        ("POST predict", {"questions": []}, "questions is a list of 0, expected a list of 1 or more"),
        ("POST predict", {"questions": [{"head": "a"}]}, "questions.0.relation is missing; /docs has the form"),
        ("POST predict", {"questions": [3]}, "questions.0 is 3, expected an object"),
        ("POST triples", {"triples": [["a", "b"]]}, "triples.0 is a list of 2, expected head, relation and tail"),
        ("POST triples", {"triples": {}}, "triples is an object, expected a list"),
        ("POST update", {"mode": "most"}, "mode is \"most\", expected 'all', 'freeze' or 'new-only'"),
        ("POST update", {"seconds": "x"}, 'seconds is "x", expected a number'),
        ("GET search?limit=x", None, 'limit is "x", expected a whole number'),
        ("GET search?kind=x", None, "kind is \"x\", expected 'entity' or 'relation'"),
        ("GET history?before=0", None, 'before is "0", expected 1 or more'),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_plain_words(client: Client, call: str, body: Any, line: str) -> None:
    method, path = call.split()
    response = client.request(method, f"/v1/{path}", **({} if body is None else {"json": body}))
    text = problem(response, 422)
    assert text.endswith(line)
    assert len(text) < 120


def test_read_only(serve: Serve, tenet: list[list[str]]) -> None:
    client = serve(read_only=True)
    for response in (
        client.post("/v1/triples", json={"triples": tenet}),
        client.request("DELETE", "/v1/triples", json={"triples": tenet}),
        client.delete("/v1/entities/Inception"),
        client.post("/v1/update"),
        client.delete("/v1/update"),
        client.post("/v1/history/1/undo"),
    ):
        assert "read-only" in problem(response, 403)
    assert client.get("/v1/status").json()["read_only"]
    assert client.post("/v1/predict", json={"head": "Inception", "relation": "genre"}).status_code == 200


def test_it_is_ready_once_it_is_warm(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(Service, "_warm_up", lambda _: going_on.wait(60))
    try:
        client = serve()
        response = client.get("/v1/ready")
        assert "try again" in problem(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.post("/v1/predict", json={"head": "Inception", "relation": "genre"}).status_code == 200
    finally:
        going_on.set()
    client.service._warming.join()
    assert client.get("/v1/ready").status_code == 200


def test_health_readiness_and_documents(client: Client) -> None:
    assert client.get("/v1/health").json() == {"status": "ok"}
    service = client.service
    service._warming.join()
    assert client.get("/v1/ready").json() == {"status": "ready"}
    service.follower.stop()
    service.follower.problem = "the disk is gone"
    assert problem(client.get("/v1/ready"), 503) == "the disk is gone"
    document = client.get("/openapi.json").json()
    assert "/v1/predict" in document["paths"]
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "Predict what is missing" in page.text
    assert "<script" not in page.text
    assert "http" not in page.text.replace("href=/", "")
    problem(client.get("/page/../app.py"), 404)
    problem(client.get("/page/%2e%2e/app.py"), 404)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("{", 400, "not JSON"),
        ("[]", 422, "not a JSON object"),
        ("null", 422, "not a JSON object"),
        ("{}", 422, "no relation"),
        ('{"relation": "genre"}', 422, "either a head or a tail"),
        ('{"head": "a", "tail": "b", "relation": "genre"}', 422, "either a head or a tail"),
        ('{"head": "Inception", "relation": "genre", "top": 0}', 422, "top"),
        ('{"head": "Inception", "relation": "genre", "top": 100000}', 422, "top"),
        ('{"head": "Inception", "relation": "genre", "top": 1e400}', 422, "top"),
        ('{"head": "Inception", "relation": "genre", "colour": 1}', 422, "colour"),
        ('{"head": "Inception", "relation": "genres"}', 404, "did you mean 'genre'"),
        ('{"head": "Inceptoin", "relation": "genre"}', 404, "did you mean 'Inception'"),
        ('{"head": "\\ud800", "relation": "genre"}', 422, "Unicode"),
        ('{"head": "a\\u0000b", "relation": "genre"}', 422, "null character"),
        ('{"questions": [], "top": 3}', 422, "questions"),
        ('{"questions": [{"head": "Inception", "relation": "genre"}], "head": "x"}', 422, "give one of them"),
    ],
)
def test_wrong_questions(client: Client, body: str, status: int, words: str) -> None:
    response = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
    assert words in problem(response, status)


def test_what_is_not_there(client: Client) -> None:
    assert "/docs" in problem(client.get("/v2/predict"), 404)
    assert "/docs" in problem(client.get("/v1/predict"), 405)
    as_curl_sends_it = {"content-type": "application/x-www-form-urlencoded"}
    sent = client.post("/v1/predict", content=b'{"head": "Inception", "relation": "genre"}', headers=as_curl_sends_it)
    assert "content-type application/json" in problem(sent, 422)
    problem(client.post("/v1/triples", content=json.dumps({"triples": [["a", "b"]]})), 422)
