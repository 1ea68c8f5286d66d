"""Names on the command line: given at train and import, set later, shown beside ids, and taken in place of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ookg.cli import main

TRAINING = ["--dim", "8", "--steps", "20", "--batch", "32", "--negatives", "4", "--norm", "1", "--device", "cpu"]
GRAPH = [(f"Q{x}{y}", "P1", f"Q{x + 1}{y}") for x in range(6) for y in range(6)]
GRAPH += [(f"Q{x}{y}", "P2", f"Q{x}{y + 1}") for x in range(6) for y in range(6)]
NAMES = "Q00\tthe corner\twhere it begins\nQ01\ta field\t\nQ02\ta field\t\nP1\tright\t\nQ99\tnobody yet\t\nQ12\tP2\t\n"


class Run:
    """Runs a command in the folder of the test; notes: what the last one said beside its result."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.notes = capsys, list[str]()

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        self.capsys.readouterr()
        assert main(list(arguments)) == code, self.capsys.readouterr().err
        captured = self.capsys.readouterr()
        self.notes = captured.err.splitlines()
        if code:
            assert len(self.notes) == 1
            return captured.err
        return json.loads(captured.out) if "--json" in arguments else captured.out


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("graph.tsv").write_text("".join("\t".join(row) + "\n" for row in GRAPH))
    Path("new.tsv").write_text("Q99\tP1\tQ33\nQ99\tP2\tQ44\n")
    Path("names.tsv").write_text(NAMES)
    run = Run(capsys)
    run("train", "graph.tsv", "--out", "model", "--names", "names.tsv", *TRAINING)
    return run


def test_answers_and_reasons_have_names(run: Run) -> None:
    run("add", "model", "new.tsv")
    question = ("predict", "model", "--head", "Q99", "--relation", "P1", "--top", "60", "--known-answers", "mark")
    table = run(*question, "--explain")
    title, columns, *lines = table.splitlines()
    assert title == "(nobody yet (Q99), right (P1), ?)"
    assert columns.split()[:4] == ["rank", "entity", "name", "score"]
    assert any(line.split()[1:4] == ["Q00", "the", "corner"] for line in lines)
    assert "nobody yet (Q99) is new: " in table
    assert "what the vector of nobody yet (Q99) is made of" in table
    assert [line.split()[1:] for line in table.splitlines()[-2:]].count(
        ["nobody", "yet", "(Q99)", "right", "(P1)", "Q33"]
    ) == 1
    document = run(*question, "--json")
    by_id = {answer["entity"]: answer["name"] for answer in document["answers"]}
    assert (by_id["Q00"], by_id["Q33"]) == ("the corner", None)
    assert {(reason["entity"], reason["name"], reason["relation_name"]) for reason in document["explanation"]} == {
        ("Q33", None, "right"), ("Q44", None, None),
    }  # fmt: skip


def test_without_names_nothing_is_shown_of_them(run: Run) -> None:
    Path("model/names.safetensors").unlink()
    table = run("predict", "model", "--head", "Q00", "--relation", "P1")
    title, columns = table.splitlines()[:2]
    assert (title, columns.split()) == ("(Q00, P1, ?)", ["rank", "entity", "score"])
    run("embed", "model", "new.tsv", "--out", "v.parquet")
    assert pq.read_table("v.parquet").column_names == ["entity", "vector"]
    assert run("names", "model") == "0 names; 0 of 48 entities and 0 of 2 relations have one\n"
    assert run("status", "model", "--json")["names"]["names"] == 0
    assert "names" not in run("status", "model")


