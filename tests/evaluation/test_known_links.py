"""Ordinary link prediction: ranks against a computation of its own, figures, files of ranks, and comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.cli import main
from ookg.errors import InputError
from ookg.evaluation.ranks import MEASURES, QuestionRanks, compare, read_ranks
from ookg.graph.triples import Triples, as_triples, read_triples, write_triples
from ookg.model.model import Model


def plain_distance(model: Model, head: Any, relation: Any, tail: Any) -> Any:
    """D(h, r, t) from the exported vectors, by the equations of TransE and RotatE in double precision."""
    if model.checkpoint.embedding.geometry.name == "transe":
        return np.abs(head + relation - tail).sum(axis=-1)
    d = relation.shape[-1]
    turned = (head[..., :d] + 1j * head[..., d:]) * np.exp(1j * relation)
    return np.abs(turned - (tail[..., :d] + 1j * tail[..., d:])).sum(axis=-1)


def bounds_of_ranks(model: Model, test: list[tuple[str, str, str]], true: set[tuple[str, str, str]]) -> Any:
    """For the tail and the head of each test triple the lowest and the highest rank that rounding allows."""
    labels = model.entities.labels.to_pylist()
    entities, relations = model.entity_vectors.double().numpy(), model.relation_vectors.double().numpy()
    rows = []
    for head, relation, tail in test:
        h, r, t = (model.entities.find(head), model.relations.find(relation), model.entities.find(tail))
        for asks_tail in (True, False):
            answer = t if asks_tail else h
            triples = [(head, relation, one) if asks_tail else (one, relation, tail) for one in labels]
            rival = np.array([triple not in true for triple in triples])
            ends = (entities[h], relations[r], entities) if asks_tail else (entities, relations[r], entities[t])
            distance = plain_distance(model, *ends)
            gap = distance - distance[answer]
            rival[answer] = False
            rows.append((1 + (rival & (gap < -1e-4)).sum(), 1 + (rival & (gap < 1e-4)).sum()))
    return np.array(rows).T


def test_ranks_are_those_of_a_computation_of_their_own(model: Model, graph: Triples) -> None:
    known = set(graph)
    test = [row for row in random_triples(5, size=40) if row not in known][:15]
    valid = [row for row in random_triples(6, size=40) if row not in known and row not in test][:10]
    result = model.evaluate_known(test, valid=valid)
    low, high = bounds_of_ranks(model, test, known | set(test) | set(valid))
    assert ((low <= result.ranks.rank) & (result.ranks.rank <= high)).all()
    assert (low == high).mean() > 0.9  # the bounds say something
    assert result.ranks.questions[:2] == [(*test[0], "tail"), (*test[0], "head")]
    assert result.all.summary.mrr == pytest.approx((1 / result.ranks.rank).mean())
    degree = sum(test[0][0] == end for head, _, tail in known for end in (head, tail))
    assert result.ranks.triples[0] == degree
    # Without the filter of valid triples, they are wrong answers that may come first.
    assert model.evaluate_known(test).ranks.rank.sum() >= result.ranks.rank.sum()


def test_figures_on_codex_agree_with_a_small_computation(published: Path) -> None:
    folder = published / "codex-s"
    train, test, valid = (read_triples(folder / f"{part}.txt.gz") for part in ("train", "test", "valid"))
    model = ookg.train(train, SMALL.changed({"steps": 20, "batch": 256}), device="cpu")
    some = list(test)[:150]
    result = model.evaluate_known(some, valid=[*list(test)[150:], *valid])
    low, high = bounds_of_ranks(model, some, {*train, *test, *valid})
    assert ((low <= result.ranks.rank) & (result.ranks.rank <= high)).all()
    assert (1 / high).mean() <= result.all.summary.mrr <= (1 / low).mean()
    parts = [figures.summary.queries for figures in result.by_relation.values()]
    assert parts == sorted(parts, reverse=True)
    for part in (result.by_relation, result.by_direction, result.by_triples):
        assert sum(figures.summary.queries for figures in part.values()) == 300
        mean = sum(one.summary.mrr * one.summary.queries for one in part.values()) / 300
        assert mean == pytest.approx(result.all.summary.mrr)


def ranks_of(values: list[float], name: str = "r") -> QuestionRanks:
    heads = [f"h{n // 2}" for n in range(len(values))]
    asks_tail = np.arange(len(values)) % 2 == 0
    counts = np.arange(len(values), dtype=np.int64)
    return QuestionRanks(heads, [name] * len(values), ["t"] * len(values), asks_tail, np.array(values), counts)


def test_intervals_are_repeatable_and_hold_the_figure() -> None:
    random = np.random.default_rng(0)
    ranks = ranks_of([float(value) for value in random.integers(1, 30, 200)])
    figures = ranks.figures()
    again, other = ranks.figures(0), ranks.figures(1)
    assert figures == again != other
    summary = figures.summary.to_dict()
    for name in MEASURES:
        one = figures.intervals[name]
        assert one.low < summary[name] < one.high
    # The standard error of the mean over 100 triples, times 1.96 to each side.
    pairs = (1 / ranks.rank).reshape(-1, 2).mean(axis=1)
    width = figures.intervals["mrr"].high - figures.intervals["mrr"].low
    assert width == pytest.approx(2 * 1.96 * pairs.std() / 10, rel=0.15)


def test_figures_by_triples_name_their_groups() -> None:
    counts = np.array([0, 1, 2, 3, 10, 11, 31, 101, 5000, -1])
    ranks = QuestionRanks(["h"] * 10, ["r"] * 10, [f"t{n}" for n in range(10)], counts > 0, counts * 0 + 1.0, counts)
    groups = {name: figures.summary.queries for name, figures in ranks.by_triples().items()}
    expected = {"0": 1, "1": 1, "2 to 3": 2, "4 to 10": 1, "11 to 30": 1, "31 to 100": 1, "101 and more": 2}
    assert groups == expected


def test_a_comparison_is_paired_by_question() -> None:
    before = [2.0, 4.0, 1.0, 10.0, 3.0, 3.0]
    first, second = ranks_of(before), ranks_of([1.0, 2.0, 1.0, 5.0, 3.0, 4.0]).select(np.array([5, 3, 0, 1, 2, 4]))
    result = compare(first, second)
    mrr = result.measures["mrr"]
    assert mrr.difference == pytest.approx((1 / 2 + 1 / 4 + 0 + 1 / 10 + 0 - 1 / 12) / 6)
    assert (result.better, result.worse, result.equal) == (3, 1, 2)
    # By triple the differences are 0.75, 0.1 and -1/12: half of the choices of signs are as far from 0.
    assert mrr.p_value == pytest.approx(0.5, abs=0.02)
    assert compare(first, first).measures["mrr"].p_value == 1
    fewer = compare(first, first.select(np.arange(4)))
    assert (fewer.questions, fewer.only_first, fewer.only_second) == (4, 2, 0)
    with pytest.raises(InputError, match="no question is in both"):
        compare(first, ranks_of(before, "another"))


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "jsonl"])
def test_ranks_come_back_from_their_file(tmp_path: Path, ending: str) -> None:
    ranks = QuestionRanks(
        ['a "b"', "1,2"], ["ré\t", "2"], ["x", "007"], np.array([True, False]), np.array([1.5, 3.0]), np.array([4, -1])
    )
    path = tmp_path / f"ranks.{ending}"
    ranks.write(path)
    back = read_ranks(path)
    assert back.questions == ranks.questions
    assert back.rank.tolist() == [1.5, 3.0]
    assert back.triples.tolist() == [4, -1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("head,relation,tail,rank\n", "no column asked"),
        ("head,relation,tail,asked,rank\na,r,b,tail,0\n", "rank of row 1 is '0'"),
        ("head,relation,tail,asked,rank\na,r,b,both,1\n", "asked of row 1 is 'both'"),
        ("head,relation,tail,asked,rank\na,r,b,tail,nan\n", "rank of row 1 is 'nan'"),
        ("head,relation,tail,asked,rank\na,r,b,tail\n", ":2: 4 columns where the header has 5"),
        ("head,relation,tail,asked,rank\na,r,b,tail,1\na,r,b,tail,2\n", "twice"),
    ],
)
def test_a_wrong_file_of_ranks_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_ranks(path)


def test_the_commands(
    model: Model, graph: Triples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("model")
    known = set(graph)
    test = [row for row in random_triples(5, size=40) if row not in known][:10]
    write_triples(Path("test.tsv"), as_triples([*test, ("nobody", "r0", "e1")]))
    line = ["evaluate", "model", "--device", "cpu", "--test", "test.tsv", "--ranks", "a.csv"]
    assert main([*line, "--json"]) == 0
    captured = capsys.readouterr()
    figures = json.loads(captured.out)
    assert figures["queries"] == 20
    assert figures["left_out"] == 1
    assert figures["mrr"] == pytest.approx((1 / read_ranks("a.csv").rank).mean())
    assert "1 of 11 test triples left out" in captured.err
    assert main(line) == 2
    assert "a.csv: is there already; give --overwrite" in capsys.readouterr().err
    assert main([*line, "--overwrite", "--combine"]) == 0
    assert "101 and more" not in capsys.readouterr().out
    assert main(["compare", "a.csv", "a.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["mrr"]["difference"] == 0
    for wrong, problem in (
        (["--ranks", "a.xlsx"], "end it with .parquet"),
        (["--refine"], "--refine is for new entities"),
        (["--shots", "1"], "--shots is for new entities"),
        (["--ranks", "b.csv", "--seed", "-1"], "seed -1"),
    ):
        assert main([*line[:6], *wrong]) == 2
        assert problem in capsys.readouterr().err
    assert main(["evaluate", "model", "--dataset", "x", "--valid", "test.tsv"]) == 2
    assert "--valid goes with --test" in capsys.readouterr().err
