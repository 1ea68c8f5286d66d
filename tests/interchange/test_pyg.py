"""PyG's state dicts, written by hand: both models, its normalising, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ookg.errors import OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.pyg import read
from ookg.models import RotatE, TransE

TRANSE = ImportOptions(model="transe")


def saved(tmp_path: Path, **tables: list[list[float]]) -> Path:
    path = tmp_path / "model.pt"
    names = {"re": "node_emb.weight", "im": "node_emb_im.weight", "rel": "rel_emb.weight"}
    torch.save({names.get(name, name): torch.tensor(rows) for name, rows in tables.items()}, path)
    return path


def test_transe_with_norm_1_divides_by_the_sum(tmp_path: Path) -> None:
    path = saved(tmp_path, re=[[1.0, 3.0], [2.0, -2.0]], rel=[[0.5, 0.25]])
    foreign = read(path, TRANSE)
    foreign.check()
    # h = (0.25, 0.75), t = (0.5, -0.5): |0.25 + 0.5 - 0.5| + |0.75 + 0.25 + 0.5| = 1.75
    assert foreign.embedding.geometry == TransE(2, 1, unit_norm=1)
    torch.testing.assert_close(foreign.embedding.entities, torch.tensor([[0.25, 0.75], [0.5, -0.5]]))
    assert foreign.scores(torch.tensor([[0, 0, 1]]).numpy()) == pytest.approx([-1.75])
    assert foreign.entities.labels.to_pylist() == ["0", "1"]
    assert len(foreign.notes) == 3  # the norm, ids for entities, ids for relations


def test_transe_with_norm_2_divides_by_the_length(tmp_path: Path) -> None:
    path = saved(tmp_path, re=[[3.0, 4.0], [0.0, 2.0]], rel=[[0.4, 0.2]])
    (tmp_path / "entities.txt").write_text("a\nb\n")
    (tmp_path / "relations.tsv").write_text("0\tr\n")
    foreign = read(path, ImportOptions(model="transe", norm=2))
    foreign.check()
    # h = (0.6, 0.8), t = (0, 1): (1, 0) has length 1
    assert foreign.embedding.geometry == TransE(2, 2, unit_norm=2)
    assert foreign.scores(torch.tensor([[0, 0, 1]]).numpy()) == pytest.approx([-1.0])
    assert (foreign.entities.label(1), foreign.relations.label(0), foreign.notes) == ("b", "r", [])


@pytest.mark.parametrize("norm", [1, 2])
def test_a_new_entity_is_scaled_as_pyg_would(tmp_path: Path, norm: int) -> None:
    path = saved(tmp_path, re=[[3.0, 4.0], [0.0, 2.0]], rel=[[0.4, 0.2]])
    model = read(path, ImportOptions(model="transe", norm=norm)).to_model()
    vector = model.embed([("x", "0", "0"), ("1", "0", "x")]).vectors[0]
    assert float(torch.linalg.vector_norm(vector, ord=norm)) == pytest.approx(1)


def test_rotate_is_the_length_over_both_parts(tmp_path: Path) -> None:
    quarter = torch.pi / 2
    path = saved(tmp_path, re=[[1.0, 0.0], [0.0, 2.0]], im=[[0.0, 1.0], [1.0, 0.0]], rel=[[quarter, quarter]])
    foreign = read(path, ImportOptions())
    foreign.check()
    # h = (1, i) turned by i is (i, -1); t = (i, 2): the gap is (0, -3)
    assert foreign.embedding.geometry == RotatE(2, norm=2)
    assert foreign.scores(torch.tensor([[0, 0, 1]]).numpy()) == pytest.approx([-3.0])


def test_what_does_not_fit_is_one_clear_line(tmp_path: Path) -> None:
    def message(options: ImportOptions = TRANSE, **tables: list[list[float]]) -> str:
        with pytest.raises(OokgError) as refusal:
            read(saved(tmp_path, **tables), options).check()
        assert "\n" not in str(refusal.value)
        return str(refusal.value)

    good = [[1.0, 2.0], [3.0, 4.0]]
    assert 'give `model="transe"`' in message(ImportOptions(), re=good, rel=good)
    assert "its model is transe, not rotate" in message(ImportOptions(model="rotate"), re=good, rel=good)
    assert "its norm is 2, not 1" in message(ImportOptions(norm=1), re=good, im=good, rel=good)
    complex_state = {"re": good, "im": good, "rel": good, "rel_emb_im.weight": good}
    assert "neither TransE nor RotatE" in message(ImportOptions(), **complex_state)
    assert "shape (2, 1)" in message(re=[[1.0], [2.0]], rel=good)
    assert "shape (2,)" in message(re=good, rel=[1.0, 2.0])  # type: ignore[list-item]
    assert "2 real and 1 imaginary rows" in message(ImportOptions(), re=good, im=good[:1], rel=good)
    assert "entity row 1 ('1') holds NaN" in message(re=[[1.0, 2.0], [float("nan"), 0.0]], rel=good)
    (tmp_path / "entities.txt").write_text("a\nb\nc\n")
    assert "3 entity labels for 2 rows" in message(re=good, rel=good)
    missing = ImportOptions(model="transe", vocabulary=tmp_path / "none")
    assert "no labels of entities here" in message(missing, re=good, rel=good)
    torch.save([1], tmp_path / "model.pt")
    with pytest.raises(OokgError, match="no state dict"):
        read(tmp_path / "model.pt", TRANSE)
    (tmp_path / "model.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(OokgError, match=r"torch.save\(model.state_dict"):
        read(tmp_path / "model.pt", TRANSE)
