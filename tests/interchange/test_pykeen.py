"""PyKEEN's layouts, written by hand: state dict, conversion of pickles, labels, both models; and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.errors import FileError, OokgError
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.pykeen import conversion, read
from ookg.models import RotatE, TransE

ENTITY, RELATION = "entity_representations.0._embeddings.weight", "relation_representations.0._embeddings.weight"
LABELS = ["NA", 'a "quoted" one', "null", "d", "e"]


def labels(path: Path, texts: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write("id\tlabel\n")
        for number, text in enumerate(texts):
            quoted = '"' + text.replace('"', '""') + '"' if '"' in text else text
            file.write(f"{number}\t{quoted}\n")


def tables(model: str, relations: int = 2, unit: bool = True) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    entities = rng.normal(size=(5, 6))
    if model == "rotate":
        turns = np.exp(1j * rng.uniform(-np.pi, np.pi, size=(relations, 3)))
        moved = turns.view(np.float64)
    else:
        moved = rng.normal(size=(relations, 6))
        if unit:
            entities /= np.linalg.norm(entities, axis=1, keepdims=True)
    return {ENTITY: torch.tensor(entities, dtype=torch.float32), RELATION: torch.tensor(moved, dtype=torch.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels(tmp_path / "training_triples" / "entity_to_id.tsv.gz", LABELS)
    labels(tmp_path / "training_triples" / "relation_to_id.tsv.gz", ["r", "s"])
    (tmp_path / "metadata.json").write_text("{}")
    (tmp_path / "results.json").write_text('{"losses": [1.0], "metrics": {}}')
    return tmp_path


def known_answer(state: dict[str, torch.Tensor], h: int, r: int, t: int, model: str, norm: int) -> float:
    head, relation, tail = (
        state[name][row].double().numpy() for name, row in ((ENTITY, h), (RELATION, r), (ENTITY, t))
    )
    if model == "transe":
        return -float(np.linalg.norm(head + relation - tail, ord=norm))
    total = 0.0
    for place in range(0, len(head), 2):
        gap = complex(*head[place : place + 2]) * complex(*relation[place : place + 2]) - complex(
            *tail[place : place + 2]
        )
        total += float(abs(gap)) ** 2
    return -float(np.sqrt(total))


def ours(foreign: Any, h: int, r: int, t: int) -> float:
    entities, relations = foreign.embedding.entities.double(), foreign.embedding.relations.double()
    return -float(foreign.embedding.geometry.distance(entities[h], relations[r], entities[t]))


@pytest.mark.parametrize("norm", [1, 2])
def test_transe(folder: Path, norm: int) -> None:
    state = tables("transe")
    torch.save(state, folder / "state_dict.pt")
    foreign = read(folder, ImportOptions(model="transe", norm=norm))
    foreign.check()
    assert foreign.embedding.geometry == TransE(6, norm, unit_norm=2)
    assert foreign.entities.labels.to_pylist() == LABELS
    assert ours(foreign, 0, 1, 3) == pytest.approx(known_answer(state, 0, 1, 3, "transe", norm), rel=1e-6)
    new = foreign.to_model().embed([("x", "r", "NA")])
    assert torch.linalg.vector_norm(new.vectors[0]).item() == pytest.approx(1, abs=1e-6)


def test_rotate_is_told_by_its_relations(folder: Path) -> None:
    state = tables("rotate")
    torch.save(state, folder / "state_dict.pt")
    foreign = read(folder, ImportOptions())
    foreign.check()
    assert foreign.embedding.geometry == RotatE(3, norm=2)
    assert ours(foreign, 0, 1, 3) == pytest.approx(known_answer(state, 0, 1, 3, "rotate", 2), rel=1e-6)


def test_facts_of_the_conversion_and_of_json(folder: Path) -> None:
    state = tables("transe", unit=False)
    facts = {"model": "TransEInteraction", "norm": 2, "power_norm": True, "model_state_dict": state}
    torch.save(facts, folder / "state_dict.pt")
    foreign = read(folder, ImportOptions())
    foreign.check()
    assert foreign.embedding.geometry == TransE(6, 2, squared=True)
    assert any("not of length 1" in note for note in foreign.notes)
    assert ours(foreign, 0, 1, 3) == pytest.approx(-(known_answer(state, 0, 1, 3, "transe", 2) ** 2), rel=1e-6)

    torch.save(state, folder / "state_dict.pt")
    said = {"pipeline": {"model": "TransE", "model_kwargs": {"scoring_fct_norm": 2}}}
    (folder / "pipeline_config.json").write_text(json.dumps(said))
    assert read(folder, ImportOptions()).embedding.geometry == TransE(6, 2)
    for options in (ImportOptions(model="rotate"), ImportOptions(norm=1)):
        with pytest.raises(FileError, match="leave out `"):
            read(folder, options)
    (folder / "pipeline_config.json").write_text('{"pipeline": {"model": "DistMult"}}')
    with pytest.raises(FileError, match="DistMult scores by a product"):
        read(folder, ImportOptions())


@pytest.mark.parametrize("model", ["transe", "rotate"])
def test_inverse_relations_are_left_out(folder: Path, model: str) -> None:
    state = tables(model, relations=4)
    torch.save(state, folder / "state_dict.pt")
    foreign = read(folder, ImportOptions(model=model))
    foreign.check()
    assert foreign.relations.labels.to_pylist() == ["r", "s"]
    assert any("inverse" in note for note in foreign.notes)
    assert ours(foreign, 0, 1, 3) == pytest.approx(known_answer(state, 0, 2, 3, model, 1), rel=1e-6)


def test_checkpoint_with_its_labels_and_numeric_triples(tmp_path: Path) -> None:
    ids = {"b": 1, "a": 0, "c": 2, "d": 3, "e": 4}
    checkpoint = {
        "model_state_dict": tables("transe"),
        "entity_to_id_dict": ids,
        "relation_to_id_dict": {"r": 0, "s": 1},
    }
    torch.save(checkpoint, tmp_path / "run.pt")
    foreign = read(tmp_path / "run.pt", ImportOptions(model="transe"))
    assert foreign.entities.labels.to_pylist() == ["a", "b", "c", "d", "e"]
    assert any("norm 1 is taken for granted" in note for note in foreign.notes)
    path = tmp_path / "numeric_triples.tsv.gz"
    with gzip.open(path, "wt") as file:
        file.write("head\trelation\ttail\n0\t1\t2\n4\t0\t1\n")
    model = foreign.to_model(path)
    assert model.checkpoint.triples.tolist() == [[0, 1, 2], [4, 0, 1]]
    with gzip.open(path, "wt") as file:
        file.write("head\trelation\ttail\n0\t1\t9\n")
    with pytest.raises(FileError, match="not below 5"):
        foreign.to_model(path)


class Harmful:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("name", ["trained_model.pkl", "state_dict.pt", "run.pt"])
def test_pickles_are_refused_with_the_command_and_never_run(folder: Path, name: str, protocol: int) -> None:
    harm = folder / "harm"
    for save in (torch.save, _plain_pickle):
        save({"model_state_dict": Harmful(harm)}, folder / name, pickle_protocol=protocol)
        with pytest.raises(FileError) as refusal:
            read(folder, ImportOptions())
        assert not harm.exists()
        assert conversion(folder / name) in str(refusal.value)
        assert "\n" not in str(refusal.value)


def _plain_pickle(thing: Any, path: Path, pickle_protocol: int) -> None:
    path.write_bytes(pickle.dumps(thing, pickle_protocol))


def test_what_does_not_fit_is_one_clear_line(folder: Path) -> None:
    path, options = folder / "state_dict.pt", ImportOptions(model="transe")

    def message(state: Any, options: ImportOptions = options) -> str:
        torch.save(state, path)
        with pytest.raises(OokgError) as refusal:
            read(folder, options).check()
        assert "\n" not in str(refusal.value)
        return str(refusal.value)

    good = tables("transe")
    assert 'give `model="transe"`' in message(good, ImportOptions())
    assert "no state dict" in message([1, 2])
    assert "entity_representations" in message({"x": torch.zeros(2, 2)})
    assert "neither TransE nor RotatE" in message(good | {"interaction.weight": torch.zeros(2)})
    assert "shape (5, 4)" in message(good | {ENTITY: torch.zeros(5, 4)})
    assert "int64" in message(good | {ENTITY: torch.zeros(5, 6, dtype=torch.int64)})
    assert "5 entity labels for 6 rows" in message(good | {ENTITY: torch.zeros(6, 6)})
    assert "2 relation labels for 3 rows" in message(good | {RELATION: torch.zeros(3, 6)})
    broken = good[ENTITY].clone()
    broken[3, 1] = torch.nan
    assert "entity row 3 ('d') holds NaN" in message(good | {ENTITY: broken})
    assert "not of modulus 1" in message(good, ImportOptions(model="rotate"))
    odd = {ENTITY: torch.ones(5, 5), RELATION: torch.ones(2, 5)}
    assert "RotatE has pairs" in message(odd, ImportOptions(model="rotate"))
    rotate = tables("rotate")
    assert "its norm is 2" in message(rotate, ImportOptions(norm=1))
    assert "norm 3" in message({"model": "TransE", "norm": 3, "model_state_dict": good})
    # An entity that is no rotation of a known one: the check compares with the complex numbers as they lie there.
    assert "modulus 1" in message(rotate | {RELATION: 2 * rotate[RELATION]}, ImportOptions(model="rotate"))


def test_labels_that_are_missing_or_damaged(folder: Path) -> None:
    torch.save(tables("transe"), folder / "state_dict.pt")
    path = folder / "training_triples" / "entity_to_id.tsv.gz"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(FileError, match="not a table of ids"):
        read(folder, ImportOptions(model="transe"))
    path.unlink()
    with pytest.raises(FileError, match="with `vocabulary`"):
        read(folder, ImportOptions(model="transe"))
    (folder / "names.txt").write_text("a\nb\nc\nd\ne\n")
    foreign = read(folder, ImportOptions(model="transe", entities=folder / "names.txt"))
    assert foreign.entities.label(4) == "e"
    with pytest.raises(FileError, match="no such file or folder"):
        read(folder / "nowhere", ImportOptions())
    with pytest.raises(FileError, match="neither"):
        read(folder / "training_triples", ImportOptions())
