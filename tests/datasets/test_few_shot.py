"""Few-shot data sets: folders of tasks, what is given and asked, splits into tasks, packed arrays."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import random_triples
from few_shot_sets import KNOWN, few_shot_rows, write_few_shot_set
from ookg.datasets import splitting
from ookg.datasets.dataset import write_dataset
from ookg.datasets.few_shot import FewShotDataset, few_shot_folders, find_few_shot, load_few_shot, write_few_shot
from ookg.datasets.folder import load_dataset
from ookg.datasets.packed import pack, read_packed
from ookg.datasets.shots import EncodedFewShot, TaskSplit
from ookg.datasets.summary import few_shot_statistics
from ookg.datasets.task_splitting import TaskSplitSettings, split_into_tasks
from ookg.errors import DatasetError, FileError, InputError
from ookg.graph.triples import Tasks, Triples, as_triples, read_tasks, write_tasks

PUBLISHED = Path(os.environ.get("OOKG_DATA", "nowhere")) / "few-shot"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OOKG_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_few_shot_set(tmp_path / "mine")


def rows(triples: Triples) -> list[str]:
    return ["\t".join(triple) for triple in triples]


def task_rows(tasks: Tasks) -> list[str]:
    newcomers = tasks.triples.entities.select(tasks.newcomer)
    return [f"{newcomer}\t{row}" for newcomer, row in zip(newcomers, rows(tasks.triples), strict=True)]


def test_a_folder_is_read(folder: Path) -> None:
    expected = few_shot_rows()
    dataset = load_few_shot(folder)
    assert dataset.name == "mine"
    assert rows(dataset.train) == expected["in-graph"] + expected["train-tasks"]
    assert task_rows(dataset.valid) == expected["valid-tasks"]
    assert task_rows(dataset.test) == expected["test-tasks"]
    assert len(dataset.known_entities) == KNOWN
    assert dataset.notes == []


def test_a_set_is_found_by_name(tmp_path: Path) -> None:
    place = write_few_shot_set(tmp_path / "few-shot" / "Mine")
    (tmp_path / "few-shot" / "README.md").write_text("about them\n")
    assert list(few_shot_folders(tmp_path)) == [place]
    assert find_few_shot("mine", tmp_path) == place
    assert find_few_shot(place) == place
    assert find_few_shot("other", tmp_path) is None
    assert load_few_shot("MINE", tmp_path).name == "Mine"
    with pytest.raises(InputError, match="unknown few-shot data set 'Mime'; did you mean 'Mine'"):
        load_few_shot("Mime", tmp_path)


def test_valid_and_train_tasks_may_be_missing(folder: Path) -> None:
    (folder / "valid-tasks.txt").unlink()
    (folder / "train-tasks.txt").unlink()
    dataset = load_few_shot(folder)
    assert rows(dataset.train) == few_shot_rows()["in-graph"]
    assert len(dataset.valid) == 0
    with pytest.raises(InputError, match=r"valid-tasks of mine: nothing is left to ask .* \(there are no triples\)"):
        dataset.encoded.at("valid", 1)


def test_what_else_is_true_is_no_wrong_answer_and_nothing_more(folder: Path, tmp_path: Path) -> None:
    before = load_few_shot(folder)
    assert before.also_true is None
    with gzip.open(folder / "also-true.txt.gz", "wt") as file:
        file.write("t0\tr0\te5\nt0\tr0\te5\nt0\tr0\tnobody\nt0\tunheard of\te5\n")
    dataset = load_few_shot(folder).with_also_true([("e1", "r1", "t1", "1"), ("e2", "r1", "t1", "0")])
    assert dataset.also_true is not None
    assert rows(dataset.also_true)[0] == "t0\tr0\te5"
    assert "e1\tr1\tt1" in rows(dataset.also_true)
    assert "e2\tr1\tt1" not in rows(dataset.also_true)  # labelled as false
    encoded, plain = dataset.encoded, before.encoded
    sizes = ("num_known", "num_entities", "num_trained", "num_relations")
    assert [getattr(encoded, name) for name in sizes] == [getattr(plain, name) for name in sizes]
    for one, other in ((encoded.train, plain.train), (encoded.test.triples, plain.test.triples)):
        np.testing.assert_array_equal(one, other)
    assert len(encoded.also_true) == 2  # with entities and relations of the other parts
    assert len(plain.also_true) == 0
    expected = {tuple(row) for row in np.concatenate([plain.true_triples, encoded.also_true]).tolist()}
    for true in (encoded.true_triples, encoded.dataset_of("test", 3).true_triples):
        assert {tuple(row) for row in true.tolist()} == expected
    packed = read_packed(pack(encoded, tmp_path))
    assert isinstance(packed, EncodedFewShot)
    np.testing.assert_array_equal(packed.also_true, encoded.also_true)
    ordinary = read_packed(pack(encoded.dataset_of("test", 3), tmp_path))
    np.testing.assert_array_equal(ordinary.also_true, encoded.also_true)  # type: ignore[union-attr]
    assert few_shot_statistics(encoded).also_true == 2


def test_labelled_triples_are_also_true_where_they_are_true(folder: Path) -> None:
    (folder / "also-true.txt").write_text("t0\tr0\te5\t1\nt0\tr0\te6\t0\n")
    also_true = load_few_shot(folder).also_true
    assert also_true is not None
    assert rows(also_true) == ["t0\tr0\te5"]
    (folder / "also-true.csv").write_text("t0,r0,e5\n")
    with pytest.raises(DatasetError, match=r"also-true.txt and also-true.csv are there, and only one can be"):
        load_few_shot(folder)


def test_an_ordinary_set_has_it_too(tmp_path: Path) -> None:
    dataset = splitting.split(random_triples(0, entities=60, size=500)).with_also_true([("e0", "r0", "e1")])
    write_dataset(dataset, tmp_path / "made")
    again = load_dataset(tmp_path / "made")
    assert again.also_true is not None
    assert rows(again.also_true) == ["e0\tr0\te1"]
    write_dataset(replace(dataset, also_true=None), tmp_path / "made", overwrite=True)
    again = load_dataset(tmp_path / "made")
    assert again.also_true is None or not len(again.also_true)


def test_repeated_triples_are_dropped_and_counted(folder: Path) -> None:
    for part in ("train-tasks", "test-tasks"):
        path = folder / f"{part}.txt"
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines, lines[0], few_shot_rows()["in-graph"][0] if part == "train-tasks" else ""]))
    dataset = load_few_shot(folder)
    assert task_rows(dataset.test) == few_shot_rows()["test-tasks"]
    assert dataset.notes == ["3 duplicate triples dropped"]


@pytest.mark.parametrize("ending", ["txt.gz", "csv", "parquet", "header"])
def test_files_may_have_other_forms(folder: Path, ending: str) -> None:
    lines = few_shot_rows()["test-tasks"]
    path = folder / "test-tasks.txt"
    names = ["newcomer", "head", "relation", "tail"]
    if ending == "header":
        path.write_text("\n".join(["\t".join(names), *lines]))
    else:
        path.unlink()
    if ending == "txt.gz":
        with gzip.open(folder / "test-tasks.txt.gz", "wt") as file:
            file.write("\n".join(lines))
    elif ending == "csv":
        (folder / "test-tasks.csv").write_text("\n".join(line.replace("\t", ",") for line in lines))
    elif ending == "parquet":
        columns = zip(*(line.split("\t") for line in lines), strict=True)
        pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), folder / "test-tasks.parquet")
    assert task_rows(load_few_shot(folder).test) == lines


@pytest.mark.parametrize("shots", [1, 2, 3])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_first_triples_are_given_and_the_others_asked(folder: Path, split: TaskSplit, shots: int) -> None:
    given: list[str] = []
    asked: list[tuple[str, str, str]] = []
    seen: dict[str, int] = {}
    for row in few_shot_rows()[f"{split}-tasks"]:
        newcomer, triple = row.split("\t", 1)
        head, _, tail = triple.split("\t")
        seen[newcomer] = seen.get(newcomer, 0) + 1
        if seen[newcomer] <= shots:
            given.append(triple)
        else:
            asked.append((newcomer, triple, tail if head == newcomer else head))
    dataset = load_few_shot(folder)
    ids = dataset.encoded
    at = ids.at(split, shots)
    entities = dataset.known_entities
    for part in (dataset.train, dataset.test.triples, dataset.valid.triples):
        entities = entities.extended(part.entities.labels)
    assert entities.select(at.newcomer) == [newcomer for newcomer, _, _ in asked]
    assert entities.select(at.answer) == [answer for _, _, answer in asked]
    counts = [sum(newcomer in triple.split("\t")[::2] for triple in given) for newcomer, _, _ in asked]
    assert at.num_given.tolist() == counts
    labelled = dataset.at(split, shots)
    assert rows(labelled.dataset.aux) == given
    assert rows(labelled.dataset.test) == [triple for _, triple, _ in asked]
    assert labelled.asks_tail.tolist() == at.asks_tail.tolist()
    assert (at.split, at.shots, len(at.given)) == (split, shots, len(given))


def test_ids_have_known_ones_first(folder: Path) -> None:
    ids = load_few_shot(folder).encoded
    assert (ids.num_known, ids.num_trained, ids.num_relations) == (KNOWN, 3, 3)
    assert ids.num_entities == KNOWN + 4 + 6 + 1  # with x
    assert ids.train.max() < KNOWN
    assert (ids.valid.newcomer >= KNOWN).all()
    assert len(ids.true_triples) == len(ids.train) + len(ids.valid.triples) + len(ids.test.triples)
    as_set = ids.dataset_of("test", 2)
    assert sorted(map(tuple, as_set.true_triples.tolist())) == sorted(map(tuple, ids.true_triples.tolist()))
    assert (as_set.num_known, as_set.num_entities) == (KNOWN, ids.num_entities)
    assert ids.known.num_entities == KNOWN
    with pytest.raises(InputError, match="tasks 'train'; choose valid or test"):
        ids.at("train", 1)  # type: ignore[arg-type]


def more(part: str, line: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        with (folder / f"{part}.txt").open("a") as file:
            file.write(f"{line}\n")

    return act


def changed(part: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        path = folder / f"{part}.txt"
        path.write_text("\n".join(map(change, path.read_text().splitlines())))

    return act


def without(part: str) -> Callable[[Path], None]:
    return lambda folder: (folder / f"{part}.txt").unlink()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (more("test-tasks", "t9\te1\tr0\te2"), r"row 37: newcomer 't9' is neither head nor tail of \(e1, r0, e2\)"),
        (more("test-tasks", "e1\te1\tr0\tnew"), "newcomer 'e1' is known: in-graph or train-tasks have it"),
        (more("test-tasks", "v1\tv1\tr0\te1"), "newcomer 'v1' is a newcomer of valid-tasks too"),
        (more("test-tasks", "t1\tt1\t \te1"), "row 37: empty relation"),
        (more("test-tasks", "t1\te1"), r"test-tasks.txt:37: 2 columns instead of 4"),
        (changed("test-tasks", lambda line: line.split("\t", 1)[1]), "no column '4'; it has columns 1 to 3"),
        (changed("in-graph", lambda line: f"{line}\t1"), "has a label column"),
        (without("test-tasks"), "no test-tasks file"),
        (without("in-graph"), "no in-graph file; give a folder of in-graph, train-tasks, valid-tasks and test-tasks"),
    ],
)
def test_bad_folders_get_one_line(folder: Path, act: Callable[[Path], None], message: str) -> None:
    act(folder)
    with pytest.raises(InputError, match=message):
        load_few_shot(folder)


def test_no_known_triples(folder: Path) -> None:
    (folder / "in-graph.txt").write_text("")
    (folder / "train-tasks.txt").unlink()
    with pytest.raises(DatasetError, match="no triples; give some known ones to train on"):
        load_few_shot(folder)


def test_two_files_for_one_part(folder: Path) -> None:
    (folder / "in-graph.csv").write_text("a,b,c\n")
    with pytest.raises(DatasetError, match=r"in-graph.txt and in-graph.csv are there"):
        load_few_shot(folder)


@pytest.mark.parametrize(("shots", "message"), [(0, "0 shots; give 1 triple"), (9, "nothing is left to ask after 9")])
def test_bad_numbers_of_shots(folder: Path, shots: int, message: str) -> None:
    dataset = load_few_shot(folder)
    for at in (dataset.at, dataset.encoded.at):
        with pytest.raises(InputError, match=message):
            at("test", shots)


def test_it_is_no_ordinary_data_set(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"is a few-shot data set, .*`ookg evaluate --shots K`"):
        load_dataset(folder)


def test_packed_sets_are_the_same(folder: Path, tmp_path: Path) -> None:
    ids = load_few_shot(folder).encoded
    again = read_packed(pack(ids, tmp_path / "packed"))
    assert isinstance(again, EncodedFewShot)
    assert again.name == "mine"
    for name in ("num_known", "num_entities", "num_trained", "num_relations"):
        assert getattr(again, name) == getattr(ids, name)
    np.testing.assert_array_equal(again.train, ids.train)
    for split in ("valid", "test"):
        np.testing.assert_array_equal(getattr(again, split).newcomer, getattr(ids, split).newcomer)
        np.testing.assert_array_equal(getattr(again, split).triples, getattr(ids, split).triples)


def test_packed_newcomers_must_fit(folder: Path, tmp_path: Path) -> None:
    path = pack(load_few_shot(folder).encoded, tmp_path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["test_newcomer"] = arrays["test_newcomer"][::-1]
    np.savez(path, **arrays)
    with pytest.raises(FileError, match="no packed data set"):
        read_packed(path)


def test_tasks_are_written_as_they_are_read(tmp_path: Path) -> None:
    triples = as_triples([("relation", "tail", "head"), ("a", "b", "head")])  # the first row would pass for a header
    newcomer = triples.entities.ids(["head", "head"])
    write_tasks(tmp_path / "tasks.txt", Tasks(newcomer, triples))
    assert task_rows(read_tasks(tmp_path / "tasks.txt")) == ["head\trelation\ttail\thead", "head\ta\tb\thead"]
    (tmp_path / "nothing.txt").write_text("")
    assert len(read_tasks(tmp_path / "nothing.txt")) == 0


# Splitting.


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shots", [1, 3])
def test_a_split_keeps_its_rules(shots: int, seed: int, tmp_path: Path) -> None:
    triples = random_triples(seed, entities=60, size=500)
    made = split_into_tasks(triples, TaskSplitSettings(shots, 0.2, 0.1, seed))
    made.check()
    known = set(made.known_entities.labels.to_pylist())
    relations = set(made.relations.labels.to_pylist())
    parts = [rows(made.train), rows(made.valid.triples), rows(made.test.triples)]
    whole = [row for part in parts for row in part]
    assert len(set(whole)) == len(whole)
    assert set(whole) <= set(rows(triples))
    assert made.also_true is not None
    assert set(rows(triples)) == {*whole, *rows(made.also_true)}
    assert len(set(rows(triples))) == len(whole) + len(made.also_true)
    newcomers = {}
    for name, tasks in (("valid", made.valid), ("test", made.test)):
        counts = np.bincount(tasks.newcomer)
        assert counts[counts > 0].min() > shots
        labels = tasks.triples.entities.select(np.flatnonzero(counts))
        newcomers[name] = set(labels)
        assert {triple[1] for triple in tasks.triples} <= relations
    assert not newcomers["valid"] & newcomers["test"]
    assert not (newcomers["valid"] | newcomers["test"]) & known
    assert made.wanted == (6, 12)
    assert len(newcomers["test"]) <= 12
    for head, relation, tail in triples:  # what is not there has a reason
        if f"{head}\t{relation}\t{tail}" not in whole:
            apart = any({head, tail} <= {one, two} for one in newcomers["valid"] for two in newcomers["test"])
            assert apart or relation not in relations
    write_few_shot(made, tmp_path / "made")
    again = load_few_shot(tmp_path / "made")
    assert [rows(again.train), task_rows(again.valid), task_rows(again.test)] == [
        rows(made.train), task_rows(made.valid), task_rows(made.test),
    ]  # fmt: skip
    assert rows(made.also_true) == (rows(again.also_true) if again.also_true else [])
    assert (tmp_path / "made" / "also-true.txt").exists() == bool(len(made.also_true))
    with pytest.raises(InputError, match=r"already holds in-graph.txt; .*`overwrite=True`"):
        write_few_shot(made, tmp_path / "made")
    write_few_shot(made, tmp_path / "made", overwrite=True)
    write_few_shot(replace(made, also_true=None), tmp_path / "made", overwrite=True)
    assert not len(load_few_shot(tmp_path / "made").encoded.also_true)  # nothing of the set that was there before
    (tmp_path / "made" / "train-tasks.csv").write_text("a,b,c\n")
    with pytest.raises(InputError, match=r"already holds train-tasks.csv"):
        write_few_shot(made, tmp_path / "made", overwrite=True)


def test_the_seed_makes_the_split() -> None:
    triples = random_triples(0, entities=60, size=500)

    def parts(made: FewShotDataset) -> list[list[str]]:
        return [rows(made.train), task_rows(made.valid), task_rows(made.test)]

    one, same, other = (parts(split_into_tasks(triples, TaskSplitSettings(seed=seed))) for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_too_few_triples_make_fewer_newcomers_or_none() -> None:
    triples = as_triples([(f"e{n}", "r", f"e{n + 1}") for n in range(20)] + [("hub", "r", f"e{n}") for n in range(9)])
    made = split_into_tasks(triples, TaskSplitSettings(4, 0.3, 0.0))
    assert set(made.test.triples.entities.select(made.test.newcomer)) == {"hub"}
    assert sum(made.wanted) == 7
    with pytest.raises(InputError, match="no entity can be a newcomer with 11 triples"):
        split_into_tasks(triples, TaskSplitSettings(10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shots": 0}, "0 shots"),
        ({"test_share": 0.0}, "share of 0.0 for test"),
        ({"valid_share": 1.0}, "share of 1.0 for valid"),
        ({"test_share": 0.6, "valid_share": 0.5}, "together they must be less than 1"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_settings_of_a_split(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskSplitSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "known", "tasks", "asked"),
    [
        ("FB15k-237", (228_721, 12_005, 237), {"valid": (1000, 6246, 279), "test": (1500, 9867, 608)}, (5368, 328)),
        ("NELL-995", (129_062, 70_924, 200), {"valid": (600, 3676, 638), "test": (899, 5852, 1128)}, (3157, 627)),
    ],
)
def test_the_published_sets(
    name: str, known: tuple[int, ...], tasks: dict[str, tuple[int, ...]], asked: tuple[int, int]
) -> None:
    if not (PUBLISHED / name).is_dir():
        pytest.skip(f"needs few-shot/{name} under OOKG_DATA")
    ids = load_few_shot(PUBLISHED / name).encoded
    numbers = few_shot_statistics(ids)
    assert (numbers.train, numbers.entities, numbers.relations) == known
    for split, expected in tasks.items():
        part = getattr(numbers, split)
        assert (part.newcomers, part.triples, part.new_ends) == expected
    at = ids.at("test", 3)
    assert (len(at.asked), int((at.answer >= ids.num_known).sum())) == asked