def test_a_name_in_place_of_an_id(run: Run) -> None:
    by_id = run("predict", "model", "--head", "Q00", "--relation", "P1", "--json")
    assert run.notes == []
    assert run("predict", "model", "--head", "the corner", "--relation", "right", "--json") == by_id
    assert run.notes == [
        "note: entity 'the corner' is 'Q00'", "note: relation 'right' is 'P1'",
    ]  # fmt: skip
    # A name of two ids, one that belongs to a relation, one of what is not there, and one of nobody.
    message = run("predict", "model", "--tail", "a field", "--relation", "P1", code=2)
    assert "entity 'a field' is the name of 2 ids ('Q01', 'Q02'); give one of them" in message
    assert "unknown entity 'right'" in run("predict", "model", "--tail", "right", "--relation", "P1", code=2)
    assert "unknown entity 'nobody yet'" in run("predict", "model", "--tail", "nobody yet", "--relation", "P1", code=2)
    # An id is an id, whatever else has it for a name.
    assert run("predict", "model", "--head", "Q00", "--relation", "P2")
    assert run.notes == []
    run("predict", "model", "--head", "nobody yet", "--relation", "P1", "--given", "new.tsv")
    assert run.notes == ["note: entity 'nobody yet' is 'Q99'"]
    run("add", "model", "new.tsv")
    assert run("remove", "model", "--entity", "nobody yet", "--json")["removed"] == 2
    assert run.notes == ["note: entity 'nobody yet' is 'Q99'"]


def test_names_are_set_later_and_stay(run: Run) -> None:
    assert run("names", "model", "--json") == {
        "names": 6, "entities": 4, "of_entities": 48, "relations": 1, "of_relations": 2,
    }  # fmt: skip
    run("add", "model", "new.tsv")
    Path("more.csv.gz").write_bytes(gzip.compress(b'id,name\nP2,"up, then"\nQ00,corner\n'))
    assert run("names", "model", "more.csv.gz") == "7 names; 5 of 49 entities and 2 of 2 relations have one\n"
    assert "7 names; 5 of 49 entities" in run("status", "model")
    run("update", "model", "--steps", "2", "--device", "cpu")
    run("rollback", "model")
    assert "corner (Q00), up, then (P2)" in run("predict", "model", "--head", "Q00", "--relation", "P2")
    Path("more.tsv").write_text("Q00\tcorner\n")
    assert run("names", "model", "more.tsv", "--replace").startswith("1 name; 1 of 49 entities")
    files = run("check", "model", "--json")["files"]
    assert [file["name"] for file in files if file["name"].startswith("names")] == ["names.safetensors"]


def test_bad_names_change_nothing(run: Run) -> None:
    before = Path("model/names.safetensors").read_bytes()
    Path("bad.tsv").write_text("Q01\tfield\nQ01\tother\n")
    assert run("names", "model", "bad.tsv", code=2) == (
        "ookg: bad.tsv:2: 'Q01' has a name in 1 already; give each id once\n"
    )
    for command in (("train", "graph.tsv", "--out", "other", *TRAINING), ("import", "arrays", "nosuch", "--out", "x")):
        assert "bad.tsv:2" in run(*command, "--names", "bad.tsv", code=2)
    assert not Path("other").exists()
    assert "no such file" in run("names", "model", "nosuch.tsv", code=2)
    assert "no model here" in run("names", "nowhere", "names.tsv", code=2)
    assert not Path("nowhere").exists()
    assert "give FILE too" in run("names", "model", "--replace", code=2)
    for text in ("", "id\tname\n"):
        Path("empty.tsv").write_text(text)
        refused = run("names", "model", "empty.tsv", "--replace", code=2)
        assert refused == "ookg: empty.tsv: no names; give at least one id with its name\n"
    assert Path("model/names.safetensors").read_bytes() == before


