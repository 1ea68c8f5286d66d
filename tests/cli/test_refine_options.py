"""Fitting new vectors and ranking by all evidence, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import random_triples
from ookg.cli import main
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, RankingWeights
from ookg.graph.triples import write_triples
from ookg.model.model import Model

Run = Callable[..., str]
TRAINING = ["--steps", "20", "--batch", "32", "--negatives", "4", "--margin", "4", "--lr", "0.05", "--device", "cpu"]
REFINE = ["--refine", "--refine-steps", "20", "--refine-lr", "0.05"]
PREDICT = ["predict", "model", "--given", "new.tsv", "--head", "x", "--relation", "r1", "--top", "30", "--json"]
EMBED = ["embed", "model", "new.tsv", "--out", "new.parquet", "--overwrite"]
CLASSIFY = ["classify", "model", "claims.tsv", "--valid", "valid.tsv", "--given", "new.tsv", "--json"]
EVALUATE = ["evaluate", "links-model", "--dataset", "links", "--json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refine")
    write_triples(path / "graph.tsv", random_triples(0, size=150))
    (path / "new.tsv").write_text("x\tr0\te1\ne2\tr1\tx\nx\tr2\te5\ny\tr2\te3\n")
    (path / "valid.tsv").write_text("e1\tr0\te2\t1\ne3\tr0\te4\t0\ne5\tr1\te6\t1\ne7\tr1\te8\t-1\n")
    (path / "claims.tsv").write_text("x\tr0\te1\ne1\tr0\te2\nx\tr3\ty\n")
    assert main(["datasets", "split", str(path / "graph.tsv"), "--out", str(path / "links"), "--count", "10"]) == 0
    for name, graph, model in (
        ("model", "graph.tsv", "transe"),
        ("links-model", "links/train.txt", "rotate"),
        ("transh", "graph.tsv", "transh"),
    ):
        options = ["--model", model, "--dim", "6", *TRAINING]
        assert main(["train", str(path / graph), "--out", str(path / name), *options]) == 0
    return path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([*arguments, "--device", "cpu"]) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code == 0:
            return captured.out
        lines = captured.err.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("ookg: ")
        assert captured.out == ""
        return lines[0]

    return call


def vectors(folder: Path) -> dict[str, list[float]]:
    columns = pq.read_table(folder / "new.parquet").to_pydict()
    return dict(zip(columns["entity"], columns["vector"], strict=True))


def test_embed_fits(run: Run, folder: Path) -> None:
    found = {}
    for name, options in (
        ("closed", []),
        ("fitted", REFINE),
        ("again", REFINE),
        ("another seed", [*REFINE, "--refine-seed", "1"]),
        ("another margin", [*REFINE, "--refine-margin", "1.5"]),
        ("more steps", [*REFINE, "--refine-steps", "21"]),
    ):
        run(*EMBED, *options)
        found[name] = vectors(folder)["x"]
    assert found["fitted"] == found.pop("again")
    assert len({tuple(vector) for vector in found.values()}) == len(found)
    model = Model.load(folder / "model")
    settings = model.refinement(True)
    assert settings is not None
    expected = model.embed("new.tsv", refine=settings.changed({"steps": 20, "lr": 0.05}))
    np.testing.assert_array_equal(found["fitted"], expected.vectors[expected.entities.index("x")].numpy())


def test_seconds_end_the_fitting(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed, ended, long = (
        (run(*EMBED, *options), vectors(folder)["x"])[1]
        for options in (
            [],
            ["--refine", "--refine-steps", "100000000", "--refine-seconds", "0.01"],
            ["--refine", "--refine-steps", "5", "--refine-seconds", "100"],
        )
    )
    assert np.isfinite(ended).all()
    assert ended != closed
    run(*EMBED, "--refine", "--refine-steps", "5")
    assert vectors(folder)["x"] == long


def test_predict_combines_with_refine_or_when_asked(run: Run, folder: Path) -> None:
    found = {
        options: json.loads(run(*PREDICT, *options))["answers"]
        for options in (
            (),
            ("--weights", "correlation"),
            ("--no-combine",),
            ("--combine",),
            tuple(REFINE),
            (*REFINE, "--combine"),
            (*REFINE, "--no-combine"),
        )
    }
    assert found["--weights", "correlation"] == found["--no-combine",]
    assert found[tuple(REFINE)] == found[(*REFINE, "--no-combine")]  # the graph's relations do not imply one another
    kinds = [
        found[()],
        found["--no-combine",],
        found["--combine",],
        found[(*REFINE, "--combine")],
        found[tuple(REFINE)],
    ]
    assert len({json.dumps(answers) for answers in kinds}) == 5
    assert all(answer["score"] < 0 for answer in found[(*REFINE, "--no-combine")])  # -D(h, r, t)
    model = Model.load(folder / "model")
    expected = model.predict("new.tsv", head="x", relation="r1", top=30, combine=CLOSED_FORM_WEIGHTS)
    assert [answer["entity"] for answer in found["--combine",]] == [answer.entity for answer in expected.answers]


def test_classify_fits(run: Run) -> None:
    closed, fitted = (json.loads(run(*CLASSIFY, *options))["claims"] for options in ([], REFINE))
    assert closed[0]["score"] != fitted[0]["score"]
    assert closed[1] == fitted[1]  # between known entities
    assert all(claim["verdict"] in (True, False) for claim in fitted)


def test_evaluate_fits_and_combines(run: Run, folder: Path) -> None:
    import ookg

    closed, combined, refined, both = (
        json.loads(run(*EVALUATE, *options)) for options in ([], ["--combine"], REFINE, [*REFINE, "--combine"])
    )
    model = Model.load(folder / "links-model")
    settings = model.refinement(True)
    assert settings is not None
    settings = settings.changed({"steps": 20, "lr": 0.05})
    assert closed == ookg.evaluate(model, folder / "links").to_dict()
    assert combined == ookg.evaluate(model, folder / "links", combine=True).to_dict()
    assert refined == ookg.evaluate(model, folder / "links", refine=settings, combine=False).to_dict()
    assert both == ookg.evaluate(model, folder / "links", refine=settings, combine=RankingWeights()).to_dict()
    assert len({result["mrr"] for result in (closed, combined, refined, both)}) == 4


@pytest.mark.parametrize("command", [EMBED, PREDICT, CLASSIFY, EVALUATE], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--refine-steps", "5"], "--refine-steps without --refine; give both"),
        (["--refine-seconds", "5"], "--refine-seconds without --refine; give both"),
        (["--refine-margin", "5"], "--refine-margin without --refine; give both"),
        (["--refine-lr", "5"], "--refine-lr without --refine; give both"),
        (["--refine-seed", "0"], "--refine-seed without --refine; give both"),
        (["--refine", "--refine-steps", "0"], "steps 0; it must be 1 or more"),
        (["--refine", "--refine-seconds", "0"], "seconds 0.0; it must be a number above 0"),
        (["--refine", "--refine-margin", "nan"], "margin nan; it must be a number above 0"),
        (["--refine", "--refine-seed", "-1"], "seed -1; it must be 0 or more"),
    ],
)
def test_options_that_do_not_fit(run: Run, command: list[str], options: list[str], message: str) -> None:
    assert message in run(*command, *options, code=2)


def test_refine_where_it_means_nothing(run: Run) -> None:
    assert "leave one of them out" in run(*EMBED, "--refine", "--query-relation", "r0", code=2)
    for command in (EMBED, PREDICT, CLASSIFY):
        line = run(command[0], "transh", *command[2:], "--refine", code=2)
        assert "refine is for TransE and RotatE, and this is TransH; leave it out" in line


@pytest.mark.parametrize("command", [EMBED, CLASSIFY], ids=lambda command: command[0])
def test_combine_is_for_ranking(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--combine"])
    assert stopped.value.code == 2
    assert "--combine" in capsys.readouterr().err


def test_a_model_without_its_triples(run: Run, folder: Path) -> None:
    (folder / "vectors").mkdir()
    files = ["--entities", "vectors/entities.parquet", "--relations", "vectors/relations.parquet"]
    assert main(["export", "model", *files]) == 0
    assert main(["import", "arrays", "vectors", "--out", "bare"]) == 0
    asked = [PREDICT[0], "bare", *PREDICT[2:]]
    assert "combine needs the training triples" in run(*asked, "--combine", code=2)
    plain, fitted = (json.loads(run(*asked, *options))["answers"] for options in ([], REFINE))
    assert all(answer["score"] < 0 for answer in fitted)  # without evidence: -D(h, r, t)
    assert plain != fitted
