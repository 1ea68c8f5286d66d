"""Each command end to end, its JSON, and each kind of bad input: one line, exit code 2, nothing stored is lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from conftest import random_triples
from ookg.cli import COMMANDS, main
from ookg.cli.console import print_table
from ookg.evidence.weights import RankingWeights
from ookg.graph.triples import read_triples, write_triples
from ookg.model.model import Model
from ookg.model.train import _digest
from ookg.storage.checkpoint import STATE_FILE, holds_model
from ookg.training.loop import TrainingRun
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

Run = Callable[..., str]
TRAINING = ["--dim", "8", "--steps", "40", "--batch", "32", "--negatives", "4", "--margin", "4", "--lr", "0.05"]


@pytest.fixture(scope="module", params=["transe", "rotate"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands")
    write_triples(path / "graph.tsv", random_triples(0))
    options = ["--model", request.param, "--device", "cpu", *TRAINING]
    assert main(["train", str(path / "graph.tsv"), "--out", str(path / "model"), *options]) == 0
    (path / "new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\ny\tr2\te3\ny\tunheard\te4\nz\tr0\tw\n")
    (path / "valid.tsv").write_text("e1\tr0\te2\t1\ne3\tr0\te4\t0\ne5\tr1\te6\t1\ne7\tr1\te8\t-1\n")
    (path / "claims.tsv").write_text("x\tr0\te1\ne1\tr0\te2\nx\tr3\ty\nz\tr0\te1\n")
    return path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code == 0:
            return captured.out
        *notes, line = captured.err.splitlines()
        assert line.startswith("ookg: ")
        assert not any("Traceback" in note or note.startswith("ookg: ") for note in notes)
        assert captured.out == ""
        return line

    return call


def table(path: Path) -> dict[str, Any]:
    columns = pq.read_table(path).to_pydict()
    name = next(name for name in columns if name != "vector")
    return dict(zip(columns[name], map(np.array, columns["vector"]), strict=True))


def solve(name: str, entity: Any, relation: Any, forward: bool) -> Any:
    """The paper's formulas, on exported vectors."""
    if name == "transe":
        return entity + relation if forward else entity - relation
    d = len(relation)
    turned = (entity[:d] + 1j * entity[d:]) * np.exp((1j if forward else -1j) * relation)
    return np.concatenate([turned.real, turned.imag])


def model_name(folder: Path) -> str:
    name: str = json.loads((folder / "model" / "model.json").read_text())["model"]
    return name


def test_export_and_embed_agree_with_the_papers_formulas(run: Run, folder: Path) -> None:
    run("export", "model", "--entities", "entities.parquet", "--relations", "relations.parquet")
    run("embed", "model", "new.tsv", "--out", "new.parquet", "--weights", "uniform", "--overwrite")
    entities, relations, new = (table(folder / f"{name}.parquet") for name in ("entities", "relations", "new"))
    assert set(new) == {"x", "y"}  # z is tied to a newcomer that is tied to nothing else
    name = model_name(folder)
    assert entities["e1"].shape == ((8,) if name == "transe" else (16,))
    assert relations["r0"].shape == (8,)
    first = solve(name, entities["e1"], relations["r0"], forward=False)
    second = solve(name, entities["e2"], relations["r1"], forward=True)
    np.testing.assert_allclose(new["x"], (first + second) / 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        new["y"], solve(name, entities["e3"], relations["r2"], forward=False), rtol=1e-4, atol=1e-5
    )


def test_embed_with_each_weighting(run: Run, folder: Path) -> None:
    vectors = []
    for options in (
        ["--weights", "degree", "--smoothing", "0.5"],
        ["--weights", "correlation", "--power", "2", "--query-relation", "r1"],
        ["--weights", "uniform", "--max-neighbors", "1"],
        ["--weights", "precision"],
        ["--prior", "0.5"],
    ):
        run("embed", "model", "new.tsv", "--out", "new.parquet", "--overwrite", *options)
        vectors.append(table(folder / "new.parquet")["x"])
    assert not np.allclose(vectors[0], vectors[1])
    assert not np.allclose(vectors[1], vectors[2])
    assert not np.allclose(vectors[3], vectors[4])


