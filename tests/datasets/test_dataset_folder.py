from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ookg.datasets.dataset import Dataset, compact, write_dataset
from ookg.datasets.encoded import Task
from ookg.datasets.folder import find_dataset, load_dataset
from ookg.datasets.summary import statistics
from ookg.errors import DatasetError, FileError, InputError
from ookg.graph.triples import Triples, as_triples, read_triples, write_triples

Rows = Sequence[tuple[str, ...]]

TRAIN = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "knows", "a")]
VALID = [("a", "knows", "c")]
AUX = [("new", "likes", "a"), ("b", "knows", "new"), ("other", "unheard", "c")]
TEST = [("new", "knows", "c"), ("other", "likes", "b"), ("lone", "unheard", "a")]


def make(train: Rows = TRAIN, task: Task = "link-prediction", **parts: Rows) -> Dataset:
    valid, aux, test = (parts.get(part, default) for part, default in (("valid", VALID), ("aux", AUX), ("test", TEST)))
    return Dataset("small", task, as_triples(train), as_triples(valid), as_triples(aux), as_triples(test))


def write(folder: Path, ending: str = ".txt", **parts: Rows) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"train": TRAIN, "valid": VALID, "aux": AUX, "test": TEST} | parts
    for part, rows in contents.items():
        if rows:
            write_triples(folder / f"{part}{ending}", as_triples(rows, keep_duplicates=True))
    return folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OOKG_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.zst", ".tsv", ".tsv.gz", ".csv", ".csv.zst", ".parquet"])
def test_a_folder_is_read_whatever_its_files_are(tmp_path: Path, ending: str) -> None:
    dataset = load_dataset(write(tmp_path / "mine", ending))
    assert (dataset.name, dataset.task) == ("mine", "link-prediction")
    parts = [list(part) for part in (dataset.train, dataset.valid, dataset.aux, dataset.test)]
    assert parts == [TRAIN, VALID, AUX, TEST]


@pytest.mark.parametrize("name", ["aux_txt", "aux_txt.gz"])
def test_aux_txt_stands_for_aux(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path)
    text = (folder / "aux.txt").read_bytes()
    (folder / "aux.txt").unlink()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert list(load_dataset(folder).aux) == AUX


def test_known_and_new(tmp_path: Path) -> None:
    dataset = load_dataset(str(write(tmp_path)))
    assert dataset.known_entities.labels.to_pylist() == ["a", "b", "c"]
    assert dataset.relations.labels.to_pylist() == ["likes", "knows"]
    assert sorted(dataset.new_entities.labels.to_pylist()) == ["lone", "new", "other"]


def test_valid_may_be_missing_and_the_others_not(tmp_path: Path) -> None:
    folder = write(tmp_path, valid=[])
    assert len(load_dataset(folder).valid) == 0
    (folder / "aux.txt").unlink()
    with pytest.raises(DatasetError, match=r"no aux file; .*\.parquet"):
        load_dataset(folder)


def test_two_files_for_one_part_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, ".csv", valid=[], aux=[], test=[])
    with pytest.raises(DatasetError, match=r"train\.txt and train\.csv are there"):
        load_dataset(tmp_path)


def test_a_label_column_in_test_makes_it_triplet_classification(tmp_path: Path) -> None:
    folder = write(tmp_path, valid=[(*VALID[0], "0")], test=[(*TEST[0], "1"), (*TEST[1], "0")])
    dataset = load_dataset(folder)
    assert dataset.task == "triplet-classification"
    assert dataset.test.truth is not None
    assert dataset.test.truth.tolist() == [True, False]


@pytest.mark.parametrize("part", ["train", "aux"])
def test_a_label_column_has_no_place_in_train_and_aux(tmp_path: Path, part: str) -> None:
    rows = TRAIN if part == "train" else AUX
    labelled: dict[str, Any] = {part: [(*row, "1") for row in rows]}
    with pytest.raises(FileError, match=f"{part}.txt: has a label column"):
        load_dataset(write(tmp_path, **labelled))


def test_duplicates_are_dropped_from_train_and_aux_only(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, train=[*TRAIN, *TRAIN], valid=VALID * 2, aux=AUX * 3, test=TEST * 2))
    assert [len(part) for part in (dataset.train, dataset.valid, dataset.aux, dataset.test)] == [3, 2, 3, 6]
    numbers = statistics(dataset)
    assert (numbers.train, numbers.valid, numbers.aux, numbers.test) == (6, 2, 9, 6)
    assert (numbers.train_duplicates, numbers.aux_duplicates) == (3, 6)


@pytest.mark.parametrize(
    ("part", "rows", "message"),
    [
        ("valid", [*VALID, ("a", "likes", "new")], r"1 of 2 valid triples .*\(a, likes, new\); .* occur in train"),
        ("aux", [*AUX, ("new", "likes", "other")], r"1 of 4 aux triples .*\(new, likes, other\); .*exactly one"),
        ("aux", [*AUX, ("new", "likes", "new")], r"1 of 4 aux triples .*\(new, likes, new\)"),
        ("aux", [*AUX, ("a", "likes", "c")], r"1 of 4 aux triples .*\(a, likes, c\)"),
        ("test", [("a", "likes", x) for x in ("a", "b", "c")] + [("c", "likes", "c")], r"4 of 4 test .* at least one"),
    ],
)
def test_broken_rules_name_file_number_and_examples(tmp_path: Path, part: str, rows: Rows, message: str) -> None:
    broken: dict[str, Any] = {part: rows}
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset(write(tmp_path, **broken))
    assert f"{part}.txt" in str(caught.value)
    assert str(caught.value).count("(") <= 3
    assert "\n" not in str(caught.value)


