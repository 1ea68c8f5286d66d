"""PyKEEN itself: train there, import, embed, export, load there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("pykeen")

from pykeen.models import model_resolver
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import TriplesFactory

from ookg.errors import OokgError
from ookg.interchange.exports import collect, export
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.pykeen import conversion, read
from roundtrip import GRAPH, NEW, SAMPLE, same_scores

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "transe-l1": ("TransE", {"embedding_dim": 8}, False),
    "transe-l2": ("TransE", {"embedding_dim": 8, "scoring_fct_norm": 2}, False),
    "transe-squared": ("TransE", {"embedding_dim": 8, "scoring_fct_norm": 2, "power_norm": True}, False),
    "transe-free": ("TransE", {"embedding_dim": 8, "entity_constrainer": None}, False),
    "transe-inverse": ("TransE", {"embedding_dim": 8}, True),
    "rotate": ("RotatE", {"embedding_dim": 8}, False),
    "rotate-inverse": ("RotatE", {"embedding_dim": 8}, True),
}


def convert(refusal: str) -> None:
    """Run the command that a refusal gives; it needs PyKEEN, which is here."""
    exec(refusal.split('python -c "')[1].removesuffix('"'))


def trained(name: str, checkpoint: Path | None = None) -> tuple[Any, TriplesFactory]:
    model_name, kwargs, inverse = MODELS[name]
    factory = TriplesFactory.from_labeled_triples(np.array(GRAPH, dtype=str), create_inverse_triples=inverse)
    model = model_resolver.make(model_name, kwargs, triples_factory=factory, random_seed=0)
    loop = SLCWATrainingLoop(model=model, triples_factory=factory)
    options: dict[str, Any] = {}
    if checkpoint is not None:
        options = {"checkpoint_directory": checkpoint.parent, "checkpoint_name": checkpoint.name}
        options["checkpoint_frequency"] = 0  # after every epoch
    loop.train(triples_factory=factory, num_epochs=3, batch_size=64, use_tqdm=False, pin_memory=False, **options)
    return model, factory


def scores(model: Any, sample: Any) -> Any:
    with torch.no_grad():
        return model.predict_hrt(torch.from_numpy(sample)).ravel().numpy()


@pytest.mark.parametrize("name", MODELS)
def test_result_directory_and_back(name: str, tmp_path: Path) -> None:
    model, factory = trained(name)
    results = tmp_path / "results"
    results.mkdir()
    torch.save(model, results / "trained_model.pkl")
    factory.to_path_binary(results / "training_triples")
    with pytest.raises(OokgError, match="take the tensors out") as refusal:
        read(results, ImportOptions())
    # The command of the refusal is the one that works.
    convert(str(refusal.value))

    foreign = read(results, ImportOptions())
    ours = foreign.to_model(results / "training_triples" / "numeric_triples.tsv.gz")
    assert len(ours.checkpoint.triples) == len(GRAPH)
    # Their ids are ours: both number the sorted labels.
    assert ours.entities.labels.to_pylist() == sorted(factory.entity_to_id, key=factory.entity_to_id.__getitem__)
    before = scores(model, SAMPLE)
    same_scores(foreign, ours, SAMPLE, before)

    new = ours.embed(NEW)
    assert new.entities == ["newcomer"]
    export(collect(ours, new), "pykeen", tmp_path / "out")
    loaded, extended = load_there(tmp_path / "out")
    assert extended.num_entities == factory.num_entities + 1
    assert extended.entity_to_id["newcomer"] == factory.num_entities
    assert all(extended.entity_to_id[label] == number for label, number in factory.entity_to_id.items())
    np.testing.assert_allclose(scores(loaded, SAMPLE), before, rtol=1e-5)
    # The newcomer's vector there is the one from here.
    triple = np.array([[factory.num_entities, 1, 2]])
    same_scores(read(tmp_path / "out", ImportOptions()), _ours(tmp_path / "out"), triple, scores(loaded, triple))


def _ours(folder: Path) -> Any:
    return read(folder, ImportOptions()).to_model()


def load_there(folder: Path) -> tuple[Any, TriplesFactory]:
    """As docs/export.md says."""
    import json

    factory = TriplesFactory.from_path_binary(folder / "training_triples")
    said = json.loads((folder / "metadata.json").read_text())
    model = model_resolver.make(said["model"], said["model_kwargs"], triples_factory=factory)
    model.load_state_dict(torch.load(folder / "state_dict.pt"))
    return model, factory


@pytest.mark.parametrize("name", ["transe-l2", "rotate-inverse"])
def test_training_checkpoint(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    model, _ = trained(name, path)
    with pytest.raises(OokgError, match="take the tensors out"):
        read(path, ImportOptions())
    subprocess.run(conversion(path).replace("python", sys.executable, 1), shell=True, check=True, capture_output=True)
    options = ImportOptions(model="transe", norm=2) if name == "transe-l2" else ImportOptions()
    foreign = read(tmp_path / "state_dict.pt", options)
    same_scores(foreign, foreign.to_model(), SAMPLE, scores(model, SAMPLE))


def test_export_without_triples_loads_there(tmp_path: Path) -> None:
    model, factory = trained("transe-l1")
    torch.save(model.state_dict(), tmp_path / "state_dict.pt")
    factory.to_path_binary(tmp_path / "training_triples")
    ours = read(tmp_path, ImportOptions(model="transe")).to_model()
    export(collect(ours, ours.embed(NEW)), "pykeen", tmp_path / "out")
    assert load_there(tmp_path / "out")[1].num_entities == factory.num_entities + 1


def test_other_models_are_refused(tmp_path: Path) -> None:
    factory = TriplesFactory.from_labeled_triples(np.array(GRAPH, dtype=str))
    factory.to_path_binary(tmp_path / "training_triples")
    for name in ("DistMult", "ComplEx", "TransH", "TransR"):
        model = model_resolver.make(name, {}, triples_factory=factory)
        torch.save(model, tmp_path / "trained_model.pkl")
        convert(conversion(tmp_path / "trained_model.pkl"))
        with pytest.raises(OokgError):
            read(tmp_path, ImportOptions())
        torch.save(model.state_dict(), tmp_path / "state_dict.pt")
        with pytest.raises(OokgError):
            read(tmp_path, ImportOptions())