def test_predict_json_and_text(run: Run) -> None:
    options = ["predict", "model", "--given", "new.tsv", "--head", "x", "--relation", "r1", "--top", "3"]
    found = json.loads(run(*options, "--explain", "--json"))
    assert [answer["rank"] for answer in found["answers"]] == [1, 2, 3]
    scores = [answer["score"] for answer in found["answers"]]
    assert scores == sorted(scores, reverse=True)
    assert {(r["entity"], r["relation"], r["direction"]) for r in found["explanation"]} == {
        ("e1", "r0", "out"),
        ("e2", "r1", "in"),
    }
    assert sum(r["weight"] for r in found["explanation"]) == pytest.approx(1)
    text = run(*options, "--explain")
    assert found["answers"][0]["entity"] in text
    assert "what the vector of x is made of" in text
    assert json.loads(run("predict", "model", "--relation", "r1", "--tail", "e1", "--json"))["explanation"] == []
    assert "its vector was trained" in run("predict", "model", "--relation", "r1", "--tail", "e1", "--explain")


def test_what_speaks_for_an_answer_is_printed_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    films = [f"f{n}\tby\tnolan\nf{n}\tlanguage\tenglish\n" for n in range(6)]
    Path("films.tsv").write_text("".join(films) + "g\tby\tanother\ng\tlanguage\tfrench\n")
    Path("new.tsv").write_text("new\tby\tnolan\n")
    assert main(["train", "films.tsv", "--out", "model", "--device", "cpu", *TRAINING]) == 0
    weights = RankingWeights(vector=0.1, links=1.0, habits=0.1, company=1.0)
    monkeypatch.setattr(Model, "ranking_weights", lambda *_: weights)
    line = ["predict", "model", "--given", "new.tsv", "--head", "new", "--relation", "language", "--combine"]
    capsys.readouterr()
    assert main([*line, "--explain"]) == 0
    words = "6 of 6 with by nolan have language english"
    shown = capsys.readouterr().out.splitlines()
    at = next(place for place, text in enumerate(shown) if text.startswith("what puts each answer ahead"))
    assert re.fullmatch(r" {3}1  english  \+\d\.\d\d", shown[at + 1])
    assert re.fullmatch(rf" +\+\d\.\d\d  {words}", shown[at + 2])
    assert main(line) == 0
    assert words not in capsys.readouterr().out
    assert main([*line, "--json"]) == 0
    (reason,) = json.loads(capsys.readouterr().out)["answers"][0]["reasons"]
    assert (reason["kind"], reason["text"], reason["count"], reason["having"]) == ("company", words, 6, 6)
    assert main([*line, "--json", "--explain"]) == 0
    best = json.loads(capsys.readouterr().out)["answers"][0]
    assert best["lead"] == pytest.approx(sum(share["worth"] for share in best["shares"]))
    assert (best["shares"][0]["kind"], best["shares"][0]["text"]) == ("company", words)


def test_classify_json_and_text(run: Run, folder: Path) -> None:
    options = ["classify", "model", "--valid", "valid.tsv", "--given", "new.tsv"]
    found = json.loads(run(*options, "claims.tsv", "--json"))
    assert found["accuracy"] is None
    assert [(claim["head"], claim["tail"]) for claim in found["claims"]] == [
        ("x", "e1"),
        ("e1", "e2"),
        ("x", "y"),
        ("z", "e1"),
    ]
    triple = {"head", "relation", "tail", "head_name", "relation_name", "tail_name"}
    assert set(found["claims"][0]) == triple | {"score", "threshold", "verdict", "probability"}
    assert all(claim["verdict"] == (claim["score"] >= claim["threshold"]) for claim in found["claims"][:3])
    assert [found["claims"][3][name] for name in ("verdict", "score", "threshold")] == [None] * 3
    assert "unknown" in run(*options, "claims.tsv")
    judged = json.loads(run(*options, "valid.tsv", "--json"))
    assert judged["accuracy"] in (50.0, 75.0, 100.0)  # the thresholds were found on these: no worse than chance
    assert f"accuracy: {judged['accuracy']:.1f}%" in run(*options, "valid.tsv")


