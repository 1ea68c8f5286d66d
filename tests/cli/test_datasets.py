from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ookg.cli import datasets as command
from ookg.cli import main
from ookg.datasets.folder import load_dataset
from ookg.demo.tour import film_graph
from ookg.graph.triples import write_triples

TRAIN, AUX, TEST = "a\tlikes\tb\nb\tlikes\tc\nc\tknows\ta\n", "new\tlikes\ta\n", "new\tknows\tc\n"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OOKG_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "WN11-Head-1000"
    folder.mkdir(parents=True)
    for name, text in (("train", TRAIN), ("aux", AUX), ("test", TEST), ("valid", "")):
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "graph.tsv"
    rows = [f"e{i}\tr{i % 3}\te{(i * 7 + step) % 60}\n" for i in range(60) for step in (1, 2, 5, 11)]
    path.write_text("".join(rows + rows[:4]))
    return path


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "list", "--data", str(folder.parent)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert lines[1].split() == ["FB15k-Head-10", "link-prediction", "not", "fetched"]
    assert lines[3].split() == ["WN11-Head-1000", "triplet-classification", str(folder)]


def test_list_json(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OOKG_DATA", str(folder.parent))
    assert main(["datasets", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed[0] == {"name": "FB15k-Head-10", "task": "link-prediction", "folder": None}
    assert listed[2] == {"name": "WN11-Head-1000", "task": "triplet-classification", "folder": str(folder)}


def test_stats_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "stats", "wn11-head-1000", "--data", str(folder.parent)]) == 0
    title, row = capsys.readouterr().out.splitlines()
    assert title.split()[:6] == ["data", "set", "train", "valid", "aux", "test"]
    assert row.split() == ["WN11-Head-1000", "3", "0", "1", "1", "2", "3", "1", "1", "0"]


def test_stats_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "stats", str(folder), "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one == {
        "name": "WN11-Head-1000",
        "task": "link-prediction",
        "train": 3,
        "valid": 0,
        "aux": 1,
        "test": 1,
        "relations": 2,
        "entities": 3,
        "new_entities": 1,
        "new_entities_in_test": 1,
        "new_without_neighbor": 0,
        "train_duplicates": 0,
        "aux_duplicates": 0,
        "aux_untrained": 0,
        "test_untrained": 0,
    }
    assert main(["datasets", "stats", str(folder), str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [one, one]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats"], "no data set named; name one, give a folder, or use --all"),
        (["stats", "--all"], "data set FB15k-Head-10 is not here; run `ookg datasets fetch FB15k-Head-10`"),
        (["stats", "WN18RR"], "unknown data set 'WN18RR'"),
        (["fetch", "WN18RR"], "unknown data set 'WN18RR'"),
        (["split", "nothing.tsv", "--out", "somewhere"], "nothing.tsv: no such file"),
        (["split", "nothing.tsv", "--out", "somewhere", "--share", "1"], "a share of 1.0 for test"),
        (["split", "nothing.tsv", "--out", "somewhere", "--count", "0"], "0 test triples"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["datasets", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"ookg: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_fetch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    fetched: list[tuple[str, str, str]] = []

    def fake(name: str, cache: str, *, base_url: str, progress: Any) -> Path:
        fetched.append((name, cache, base_url))
        for done in (10_000, 20_000):
            progress(f"{name}/train.txt", done, 20_000)
        return Path(cache) / name

    monkeypatch.setattr(command, "fetch", fake)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    options = ["--cache", str(tmp_path), "--base-url", "http://mirror"]
    assert main(["datasets", "fetch", "WN11-Head-1000", *options]) == 0
    captured = capsys.readouterr()
    assert fetched == [("WN11-Head-1000", str(tmp_path), "http://mirror")]
    assert captured.out == ""
    assert f"WN11-Head-1000 is in {tmp_path / 'WN11-Head-1000'}" in captured.err
    if not terminal:
        assert captured.err.splitlines()[0] == "fetching WN11-Head-1000/train.txt, 20,000 bytes"
    fetched.clear()
    assert main(["datasets", "fetch", "all", *options]) == 0
    assert len(fetched) == 11


@pytest.mark.parametrize("task", ["link-prediction", "triplet-classification"])
def test_split(triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str) -> None:
    out = tmp_path / "made"
    options = ["--count", "12", "--new", "tail", "--seed", "3", "--task", task, "--valid-share", "0.1"]
    assert main(["datasets", "split", str(triples), "--out", str(out), *options, "--json"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    dataset = load_dataset(out)
    assert (printed["name"], printed["task"], dataset.task) == ("made", task, task)
    assert printed["test"] == len(dataset.test) == (12 if task == "link-prediction" else 24)
    assert all(tail in dataset.new_entities for _, _, tail in dataset.test)
    assert "4 duplicate triples dropped" in captured.err.splitlines()
    assert "no others fit" not in captured.err


def test_split_hides_entities_and_says_what_it_left(
    triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    assert main(["datasets", "split", str(triples), "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    printed, dataset = json.loads(captured.out), load_dataset(out)
    hidden, asked = len(dataset.new_entities), len(dataset.test)
    everyone = printed["entities"] + hidden
    assert hidden == round(0.05 * everyone)
    assert f"{hidden} of {everyone} entities hidden; {printed['entities']} stay, with " in captured.err
    assert f"{printed['aux']} triples are given, and {asked} asked; 0 left out\n" in captured.err
    assert sum(printed[part] for part in ("train", "valid", "aux", "test")) == 240
    assert main(["datasets", "split", str(triples), "--out", str(tmp_path / "six"), "--entities", "6"]) == 0
    assert len(load_dataset(tmp_path / "six").new_entities) == 6
    assert (
        main(["datasets", "split", str(triples), "--out", str(tmp_path / "x"), "--entities", "6", "--new", "head"]) == 2
    )
    assert "--entities with --new" in capsys.readouterr().err
    assert main(["datasets", "split", str(triples), "--out", str(tmp_path / "x"), "--entities", "1.0"]) == 2
    assert "a share of 1.0 of the entities" in capsys.readouterr().err


def test_split_says_when_it_falls_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "graph.csv"
    source.write_text("from;by;to\nn;r;k\nn;r;l\nk;r;l\n")
    layout = ["--columns", "from,by,to", "--header", "--delimiter", ";"]
    arguments = ["datasets", "split", str(source), "--out", str(tmp_path / "out"), "--count", "2", *layout]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == "1 true test triples instead of 2: no others fit\n"
    assert captured.out.splitlines()[1].split()[:5] == ["out", "1", "0", "1", "1"]


def test_split_overwrites_only_on_request(triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["datasets", "split", str(triples), "--out", str(tmp_path / "out"), "--count", "5"]
    assert main(arguments) == 0
    before = (tmp_path / "out" / "test.txt").read_text()
    assert main([*arguments, "--seed", "1"]) == 2
    assert (
        "already holds train.txt; choose another folder, or write over it with --overwrite" in capsys.readouterr().err
    )
    assert (tmp_path / "out" / "test.txt").read_text() == before
    assert main([*arguments, "--seed", "1", "--overwrite"]) == 0
    assert (tmp_path / "out" / "test.txt").read_text() != before


def test_split_never_overwrites_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "train.txt"
    source.write_text(TRAIN)
    assert main(["datasets", "split", str(source), "--out", str(tmp_path), "--overwrite"]) == 2
    assert "lies in the folder to overwrite" in capsys.readouterr().err
    assert source.read_text() == TRAIN


def test_share_and_count_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["datasets", "split", "x", "--out", "y", "--share", "0.1", "--count", "5"])
    assert stop.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_split_into_snapshots(triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data" / "continual" / "mine"
    command = ["datasets", "split", str(triples), "--snapshots", "3", "--out", str(out)]
    assert main([*command, "--share", "0.2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["name"], len(made["snapshots"])) == ("mine", 3)
    assert sum(snapshot[part] for snapshot in made["snapshots"] for part in ("train", "valid", "test")) == 240
    assert made["snapshots"][-1]["entities"] == 60
    assert main(["datasets", "list", "--data", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["mine", "growing", str(out)]
    assert main(["datasets", "stats", "mine", "--data", str(tmp_path / "data")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine, a growing data set"
    assert len(lines) == 5
    assert main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--snapshots", "1"], "1 snapshots; ask for 2 to"),
        (["--snapshots", "3", "--new", "head"], "--new with --snapshots"),
        (["--snapshots", "3", "--count", "5"], "--count with --snapshots"),
        (["--snapshots", "3", "--entities", "5"], "--entities with --snapshots"),
        (["--snapshots", "3", "--task", "link-prediction"], "--task with --snapshots"),
        (["--snapshots", "200"], "too few for 200 snapshots"),
    ],
)
def test_snapshots_refuse_nonsense(
    triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["datasets", "split", str(triples), "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_split_into_tasks(triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data" / "few-shot" / "mine"
    command = ["datasets", "split", str(triples), "--shots", "2", "--out", str(out), "--share", "0.2"]
    assert main([*command, "--valid-share", "0.1", "--json"]) == 0
    captured = capsys.readouterr()
    made = json.loads(captured.out)
    assert (made["name"], made["test"]["newcomers"], made["valid"]["newcomers"]) == ("mine", 12, 6)
    assert made["test"]["fewest"] >= 3
    left_out = int(captured.err.split(" triples between newcomers")[0].splitlines()[-1])
    assert made["train"] + made["valid"]["triples"] + made["test"]["triples"] + left_out == 240
    assert 0 < made["also_true"] <= left_out
    assert main(["datasets", "list", "--data", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["mine", "few-shot", str(out)]
    assert main(["datasets", "stats", "mine", "--data", str(tmp_path / "data")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"mine, a few-shot data set: {made['train']} known triples, ")
    assert [line.split()[0] for line in lines[1:]] == ["tasks", "valid", "test"]
    assert main(["datasets", "stats", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert main(command) == 2
    assert "already holds in-graph.txt" in capsys.readouterr().err
    assert main([*command, "--shots", "7", "--overwrite"]) == 0
    assert "newcomers instead of 15: no others keep 8 triples or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shots", "0"], "0 shots; give 1 triple per newcomer or more"),
        (["--shots", "2", "--snapshots", "2"], "--shots with --snapshots"),
        (["--shots", "2", "--new", "head"], "--new with --shots"),
        (["--shots", "2", "--count", "5"], "--count with --shots"),
        (["--shots", "200"], "no entity can be a newcomer with 201 triples"),
    ],
)
def test_shots_refuse_nonsense(
    triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["datasets", "split", str(triples), "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_is_evaluated_on_a_growing_set(
    triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grown"
    assert main(["datasets", "split", str(triples), "--snapshots", "3", "--out", str(out)]) == 0
    settings = ["--dim", "4", "--steps", "5", "--batch", "16", "--negatives", "2"]
    assert main(["train", str(out / "0" / "train.txt"), "--out", str(tmp_path / "model"), *settings]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "model"), "--dataset", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["after"], len(found["snapshots"])) == ("growing", 0, 1)
    assert 0 < found["mrr"] <= 1
    assert main(["evaluate", str(tmp_path / "model"), "--dataset", str(out)]) == 0
    assert "after snapshot 0: MRR among all entities known by then" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "model"), "--dataset", str(out), "--task", "link-prediction"]) == 2
    assert "task is for data sets with new entities" in capsys.readouterr().err


def test_a_folder_holds_one_kind_of_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "graph.tsv"
    write_triples(graph, film_graph())
    kinds: dict[str, list[str]] = {"ordinary": [], "few-shot": ["--shots", "3"], "growing": ["--snapshots", "3"]}
    for kind, options in kinds.items():
        folder = str(tmp_path / kind)
        assert main(["datasets", "split", str(graph), "--out", folder, *options]) == 0
        before = sorted(path.name for path in Path(folder).iterdir())
        for other in kinds.keys() - {kind}:
            capsys.readouterr()
            assert main(["datasets", "split", str(graph), "--out", folder, *kinds[other], "--overwrite"]) == 2
            assert f"already holds a data set that is {kind}, and this one is {other}" in capsys.readouterr().err
        assert sorted(path.name for path in Path(folder).iterdir()) == before