def test_train_without_triples_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "train.txt").write_text("")
    with pytest.raises(DatasetError, match="train has no triples"):
        load_dataset(folder)


def test_statistics_worked_out_by_hand() -> None:
    numbers = statistics(make())
    assert (numbers.train, numbers.valid, numbers.aux, numbers.test) == (3, 1, 3, 3)
    assert (numbers.relations, numbers.entities) == (2, 3)
    assert (
        numbers.new_entities == 2
    )  # new and other; lone has no aux triple, and its test triple's relation is untrained
    assert numbers.new_entities_in_test == 3
    assert numbers.new_without_neighbor == 2  # other has only an aux triple of an untrained relation
    assert (numbers.aux_untrained, numbers.test_untrained) == (1, 1)


def test_labels_that_no_triple_uses_do_not_count() -> None:
    everything = as_triples([*TRAIN, *AUX, *TEST])
    rows = np.arange(len(everything))
    train, aux, test = (everything.select(rows[low:high]) for low, high in ((0, 3), (3, 6), (6, 9)))
    dataset = Dataset("selected", "link-prediction", train, as_triples([]), aux, test)
    dataset.check()
    assert statistics(dataset).entities == 3
    assert statistics(dataset).relations == 2
    assert list(compact(aux)) == AUX
    assert len(compact(aux).entities) == 5


def test_what_is_written_is_read(tmp_path: Path) -> None:
    dataset = make(valid=[(*VALID[0], "0")], test=[(*TEST[0], "1"), (*TEST[1], "0")], task="triplet-classification")
    write_dataset(dataset, tmp_path / "out")
    again = load_dataset(tmp_path / "out")
    assert again.task == dataset.task
    for part in ("train", "valid", "aux", "test"):
        before, after = getattr(dataset, part), getattr(again, part)
        assert list(before) == list(after)
        assert np.array_equal(before.truth, after.truth)
    entities = (tmp_path / "out" / "entities.dict").read_text().splitlines()
    assert entities == ["0\ta", "1\tb", "2\tc", "3\tnew", "4\tother"]
    assert (tmp_path / "out" / "relations.dict").read_text() == "0\tlikes\n1\tknows\n2\tunheard\n"


def test_a_data_set_is_overwritten_only_on_request(tmp_path: Path) -> None:
    write_dataset(make(), tmp_path)
    other = make(train=[*TRAIN, ("a", "likes", "c")])
    with pytest.raises(InputError, match=r"already holds train\.txt; .*overwrite"):
        write_dataset(other, tmp_path)
    assert list(read_triples(tmp_path / "train.txt")) == TRAIN
    write_dataset(other, tmp_path, overwrite=True)
    assert len(load_dataset(tmp_path).train) == 4
    assert not list(tmp_path.glob("*.tmp"))


def test_a_data_set_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_dataset(make(), tmp_path / "set")
    before = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    broken = make(aux=[("new", "likes", "a\tb")])
    with pytest.raises(InputError, match=r"set/aux\.txt: label 'a\\tb' has a tab or line break; rename it"):
        write_dataset(broken, tmp_path / "set", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before
    with pytest.raises(InputError, match="has a tab"):
        write_dataset(broken, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_files_that_would_make_the_folder_ambiguous_stay(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("precious")
    with pytest.raises(InputError, match=r"already holds train\.csv"):
        write_dataset(make(), tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


def test_a_name_is_looked_up_in_data_then_environment_then_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("given", "environment", "cache/ookg/datasets"):
        write(tmp_path / place / "WN11-Head-1000", train=[*TRAIN, (place, "likes", "a")])

    def found(data: Path | None = None) -> Triples:
        return load_dataset("wn11-HEAD-1000", data).train

    assert "cache/ookg/datasets" in found().entities
    monkeypatch.setenv("OOKG_DATA", str(tmp_path / "environment"))
    assert "environment" in found().entities
    assert "given" in found(tmp_path / "given").entities
    assert load_dataset("wn11-head-1000").name == "WN11-Head-1000"
    monkeypatch.setenv("OOKG_DATA", str(tmp_path / "empty"))
    assert "cache/ookg/datasets" in found().entities


def test_a_name_without_its_files_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run `ookg datasets fetch WN11-Both-3000`, or set OOKG_DATA"):
        load_dataset("WN11-Both-3000")
    with pytest.raises(InputError, match=f"not in {tmp_path}; .*--cache {tmp_path}"):
        load_dataset("WN11-Both-3000", tmp_path)


def test_an_unfinished_download_is_not_a_data_set(tmp_path: Path) -> None:
    folder = write(tmp_path / "WN11-Head-1000", valid=[])  # a folder may lack valid, a published set may not
    assert len(load_dataset(folder).valid) == 0
    assert find_dataset("WN11-Head-1000", tmp_path) is None


def test_unknown_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown data set 'WN11-Heat-1000'; did you mean 'WN11-Head-1000'"):
        load_dataset("WN11-Heat-1000")
    with pytest.raises(InputError, match="no such folder"):
        load_dataset(tmp_path / "nothing")
    with pytest.raises(InputError, match="no such folder"):
        load_dataset("some/where")