def test_evaluate_both_tasks(run: Run, folder: Path) -> None:
    run("datasets", "split", "graph.tsv", "--out", "links", "--new", "head", "--count", "6", "--overwrite")
    run("train", "links", "--out", "links-model", "--device", "cpu", "--overwrite", *TRAINING)
    options = ["evaluate", "links-model", "--dataset", "links"]
    found = json.loads(run(*options, "--json"))
    assert (found["task"], found["protocol"], found["ties"]) == ("link-prediction", "paper", "mean")
    assert found["queries"] > 0
    assert 0 < found["mrr"] <= 1
    assert found["mean_rank"] >= 1
    assert found["hits@1"] <= found["hits@3"] <= found["hits@10"] <= 100
    best = json.loads(run(*options, "--ties", "optimistic", "--json"))["mean_rank"]
    worst = json.loads(run(*options, "--ties", "pessimistic", "--json"))["mean_rank"]
    assert best <= found["mean_rank"] <= worst
    assert json.loads(run(*options, "--protocol", "lan", "--json"))["protocol"] == "lan"
    assert "LAN's code" in run(*options, "--protocol", "lan")

    classification = ["--task", "triplet-classification", "--new", "head", "--count", "8", "--overwrite"]
    run("datasets", "split", "graph.tsv", "--out", "claims", *classification)
    run("train", "claims", "--out", "claims-model", "--device", "cpu", "--overwrite", *TRAINING)
    options = ["evaluate", "claims-model", "--dataset", "claims"]
    judged = json.loads(run(*options, "--json"))
    assert judged["task"] == "triplet-classification"
    assert judged["claims"] == sum(relation["claims"] for relation in judged["relations"])
    assert 0 <= judged["accuracy"] <= 100
    assert "accuracy" in run(*options, "--weights", "uniform")
    message = run("evaluate", "model", "--dataset", "claims", "--json", code=2)
    assert "are known to the model" in message


def test_train_reads_settings_from_preset_config_and_options(run: Run, folder: Path) -> None:
    (folder / "run.toml").write_text('model = "transe"\ndim = 6\nmargin = 3.0\nnegatives = 2\nbatch = 16\n')
    options = [
        "--preset",
        "wn11",
        "--config",
        "run.toml",
        "--steps",
        "4",
        "--dim",
        "5",
        "--device",
        "cpu",
        "--overwrite",
    ]
    run("train", "graph.tsv", "--out", "configured", *options)
    settings = json.loads((folder / "configured" / "model.json").read_text())["settings"]
    assert (settings["dim"], settings["margin"], settings["steps"]) == (5, 3.0, 4)
    assert (settings["l2"], settings["subsampling"]) == (1e-5, False)  # from the preset


def test_train_validates_and_stops_early(run: Run, folder: Path) -> None:
    options = ["--validate-every", "2", "--patience", "1", "--valid", "valid.tsv", "--overwrite", "--device", "cpu"]
    run("train", "graph.tsv", "--out", "validated", *options, *TRAINING)
    provenance = json.loads((folder / "validated" / "model.json").read_text())["provenance"]
    assert len(provenance["validations"]) >= 2
    assert provenance["step"] < 40