def test_import_takes_names(run: Run) -> None:
    Path("arrays").mkdir()
    np.save("arrays/entities.npy", np.eye(3, dtype=np.float32))
    np.save("arrays/relations.npy", np.ones((1, 3), dtype=np.float32))
    Path("entities.txt").write_text("Q00\nQ01\nQ02\n")
    Path("relations.txt").write_text("P1\n")
    labels = ("--entities", "entities.txt", "--relations", "relations.txt", "--model", "transe", "--norm", "1")
    run("import", "arrays", "arrays", "--out", "imported", *labels, "--names", "names.tsv")
    assert "imported: 6 names stored" in run.notes
    assert "the corner (Q00)" in run("predict", "imported", "--head", "Q00", "--relation", "P1")
    run("train", "graph.tsv", "--out", "imported", "--overwrite", *TRAINING)
    assert any("6 names from before, which stay" in line for line in run.notes)


def test_vectors_and_claims_have_names(run: Run) -> None:
    run("embed", "model", "new.tsv", "--out", "v.parquet")
    table = pq.read_table("v.parquet")
    assert (table["entity"].to_pylist(), table["name"].to_pylist()) == (["Q99"], ["nobody yet"])
    run("embed", "model", "new.tsv", "--out", "v.parquet", "--overwrite", "--query-relation", "right")
    assert run.notes[0] == "note: relation 'right' is 'P1'"
    Path("valid.tsv").write_text("Q00\tP1\tQ10\t1\nQ00\tP1\tQ55\t0\n")
    Path("claims.tsv").write_text("Q00\tP1\tQ11\n")
    assert "the corner (Q00)  right (P1)  Q11" in run("classify", "model", "claims.tsv", "--valid", "valid.tsv")
    (claim,) = run("classify", "model", "claims.tsv", "--valid", "valid.tsv", "--json")["claims"]
    assert [claim[f"{end}_name"] for end in ("head", "relation", "tail")] == ["the corner", "right", None]


def test_claims_by_names_have_no_verdict_and_a_note_names_the_ids(run: Run) -> None:
    Path("valid.tsv").write_text("Q00\tP1\tQ10\t1\nQ00\tP1\tQ55\t0\n")
    rows = ["Q00\tP1\tQ11", "the corner\tP1\tQ11", "Q00\tright\ta field", "Q00\tP1\tP2", "Q00\tP1\tnobody yet"]
    Path("claims.tsv").write_text("".join(f"{row}\n" for row in rows))
    claims = run("classify", "model", "claims.tsv", "--valid", "valid.tsv", "--json")["claims"]
    assert [claim["verdict"] is None for claim in claims] == [False, True, True, True, True]
    assert "note: 4 of 5 claims without a verdict: an entity or the relation has no vector" in run.notes
    said = "claims take ids, give that"
    assert [line for line in run.notes if line.endswith(said)] == [
        f"note: 'the corner' has no vector: it is the name of 'Q00'; {said}",
        f"note: 'a field' has no vector: it is the name of 'Q01' or 'Q02'; {said}",
        f"note: 'P2' has no vector: it is the name of 'Q12'; {said}",  # an entity's, where an entity stands
        f"note: 'right' has no vector: it is the name of 'P1'; {said}",
    ]  # 'nobody yet' names an entity that has not come


def test_a_terminal_gets_no_orders_from_names_and_labels(run: Run) -> None:
    Path("odd.tsv").write_text("Q00\t\x1b[31mred\u202e\x07\nQ10\t\x9b2J\n")
    run("names", "model", "odd.tsv")
    Path("given.tsv").write_text("\x1b]0;title\x07\tP1\tQ33\n")
    ask = ("predict", "model", "--given", "given.tsv", "--top", "60", "--known-answers", "mark", "--explain")
    shown = run(*ask, "--head", "Q00", "--relation", "P1")
    shown += run(*ask, "--head", "\x1b]0;title\x07", "--relation", "P1")
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert "\\x1b[31mred\\u202e\\x07 (Q00)" in shown
    assert "\\x1b]0;title\\x07 is new" in shown
    names = {answer["name"] for answer in run(*ask, "--head", "Q55", "--relation", "P1", "--json")["answers"]}
    assert "\x1b[31mred\u202e\x07" in names  # programs get what was stored
