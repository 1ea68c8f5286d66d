"""Growing data sets: folders of snapshots, splits by arrival, packed arrays."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import random_triples
from growing_sets import SIZES, snapshot_rows, write_growing_set
from ookg.datasets.arrival import ArrivalSettings, split_by_arrival
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.datasets.growing import GrowingDataset, find_growing, growing_folders, load_growing, write_growing
from ookg.datasets.packed import find_packed, pack, read_packed
from ookg.datasets.snapshots import EncodedGrowth
from ookg.datasets.splitting import SplitSettings, split
from ookg.datasets.summary import growth_statistics
from ookg.errors import DatasetError, FileError, InputError
from ookg.graph.triples import Triples, as_triples


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OOKG_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_growing_set(tmp_path / "mine")


def rows(triples: Triples) -> list[str]:
    return ["\t".join(triple) for triple in triples]


def test_a_folder_of_snapshots_is_read(folder: Path) -> None:
    found = load_growing(folder)
    assert found.name == "mine"
    for snapshot, expected in zip(found.snapshots, snapshot_rows(), strict=True):
        assert {part: rows(getattr(snapshot, part)) for part in expected} == expected


def test_ids_are_in_the_order_of_arrival(folder: Path) -> None:
    dataset = load_growing(folder)
    growth = dataset.encoded
    assert [snapshot.num_entities for snapshot in growth.snapshots] == list(SIZES)
    assert [snapshot.num_relations for snapshot in growth.snapshots] == [3, 3, 4]
    labels, relations = dataset.entities.labels.to_pylist(), dataset.relations.labels.to_pylist()
    known = 0
    for snapshot, expected in zip(growth.snapshots, snapshot_rows(), strict=True):
        ends = np.concatenate([snapshot.train, snapshot.valid, snapshot.test])[:, [0, 2]]
        assert ends.max() == snapshot.num_entities - 1
        assert set(range(known, snapshot.num_entities)) <= set(ends.ravel().tolist())
        again = [f"{labels[h]}\t{relations[r]}\t{labels[t]}" for h, r, t in snapshot.train.tolist()]
        assert again == expected["train"]
        known = snapshot.num_entities
    everything = growth.dataset_of(1)
    assert (everything.name, everything.num_known, len(everything.aux)) == ("mine-1", 18, 0)
    assert len(everything.train) == sum(len(parts["train"]) for parts in snapshot_rows()[:2])
    assert len(growth.true_until(0)) == sum(map(len, snapshot_rows()[0].values()))


def test_what_only_test_has_arrives_too(tmp_path: Path) -> None:
    for number, (train, test) in enumerate([("a\tr\tb\n", "a\tr\tlone\n"), ("c\tr\ta\n", "c\ts\tb\n")]):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "train.txt").write_text(train)
        (tmp_path / str(number) / "test.txt.gz").write_bytes(gzip.compress(test.encode()))
    dataset = load_growing(tmp_path)
    assert dataset.entities.labels.to_pylist() == ["a", "b", "lone", "c"]
    assert [(s.num_entities, s.num_relations, len(s.valid)) for s in dataset.encoded.snapshots] == [
        (3, 1, 0),
        (4, 2, 0),
    ]


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def without_snapshots(*numbers: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for number in numbers:
            (folder / str(number)).rename(folder / f"old {number}")

    return damage


def written(name: str, text: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_text(text)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_snapshots(1), "no snapshot 1, but snapshot 2; number them without a gap"),
        (without_snapshots(1, 2), "only snapshot 0; a growing data set has two snapshots or more"),
        (without_snapshots(0), "no snapshot 0; give a folder of the folders 0, 1, 2"),
        (without("1/train.txt"), "1: no train file; give it as train.txt"),
        (without("2/test.txt"), "2: no test file"),
        (written("1/train.txt", ""), "train has no triples; give some"),
        (written("1/aux.txt", "a\tr\tb\n"), "aux.txt: no part of a snapshot; a snapshot has train, valid and test"),
        (written("0/train.tsv", "a\tr\tb\n"), "train.txt and train.tsv are there"),
        (written("0/test.txt", "a\tr\tb\t1\n"), "has a label column"),
    ],
)
def test_a_bad_folder_gets_one_line(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        load_growing(folder)
    assert message in str(caught.value)
    assert "mine" in str(caught.value)


def test_names_are_found_under_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_growing_set(tmp_path / "data" / "continual" / "MINE")
    assert find_growing("mine", tmp_path / "data") == folder
    assert find_growing("mine") is None
    monkeypatch.setenv("OOKG_DATA", str(tmp_path / "data"))
    assert load_growing("mine").name == "MINE"
    assert list(growing_folders()) == [folder]
    with pytest.raises(InputError, match="unknown growing data set 'MIME'; did you mean 'MINE'"):
        load_growing("MIME")
    with pytest.raises(DatasetError, match="is a growing data set, a folder of snapshots; name one of its files"):
        load_dataset(folder)


def test_counts(folder: Path) -> None:
    counted = growth_statistics(load_growing(folder).encoded)
    assert [numbers.new_entities for numbers in counted] == [12, 6, 6]
    assert [numbers.new_relations for numbers in counted] == [3, 0, 1]
    assert [numbers.test for numbers in counted] == [8, 8, 8]


def test_a_split_by_arrival_keeps_every_triple_and_tests_what_was_trained() -> None:
    graph = random_triples(3, entities=60, relations=5, size=900)
    made = split_by_arrival(graph, ArrivalSettings(4, test_share=0.2, valid_share=0.1, seed=1))
    parts = [rows(part) for snapshot in made.snapshots for part in snapshot.parts]
    assert sorted(row for part in parts for row in part) == sorted(rows(graph))
    sizes = [sum(map(len, snapshot.parts)) for snapshot in made.snapshots]
    assert max(sizes) < 1.5 * min(sizes)
    seen: set[str] = set()
    for snapshot in made.snapshots:
        arrived = {end for part in snapshot.parts for head, _, tail in part for end in (head, tail)} - seen
        trained = {end for head, _, tail in snapshot.train for end in (head, tail)}
        assert arrived <= trained
        # What arrives is in every one of the snapshot's triples: the others were complete before.
        assert all({head, tail} & arrived for part in snapshot.parts for head, _, tail in part)
        seen |= arrived
        whole = sum(map(len, snapshot.parts))
        assert len(snapshot.test) == round(0.2 * whole)
        assert len(snapshot.valid) == round(0.1 * whole)
    trained_relations: set[str] = set()
    for snapshot in made.snapshots:
        trained_relations |= {relation for _, relation, _ in snapshot.train}
        assert {relation for part in snapshot.parts for _, relation, _ in part} <= trained_relations


def test_the_seed_decides_the_arrival() -> None:
    graph = random_triples(3, entities=40, size=500)
    one, same, other = (split_by_arrival(graph, ArrivalSettings(3, seed=seed)) for seed in (0, 0, 1))
    assert rows(one.snapshots[1].train) == rows(same.snapshots[1].train)
    assert rows(one.snapshots[1].train) != rows(other.snapshots[1].train)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"snapshots": 1}, "1 snapshots; ask for 2 to"),
        ({"snapshots": 40}, "are too few for 40 snapshots"),
        ({"test_share": 0.0}, "a share of 0.0 for test"),
        ({"test_share": 0.6, "valid_share": 0.5}, "together they must be less than 1"),
        ({"valid_share": -0.1}, "a share of -0.1 for valid"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_nonsense_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_by_arrival(random_triples(0), ArrivalSettings(**settings))  # type: ignore[arg-type]


def test_a_star_has_no_snapshots() -> None:
    star = as_triples([("hub", "r", f"leaf{n}") for n in range(40)])
    with pytest.raises(InputError, match=r"none can be tested on in snapshot|none is left for snapshot"):
        split_by_arrival(star, ArrivalSettings(3))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    made = split_by_arrival(random_triples(3, entities=40, size=500), ArrivalSettings(3))
    write_growing(made, tmp_path / "out")
    again = load_growing(tmp_path / "out")
    for one, other in zip(made.snapshots, again.snapshots, strict=True):
        assert [rows(part) for part in one.parts] == [rows(part) for part in other.parts]
    with pytest.raises(InputError, match="already holds snapshots; choose another folder"):
        write_growing(made, tmp_path / "out")
    write_growing(made, tmp_path / "out", overwrite=True)
    fewer = GrowingDataset("fewer", made.snapshots[:2])
    with pytest.raises(InputError, match="already holds snapshot 2, which would stay"):
        write_growing(fewer, tmp_path / "out", overwrite=True)


def test_packed_and_unpacked_is_the_same(folder: Path, tmp_path: Path) -> None:
    growth = load_growing(folder).encoded
    assert pack(growth, tmp_path / "packed") == tmp_path / "packed" / "mine.npz"
    found = read_packed(tmp_path / "packed" / "mine.npz")
    assert isinstance(found, EncodedGrowth)
    for one, other in zip(growth.snapshots, found.snapshots, strict=True):
        assert (one.num_entities, one.num_relations) == (other.num_entities, other.num_relations)
        for part in ("train", "valid", "test"):
            assert getattr(other, part).dtype == np.int64
            assert np.array_equal(getattr(one, part), getattr(other, part))
    assert find_packed("mine", tmp_path / "packed") == tmp_path / "packed" / "mine.npz"
    assert find_packed("mine", tmp_path) is None


@pytest.mark.parametrize("task", ["link-prediction", "triplet-classification"])
def test_a_set_with_new_entities_is_packed_too(tmp_path: Path, task: str) -> None:
    made = split(random_triples(3, entities=40, size=500), SplitSettings(task=task))  # type: ignore[arg-type]
    dataset = EncodedDataset.of(made)
    found = read_packed(pack(dataset, tmp_path))
    assert isinstance(found, EncodedDataset)
    for name, value in vars(dataset).items():
        other = getattr(found, name)
        assert np.array_equal(value, other) if isinstance(value, np.ndarray) else value == other, name


def test_a_damaged_packed_set_gets_one_line(folder: Path, tmp_path: Path) -> None:
    path = pack(load_growing(folder).encoded, tmp_path)
    content = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file.items())
    outside = arrays["train"].copy()
    outside[0, 0] = 1000
    damages = [b"", content[: len(content) // 2], b"no archive"]
    for damage in damages:
        path.write_bytes(damage)
        with pytest.raises(FileError, match=r"no packed data set .*pack the data set again"):
            read_packed(path)
    for change in ({"train": outside}, {"test": arrays["test"][:-1]}, {"valid": arrays["valid"][:, :2]}):
        np.savez_compressed(path, **(arrays | change))
        with pytest.raises(FileError, match="no packed data set"):
            read_packed(path)


def test_the_published_growing_set(published: Path) -> None:
    growth = load_growing("ENTITY", published).encoded
    assert [snapshot.num_entities for snapshot in growth.snapshots] == [2_909, 5_817, 8_725, 11_633, 14_541]
    assert [len(snapshot.train) for snapshot in growth.snapshots] == [27_832, 43_265, 44_269, 42_302, 28_394]
    assert growth.snapshots[-1].num_relations == 237