def test_model_directories_do_not_name_this_machine(run: Run, folder: Path) -> None:
    assert str(folder) not in (folder / "model" / "model.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "missing.tsv", "--out", "m"], "missing.tsv: no such file; check the path"),
        (["train", "valid.tsv", "--out", "m"], "valid.tsv: has a label column"),
        (["train", "graph.tsv", "--out", "model"], "model: holds a model"),
        (["train", "graph.tsv", "--out", "m", "--dim", "0"], "dim 0; it must be 1 or more"),
        (["train", "graph.tsv", "--out", "m", "--lr-drops", "x"], "--lr-drops 'x'"),
        (["train", "graph.tsv", "--out", "m", "--validate-every", "5"], "no triples to validate on"),
        (["train", "graph.tsv", "--out", "m", "--config", "none.toml"], "none.toml: no such file"),
        (["train", "short.tsv", "--out", "m"], "short.tsv:2: 2 columns instead of 3"),
        (["train", "binary.tsv", "--out", "m"], "binary.tsv:1: binary data"),
        (["train", "nothing.tsv", "--out", "m"], "nothing.tsv: no triples to train on"),
        (["embed", "nowhere", "new.tsv", "--out", "n.parquet"], "nowhere: no model here"),
        (["embed", "model", "missing.tsv", "--out", "n.parquet"], "missing.tsv: no such file"),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--weights", "correlation"], "give a query relation"),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--query-relation", "r9"], "unknown relation 'r9'"),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--max-neighbors", "0"], "at most 0 neighbours"),
        (
            ["embed", "model", "new.tsv", "--out", "n.parquet", "--power", "2", "--weights", "degree"],
            "--power goes with",
        ),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--smoothing", "2", "--power", "1"], "give one of them"),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--prior", "1", "--power", "1"], "give one of them"),
        (["embed", "model", "new.tsv", "--out", "n.parquet", "--prior", "-1"], "prior -1.0; it must be"),
        (
            ["predict", "model", "--relation", "r0", "--head", "e1", "--prior", "1", "--weights", "degree"],
            "--prior goes with --weights precision, not degree",
        ),
        (["embed", "model", "new.tsv", "--out", "new.tsv/n.parquet"], "is a file, not a folder"),
        (["predict", "model", "--relation", "r0"], "give either a head or a tail"),
        (["predict", "model", "--relation", "r0", "--head", "nobody"], "unknown entity 'nobody'"),
        (["predict", "model", "--relation", "what", "--head", "e1"], "unknown relation 'what'"),
        (["predict", "model", "--given", "new.tsv", "--relation", "r0", "--head", "z"], "no usable neighbour"),
        (["classify", "model", "--valid", "graph.tsv", "claims.tsv"], "graph.tsv: has no label column"),
        (["classify", "model", "--valid", "nothing.tsv", "claims.tsv"], "nothing.tsv: no triples; give labelled ones"),
        (["classify", "model", "--valid", "wrong.tsv", "claims.tsv"], "wrong.tsv:1: label value 'yes'"),
        (["export", "model"], "nothing to write"),
        (["evaluate", "model", "--dataset", "FB15k-Hed-10"], "FB15k-Hed-10"),
        (["evaluate", "nowhere", "--dataset", "links"], "nowhere: no model here"),
        (["train", "FB15k-Head-99", "--out", "m"], "did you mean 'FB15k-Head-10'"),
        (["train", "graph.tsv", "--out", "m", "--margin", "inf"], "margin inf; it must be a number above 0"),
        (["train", "graph.tsv", "--out", "m", "--seed", "99999999999999999999"], "below 2^63"),
        (["train", "graph.tsv", "--out", "new.tsv"], "new.tsv: is a file"),
        (["train", "graph.tsv", "--out", "new.tsv/m"], "cannot be"),
        (["train", "graph.tsv", "--out", "m", "--preset", "fb15k", "--config", "preset.toml"], "choose one of them"),
        (["train", "graph.tsv", "--out", "m", "--config", "number.toml"], "unknown preset '3'"),
        (["train", "graph.tsv", "--out", "m", "--dim", "99999999999"], "it must be at most 1,000,000"),
        (["embed", "model", "new.tsv", "--out", "new.tsv"], "new.tsv: is read or written by this command already"),
        (["embed", "model", "new.tsv", "--out", "model/x.parquet"], "lies in the model's directory"),
        (["embed", "model", "new.tsv", "--out", "x" * 250 + ".csv"], "cannot be written"),
        (["embed", "model", "new.tsv", "--out", "n.npy"], "end it with .parquet or .csv"),
        (["export", "model", "--entities", "new.tsv"], "new.tsv: is there already; give --overwrite"),
        (["neighbors", "model", "nobody"], "unknown entity 'nobody'"),
        (["neighbors", "model", "e1", "--top", "0"], "top 0; ask for 1 or more"),
        (["predict", "model", "--vectors", "no.csv", "--head", "v", "--relation", "r0"], "no.csv: no such file"),
        (["embed", "model", "y" * 300, "--out", "n.parquet"], "File name too long"),
        (
            ["embed", "model", "new.tsv", "--out", "n.parquet", "--weights", "degree", "--query-relation", "r0"],
            "do not look",
        ),
        (["export", "model", "--entities", "model/model.json"], "lies in the model's directory"),
        (
            ["export", "model", "--entities", "n.parquet", "--relations", "n.parquet"],
            "is read or written by this command already",
        ),
        (["train", "graph.tsv", "--out", ""], "--out ''; give it a value"),
        (["train", "graph.tsv", "--out="], "--out ''; give it a value"),
        (["predict", "model", "--head=e0=", "--relation=r0"], "unknown entity 'e0='"),  # a value may end so
        (["train", "utf16.tsv", "--out", "m"], "utf16.tsv:1: UTF-16 text; convert it to UTF-8"),
        (["compare", "missing", "missing"], "missing: no such file; check the path"),
        (["compare", "links", "links"], "links: is a folder, not a file of rows; name one file"),
        (["predict", "model", "--vectors", "links", "--head", "v", "--relation", "r0"], "not a file of rows"),
        (["names", "model", "links"], "links: is a folder, not a file of names; name one file"),
        (["classify", "model", "claims.tsv", "--judge", "--judge-steps", "0"], "--judge-steps 0; it must be 1 or more"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "short.tsv").write_text("a\tr\tb\nc\tr\n")
    (folder / "binary.tsv").write_bytes(b"\0\1\2\n")
    (folder / "nothing.tsv").write_text("")
    (folder / "utf16.tsv").write_text("a\tr\tb\n", encoding="utf-16")
    (folder / "wrong.tsv").write_text("e1\tr0\te2\tyes\n")
    (folder / "preset.toml").write_text('preset = "wn11"\n')
    (folder / "number.toml").write_text("preset = 3\n")
    if not (folder / "links").exists():
        run("datasets", "split", "graph.tsv", "--out", "links", "--new", "head", "--count", "6")
    before = (folder / "model" / "model.json").read_bytes(), (folder / "new.tsv").read_bytes()
    assert message in run(*arguments, code=2)
    assert ((folder / "model" / "model.json").read_bytes(), (folder / "new.tsv").read_bytes()) == before
    assert not holds_model(folder / "m")
    assert not (folder / "n.parquet").exists()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*([command] if command else []), "--help"])
    assert stop.value.code == 0
    assert "usage: ookg" in capsys.readouterr().out


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["fly"], ["train"], ["embed", "model"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["rollback", "model", "--to", "7"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "ookg: unrecognized arguments: --to 7; see `ookg rollback --help`\n"


def test_help_and_version_do_not_wait_for_pytorch() -> None:
    script = "import sys, ookg.cli\ntry: ookg.cli.main(['--help'])\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_training_leaves_other_folders_alone(run: Run, folder: Path) -> None:
    (folder / "project" / "data-2024").mkdir(parents=True)
    (folder / "project" / "data-2024" / "mine.txt").write_text("keep")
    for _ in range(2):
        run("train", "graph.tsv", "--out", "project", "--device", "cpu", "--overwrite", *TRAINING)
    assert (folder / "project" / "data-2024" / "mine.txt").read_text() == "keep"
    assert len(list((folder / "project").glob("data-*"))) == 2


def begin(place: Path, graph: Path, steps: int) -> Path:
    """A run with the options `TRAINING` that was stopped after some steps; return its state."""
    settings = TrainingSettings(dim=8, steps=40, batch=32, negatives=4, margin=4.0, lr=0.05)
    triples = read_triples(graph)
    trainer = Trainer(torch.from_numpy(triples.ids), len(triples.entities), len(triples.relations), settings)
    for _ in range(steps):
        trainer.step()
    state = place / STATE_FILE
    fingerprint = settings.resolved(len(triples.entities)).to_dict() | {"training triples": _digest(triples)}
    TrainingRun(trainer, state, fingerprint=fingerprint).save()
    return state


def test_an_unfinished_run_survives_a_failed_overwrite_and_resumes(run: Run, folder: Path) -> None:
    state = begin(folder / "unfinished", folder / "graph.tsv", 25)
    if not torch.cuda.is_available():
        run("train", "graph.tsv", "--out", "unfinished", "--device", "cuda", "--overwrite", *TRAINING, code=2)
    assert state.exists()
    run("train", "graph.tsv", "--out", "unfinished", "--device", "cpu", "--overwrite", "--resume", *TRAINING)
    run("train", "graph.tsv", "--out", "whole", "--device", "cpu", "--overwrite", *TRAINING)
    first, second = (Model.load(folder / name).entity_vectors for name in ("unfinished", "whole"))
    assert torch.equal(first, second)


def test_divergence_is_no_success(run: Run, folder: Path) -> None:
    options = [*TRAINING, "--lr", "1e38"]
    assert "training diverged" in run("train", "graph.tsv", "--out", "diverged", "--device", "cpu", *options, code=2)
    assert not holds_model(folder / "diverged")


def test_link_prediction_says_when_answers_are_new(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("datasets", "split", "graph.tsv", "--out", "both", "--new", "both", "--count", "3", "--overwrite")
    run("train", "both", "--out", "both-model", "--device", "cpu", "--overwrite", *TRAINING)
    found = json.loads(run("evaluate", "both-model", "--dataset", "both", "--json"))
    assert found["unreachable"] == found["queries"] > 0


def test_tables_shorten_iris_and_json_keeps_them(run: Run, folder: Path) -> None:
    space = "http://www.wikidata.org/entity/"
    lines = [f"{space}Q{i}\thttp://example.org/knows\t{space}Q{i + 1}\n" for i in range(6)]
    (folder / "people.tsv").write_text("".join(lines))
    run("train", "people.tsv", "--out", "people", "--device", "cpu", "--overwrite", *TRAINING)
    options = ["predict", "people", "--head", f"{space}Q1", "--relation", "http://example.org/knows"]
    text = run(*options, "--prefix", "ex=http://example.org/")
    assert "(wd:Q1, ex:knows, ?)" in text
    assert space not in text
    assert all(answer["entity"].startswith(space) for answer in json.loads(run(*options, "--json"))["answers"])
    assert "give NAME=IRI" in run(*options, "--prefix", "ex", code=2)


def test_rounded_numbers_of_a_table_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("label", "share"), [("7", "5.5"), ("12", "15.9")])
    assert capsys.readouterr().out.splitlines() == [
        "label  share",
        "7        5.5",
        "12      15.9",
    ]


def test_a_dry_run_prints_the_plan_and_writes_nothing(run: Run, folder: Path) -> None:
    options = ["--optimizer", "adagrad", "--tables", "disk", "--negatives-shared", "4", *TRAINING]
    text = run("train", "graph.tsv", "--out", "planned", "--dry-run", *options)
    assert text.splitlines()[0].startswith("plan: transe by adagrad; tables of ")
    assert "steps of 32 triples per second" in text
    document = json.loads(run("train", "graph.tsv", "--out", "planned", "--dry-run", "--json", *options))
    assert [(one["tables"], one["optimizer"], one["steps"]) for one in document["plans"]] == [("disk", "adagrad", 40)]
    assert not (folder / "planned").exists()
    run("train", "graph.tsv", "--out", "planned", "--json", code=2)


def test_a_dry_run_of_a_run_to_resume_plans_what_is_left(run: Run, folder: Path) -> None:
    state = begin(folder / "begun", folder / "graph.tsv", 25)
    before = state.read_bytes()
    train = ["train", "graph.tsv", "--out", "begun", "--resume", "--device", "cpu", *TRAINING]
    assert run(*train, "--dry-run").splitlines()[-1].endswith("for the 15 that are left of 40 steps")
    (plan,) = json.loads(run(*train, "--dry-run", "--json"))["plans"]
    assert (plan["steps"], plan["done"], plan["seconds"]) == (40, 25, 15 / plan["steps_per_second"])
    assert "was started with dim 8, not 9" in run(*train, "--dim", "9", "--dry-run", code=2)
    again = run(*train, "--dim", "9", "--overwrite", "--dry-run").splitlines()[-1]
    assert again.endswith("for 40 steps")  # the run would be replaced
    assert state.read_bytes() == before
    run(*train)
    assert run(*train, "--dry-run").splitlines()[-1] == "plan: none of its 40 steps are left"
    (plan,) = json.loads(run(*train, "--dry-run", "--json"))["plans"]
    assert (plan["done"], plan["seconds"]) == (40, 0.0)


def test_a_dry_run_of_models_together_plans_what_is_left_of_each(run: Run) -> None:
    train = ["train", "graph.tsv", "--out", "both", "--resume", "--device", "cpu", *TRAINING]
    run(*train, "--model", "transe")
    plans = json.loads(run(*train, "--model", "transe,rotate", "--dry-run", "--json"))["plans"]
    assert [(plan["model"], plan["done"]) for plan in plans] == [("transe", 40), ("rotate", 0)]


def test_where_tables_lie_does_not_change_a_model(run: Run, folder: Path) -> None:
    for place in ("device", "disk"):
        run("train", "graph.tsv", "--out", place, "--tables", place, "--device", "cpu", *TRAINING)
        assert sorted(path.name for path in (folder / place).iterdir() if path.name[:5] != "data-") == [
            ".lock", "model.json",
        ]  # fmt: skip
    models = [Model.load(folder / place) for place in ("device", "disk")]
    assert torch.equal(models[0].entity_vectors, models[1].entity_vectors)
