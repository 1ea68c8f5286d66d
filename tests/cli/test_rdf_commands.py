"""RDF on the command line: prefixes as input, names from labels, blank nodes as answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ookg
from ookg.cli import main
from ookg.service.claims import Claims
from ookg.service.shapes import PredictBody

RDFS, EX = "http://www.w3.org/2000/01/rdf-schema#", "https://schema.org/"
SMALL = ["--dim", "4", "--steps", "5", "--batch", "8", "--negatives", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of classes, some of them blank nodes."""
    folder = tmp_path_factory.mktemp("rdf")
    lines = [f"<{EX}C{n}> <{RDFS}subClassOf> <{EX}C{n + 1}> ." for n in range(6)]
    lines += [f"<{EX}C{n}> <{RDFS}subClassOf> _:b{n} ." for n in range(6)]
    lines += [f'<{EX}C1> <{RDFS}label> "the first"@en .', f'<{EX}C1> <{RDFS}label> "die erste"@de .']
    lines += [f'<{EX}C9> <{RDFS}label> "not in the graph"@en .']
    (folder / "graph.nt").write_text("\n".join(lines), encoding="utf-8")
    assert main(["train", str(folder / "graph.nt"), "--out", str(folder / "model"), *SMALL]) == 0
    return folder / "model"


def output(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main(list(command)) == 0
    return capsys.readouterr().out


def test_what_is_printed_is_taken(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = ["predict", str(model), "--head", "schema:C1", "--relation", "rdfs:subClassOf"]
    shown = output(capsys, *query)
    assert shown.startswith("(the first (schema:C1), rdfs:subClassOf, ?)\n")
    answers = json.loads(output(capsys, *query, "--json"))["answers"]
    assert answers[0]["entity"].startswith(EX)
    assert ookg.load(model).predict(head="schema:C1", relation="rdfs:subClassOf").answers[0].entity.startswith(EX)


def test_a_prefix_of_ones_own(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = ["predict", str(model), "--head", "c:1", "--relation", "rdfs:subClassOf", "--prefix", f"c={EX}C"]
    assert output(capsys, *query).startswith("(the first (c:1), rdfs:subClassOf, ?)\n")


def test_blank_nodes_are_answers_only_if_asked_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = ["predict", str(model), "--head", "schema:C1", "--relation", "rdfs:subClassOf", "--top", "99", "--json"]

    def blank(*options: str) -> int:
        answers = json.loads(output(capsys, *query, *options))["answers"]
        return sum(answer["entity"].startswith("_:") for answer in answers)

    assert blank() == 0
    assert blank("--blank-nodes") == 5  # the sixth is known


def test_labels_become_names_in_the_language_that_is_asked_for(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ookg.load(model).names
    assert names.name(f"{EX}C1") == "the first"
    assert len(names) == 1  # what is not in the graph has none
    graph = str(model.parent / "graph.nt")
    assert main(["train", graph, "--out", str(tmp_path / "de"), "--language", "de", *SMALL]) == 0
    assert ookg.load(tmp_path / "de").names.name(f"{EX}C1") == "die erste"
    assert "2 names; 1 of 13 entities" in output(capsys, "names", str(tmp_path / "de"), graph)
    assert ookg.load(tmp_path / "de").names.name(f"{EX}C1") == "the first"


def test_add_remove_and_classify_take_prefixes_and_names(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(model.parent / "graph.nt"), "--out", str(tmp_path / "model"), *SMALL]) == 0
    living = str(tmp_path / "model")
    (tmp_path / "new.tsv").write_text("schema:N\trdfs:subClassOf\tschema:C2\n", encoding="utf-8")
    (tmp_path / "new.ttl").write_text(
        f'@prefix : <{EX}> . @prefix rdfs: <{RDFS}> .\n:M rdfs:subClassOf :C3 ; rdfs:label "the new" .\n'
        ':C1 rdfs:subClassOf :M ; rdfs:label "another name" .\n',
        encoding="utf-8",
    )
    assert "1 triple added, with 1 new entity and 0 new relations" in output(
        capsys, "add", living, str(tmp_path / "new.tsv")
    )
    assert "1 new entity" in output(capsys, "add", living, str(tmp_path / "new.ttl"))
    opened = ookg.open(living)
    assert opened.new_entities == [f"{EX}N", f"{EX}M"]
    assert opened.names.name(f"{EX}M") == "the new"
    assert opened.names.name(f"{EX}C1") == "the first"  # what has a name keeps it
    assert opened.add([("schema:N", "rdfs:subClassOf", "schema:C2")]).added == 0
    valid = tmp_path / "valid.tsv"
    valid.write_text("schema:C1\trdfs:subClassOf\tschema:C2\t1\nschema:C1\trdfs:subClassOf\tschema:C5\t0\n")
    claims = json.loads(output(capsys, "classify", living, str(tmp_path / "new.tsv"), "--valid", str(valid), "--json"))
    assert claims["claims"][0]["head"] == f"{EX}N"
    assert claims["claims"][0]["verdict"] is not None
    assert "1 triple removed" in output(capsys, "remove", living, str(tmp_path / "new.tsv"))
    assert "2 triples removed" in output(capsys, "remove", living, "--entity", "schema:M")


def test_predicates_are_selected_by_prefix(model: Path, tmp_path: Path) -> None:
    command = ["train", str(model.parent / "graph.nt"), "--out", str(tmp_path / "model"), *SMALL]
    assert main([*command, "--predicates", "rdfs:subClassOf"]) == 0
    assert list(ookg.load(tmp_path / "model").relations.labels.to_pylist()) == [f"{RDFS}subClassOf"]


def test_a_given_file_names_what_is_shown(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "given.ttl"
    given.write_text(f'<{EX}X> <{RDFS}subClassOf> <{EX}C2> ; <{RDFS}label> "what is new" .\n', encoding="utf-8")
    query = ["predict", str(model), "--given", str(given), "--head", "schema:X", "--relation", "rdfs:subClassOf"]
    assert output(capsys, *query).startswith("(what is new (schema:X), rdfs:subClassOf, ?)\n")


def test_the_server_takes_prefixes_too(model: Path) -> None:
    extended = ookg.open(model).extended
    claimed = Claims(None).verdicts(extended, [["schema:C1", "rdfs:subClassOf", "schema:C2"]])["verdicts"][0]
    assert (claimed["head"], claimed["relation"]) == (f"{EX}C1", f"{RDFS}subClassOf")
    assert claimed["score"] is not None
    asked = PredictBody(head="schema:C1", relation="rdfs:subClassOf", blank_nodes=True)
    assert asked.blank_nodes
    assert not PredictBody(head="schema:C1", relation="rdfs:subClassOf").blank_nodes
