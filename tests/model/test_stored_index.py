"""An index is stored with the vectors that it was made of, and used with no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ookg
from index_models import BUNCHES, index_by_hand, write_bunches
from ookg.errors import InputError, ModelFileError
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.approximate import IndexSettings, make_index, store_index, stored_index
from ookg.storage.approximate import INDEX_FILE, read_index, write_index
from ookg.storage.checkpoint import check_model, refuse_damage

QUESTION = Question("r1", head="e5")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_bunches(tmp_path / "model")
    return tmp_path / "model"


def test_a_stored_index_answers(directory: Path) -> None:
    index_by_hand(directory)
    living = ookg.open(directory)
    index = living.approximate
    assert (index.probes, index.recall, len(index.centres)) == (2, 0.97, BUNCHES)
    assert living.approximate is index  # it is read once
    prediction = living.predict_all([QUESTION], AnswerOptions(approximate=index))[0]
    assert prediction.recall == 0.97
    assert prediction.answers == living.predict_all([QUESTION], combine=False)[0].answers
    assert [file.problem for file in check_model(directory) if file.name == INDEX_FILE] == [None]


def test_an_index_that_is_made_anew_is_seen(directory: Path) -> None:
    living = ookg.open(directory)
    with pytest.raises(InputError, match=r"no approximate index; make one with `ookg index"):
        living.approximate  # noqa: B018
    index_by_hand(directory)
    assert living.approximate.probes == 2
    index_by_hand(directory, probes=5)
    assert living.approximate.probes == 5


def test_an_index_of_other_vectors_is_refused(directory: Path) -> None:
    index_by_hand(directory)
    kept = (directory / INDEX_FILE).read_bytes()
    write_bunches(directory, seed=1)
    assert (directory / INDEX_FILE).read_bytes() == kept
    with pytest.raises(InputError, match=r"made for other vectors; make it anew"):
        stored_index(ookg.load(directory))
    assert all(file.problem is None for file in check_model(directory))  # it is sound, and of no use


def test_vectors_that_are_not_stored_have_no_index(directory: Path) -> None:
    index_by_hand(directory)
    model = ookg.load(directory)
    more = model.with_vectors(model.embed([("x", "r0", "e1")]))
    with pytest.raises(InputError, match="of the stored vectors alone"):
        stored_index(more)
    with pytest.raises(InputError, match="not of the vectors that are stored"):
        store_index(stored_index(model), more, directory)
    assert stored_index(model.without(model.known_triples[:2])).probes == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "other format", "wrong lists", "nothing measured", "no number"])
def test_a_damaged_index_is_refused(directory: Path, damage: str) -> None:
    index_by_hand(directory)
    path = directory / INDEX_FILE
    data, stored = bytearray(path.read_bytes()), read_index(directory)
    assert stored is not None
    if damage == "cut":
        path.write_bytes(data[:-40])
    elif damage == "flipped":
        data[-3] ^= 1
        path.write_bytes(data)
    elif damage == "other format":
        path.write_bytes(data.replace(b"approximate index 1", b"approximate index 9"))
    elif damage == "wrong lists":
        stored.arrays["offsets"][-1] -= 1
        write_index(directory, stored)
    else:
        stored.about["measured"] = {"nothing measured": {}, "no number": stored.about["measured"] | {"tails": "all"}}[
            damage
        ]
        write_index(directory, stored)
    with pytest.raises(ModelFileError, match=r"damaged index \(.*make it anew with `ookg index"):
        stored_index(ookg.load(directory))
    refuse_damage(directory)  # nothing of the model itself is lost


def test_an_index_is_made_and_measured(directory: Path) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed; pip install faiss-cpu")
    model = ookg.load(directory)
    index = make_index(model, IndexSettings(questions=50))
    assert index.measured is not None
    assert index.measured.questions == 50
    assert index.recall >= 0.95
    assert index.share <= 0.25
    store_index(index, model, directory)
    again = stored_index(ookg.load(directory))
    assert (again.probes, again.measured) == (index.probes, index.measured)
    assert torch.equal(again.centres, index.centres)


def test_an_index_that_misses_too_much_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed; pip install faiss-cpu")
    write_bunches(tmp_path)
    model = ookg.load(tmp_path)
    random = torch.Generator().manual_seed(0)
    model.entity_vectors.copy_(torch.randn(model.entity_vectors.shape, generator=random))  # no structure
    with pytest.raises(
        InputError, match=r"the index names \d+\.\d% of the ten best answers, not 95\.0%.*nothing is stored"
    ):
        make_index(model, IndexSettings(questions=50))


def test_what_no_index_can_serve_is_refused(directory: Path, tmp_path: Path) -> None:
    model = ookg.load(directory)
    with pytest.raises(InputError, match="ranked together with transe, which takes the scores of all entities"):
        make_index(model.with_companions([ookg.load(directory)]))
    with pytest.raises(InputError, match="0 training triples, from which the questions are drawn"):
        make_index(model.beside(None))


@pytest.mark.parametrize(
    ("values", "problem"), [((0.0, 5), "a recall of 0.0"), ((1.5, 5), "1.5"), ((0.9, 0), "0 quest")]
)
def test_settings_that_cannot_be_are_refused(values: tuple[float, int], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        IndexSettings(*values)
