"""TorchKGE's state dicts, written by hand: L1 and squared L2, sorted labels, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ookg.errors import OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.torchkge import read
from ookg.models import TransE

ENTITIES, RELATIONS = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[0.4, 1.2]])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.save({"ent_emb.weight": ENTITIES, "rel_emb.weight": RELATIONS}, tmp_path / "model.pt")
    (tmp_path / "data.tsv").write_text("b\tr\ta\n")
    return tmp_path / "model.pt"


def test_l2_is_squared_and_l1_is_not(path: Path) -> None:
    # h = (0.6, 0.8), t = (0, 1), r = (0.4, 1.2): the gap is (1, 1)
    triple = np.array([[0, 0, 1]])
    vocabulary = path.parent / "data.tsv"
    squared = read(path, ImportOptions(model="transe", vocabulary=vocabulary))
    squared.check()
    assert squared.embedding.geometry == TransE(2, 2, squared=True, unit_norm=2)
    assert squared.scores(triple) == pytest.approx([-2.0])
    assert squared.entities.labels.to_pylist() == ["a", "b"]
    plain = read(path, ImportOptions(model="transe", norm=1, vocabulary=vocabulary))
    plain.check()
    assert plain.embedding.geometry == TransE(2, 1, unit_norm=2)
    assert plain.scores(triple) == pytest.approx([-2.0])
    assert plain.notes == []
    new = squared.to_model(vocabulary).embed([("x", "r", "a")])
    assert torch.linalg.vector_norm(new.vectors[0]).item() == pytest.approx(1, abs=1e-6)


def test_named_labels_come_before_the_data(path: Path) -> None:
    (path.parent / "names.txt").write_text("one\ntwo\n")
    options = ImportOptions(model="transe", entities=path.parent / "names.txt", vocabulary=path.parent / "data.tsv")
    foreign = read(path, options)
    assert (foreign.entities.labels.to_pylist(), foreign.relations.labels.to_pylist()) == (["one", "two"], ["r"])
    assert read(path, ImportOptions(model="transe")).entities.labels.to_pylist() == ["0", "1"]


def test_what_does_not_fit_is_one_clear_line(path: Path) -> None:
    def message(state: dict[str, torch.Tensor] | None = None, **options: object) -> str:
        if state is not None:
            torch.save(state, path)
        with pytest.raises(OokgError) as refusal:
            read(path, ImportOptions(**options)).check()  # type: ignore[arg-type]
        assert "\n" not in str(refusal.value)
        return str(refusal.value)

    assert 'give `model="transe"`' in message()
    assert "no rotate that can be inverted" in message(model="rotate")
    (path.parent / "data.tsv").write_text("b\tr\ta\nc\tr\ta\n")
    assert "3 entities, and the model has 2" in message(model="transe", vocabulary=path.parent / "data.tsv")
    good = {"ent_emb.weight": ENTITIES, "rel_emb.weight": RELATIONS}
    assert "only TransE can be inverted" in message(good | {"norm_vect.weight": RELATIONS}, model="transe")
    assert "shape (2, 3)" in message(good | {"ent_emb.weight": torch.ones(2, 3)}, model="transe")
    assert "row 0 ('0') holds NaN" in message(good | {"ent_emb.weight": torch.full((2, 2), torch.nan)}, model="transe")
