"""DGL-KE: `<dataset>_<model>_entity.npy`, `<dataset>_<model>_relation.npy` and `config.json`."""

from __future__ import annotations

import math
from pathlib import Path, PurePath
from typing import Any

from ookg.errors import FileError
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    folder_of,
    known_model,
    load_array,
    load_object,
    number,
    own_file,
    phases,
    read_vocabularies,
    rotation_scores,
    settled,
    table,
    translation_scores,
)
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding

TOOL = "DGL-KE"
EPSILON = 2.0
NORMS = {"TransE": 2, "TransE_l2": 2, "TransE_l1": 1, "RotatE": 1}
# Longer names first: `FB15k_TransE_l1_entity.npy` is TransE_l1's.
MODELS = ("TransE_l1", "TransE_l2", "TransE", "RotatE", "TransR", "RESCAL", "DistMult", "ComplEx", "SimplE")


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """Read the folder that `dglke_train` saved a model in.

    TransE: D = ‖h + r - t‖ₚ, p = 2 for `TransE` and `TransE_l2`, 1 for `TransE_l1`. RotatE: D = Σ |h∘r - t| over
    complex moduli; an entity is d real parts, then d imaginary parts; a relation holds x with the phase
    x·π / ((γ + 2) / d). No constraint. The maps `entities.tsv` and `relations.tsv` are with the data.
    """
    folder = folder_of(source)
    config_path = folder / "config.json"
    config = load_object(config_path) if config_path.is_file() else {}
    entity_path, relation_path, name = _files(folder, config)
    model = known_model(folder, "TransE" if name in NORMS and name != "RotatE" else name)
    settled("model", options.model, model, folder)
    norm: int = settled("norm", options.norm, NORMS[name], folder)
    raw_entities, raw_relations = load_array(entity_path), load_array(relation_path)
    relations = table(raw_relations, relation_path, "the relation table")
    d = relations.shape[1]
    entities = table(raw_entities, entity_path, "the entity table", width=2 * d if model == "rotate" else d)
    geometry: Geometry = TransE(d, norm=norm)
    convention = f"{name}: L{norm} norm of h + r - t; no constraint"
    scores = translation_scores(raw_entities, raw_relations, norm)
    if model == "rotate":
        gamma = number(settled("gamma", options.gamma, config.get("gamma"), folder), "gamma", config_path, -EPSILON)
        if config.get("hidden_dim") not in (None, d):
            problem = f"hidden_dim {config['hidden_dim']}, but relations of {d} numbers in {relation_path.name}"
            raise FileError(config_path, problem, "the files are of different runs; save the model again")
        unit = (gamma + EPSILON) / d / math.pi
        geometry, relations = RotatE(d, norm=1), phases(raw_relations, unit)
        convention = f"RotatE: sum of moduli; entities as halves re, im; phase = x / {unit:.6g}; no constraint"
        scores = rotation_scores(raw_entities, raw_relations, unit)
    names = (_map_names(config, "emp_file", "entities"), _map_names(config, "rmap_file", "relations"))
    labels = read_vocabularies(options, folder, names, (len(entities), len(relations)))
    return ForeignModel(TOOL, convention, Embedding(geometry, entities, relations), *labels, scores)


def _files(folder: Path, config: dict[str, Any]) -> tuple[Path, Path, str]:
    """The two arrays and the model's name, by config.json or else by the files' own names."""
    arrays = sorted(folder.glob("*_entity.npy"))
    if config.get("model_name") and config.get("dataset"):
        named = folder / own_file(folder / "config.json", f"{config['dataset']}_{config['model_name']}_entity.npy")
        arrays = [named] if named.is_file() else arrays
    if len(arrays) != 1:
        problem = f"{len(arrays)} files named <dataset>_<model>_entity.npy"
        raise FileError(folder, problem, "give the folder of one model, with its config.json")
    prefix = arrays[0].name.removesuffix("_entity.npy")
    name = config.get("model_name") or next((name for name in MODELS if prefix.endswith(f"_{name}")), None)
    if name is None:
        raise FileError(arrays[0], "its name has no model of DGL-KE", "put the run's config.json beside it")
    if name not in MODELS:
        raise FileError(folder / "config.json", f"model_name is {name!r}", f"expected one of {', '.join(MODELS)}")
    return arrays[0], folder / f"{prefix}_relation.npy", str(name)


def _map_names(config: dict[str, Any], key: str, usual: str) -> list[str]:
    stated = [PurePath(config[key]).name] if isinstance(config.get(key), str) else []
    return [*stated, f"{usual}.tsv", f"{usual}.dict"]
