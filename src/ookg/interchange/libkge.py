"""LibKGE: a checkpoint, in a form without its pickled settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ookg.errors import FileError
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    first_existing,
    folder_of,
    known_model,
    load_tensors,
    number,
    numbers,
    read_vocabularies,
    rotation_scores,
    settled,
    table,
    translation_scores,
)
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding

TOOL = "LibKGE"
BASE = "_base_model."
# LibKGE pickles its Config object into a checkpoint: only LibKGE's own environment can open that safely.
CONVERSION = (
    'where LibKGE is installed, run: python -c "import torch; '
    "c = torch.load('checkpoint_best.pt', map_location='cpu', weights_only=False); "
    "g = c['config']; k = g.get('model'); k += '.base_model' * k.startswith('reciprocal'); "
    "torch.save({'model': c['model'][0], 'model_name': g.get(k + '.type') if '.' in k else k, "
    "'l_norm': g.get_default(k + '.l_norm')}, 'plain.pt')\" and import plain.pt"
)


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """Read a file `{"model": state_dict, "model_name": ..., "l_norm": ...}` of tensors and plain values.

    TransE: D = ‖h + r - t‖ₚ. RotatE: D = ‖h∘r - t‖ₚ over complex moduli; an entity is d real parts, then d imaginary
    parts (LibKGE's `dim` is 2d); a relation is d phases in radians. p is `l_norm`, by default 1. Entities may be held
    to length 1 (`normalize.p`): the stored rows show it, and then a new TransE entity is scaled to it too.

    `["model"]` may also be LibKGE's own pair (state_dict, meta). A reciprocal model has two rows for a relation; the
    first, which answers for tails, is taken. Labels: `entity_ids.del` and `relation_ids.del` of the data folder.
    """
    folder = folder_of(source)
    path = source if source.is_file() else first_existing(source, "plain.pt", "checkpoint_best.pt")
    if path is None:
        raise FileError(source, "no plain.pt or checkpoint_best.pt here", "name the checkpoint's file")
    content = load_tensors(path, CONVERSION)
    state = _state(path, content)
    stated = content.get("model_name")
    name = settled("model", options.model, None if stated is None else known_model(path, str(stated)), path)
    notes: list[str] = []
    norm = _norm(path, content.get("l_norm"), options, notes)
    base = BASE if any(key.startswith(BASE) for key in state) else ""
    raw_entities, raw_relations = (numbers(_weight(path, state, f"{base}_{kind}")) for kind in ("entity", "relation"))
    relations = table(raw_relations, path, "the relation table")
    d = relations.shape[1]
    entities = table(raw_entities, path, "the entity table", width=2 * d if name == "rotate" else d)
    if base:
        if len(relations) % 2:
            raise FileError(path, f"{len(relations)} relation rows in a reciprocal model", "expected an even number")
        relations = relations[: len(relations) // 2].clone()
        notes.append("reciprocal model: the relation rows that answer for tails are used, those for heads are not")
    geometry: Geometry = RotatE(d, norm=norm)
    convention = f"RotatE: L{norm} norm over moduli; entities as halves re, im; phases in radians; no constraint"
    scores = rotation_scores(raw_entities, raw_relations, 1.0, norm)
    if name == "transe":
        unit = bool(torch.allclose(entities.norm(dim=1), torch.ones(len(entities)), atol=1e-4))
        geometry = TransE(d, norm=norm, unit_norm=2 if unit else 0)
        constraint = "entities of length 1" if unit else "no constraint"
        convention = f"TransE: L{norm} norm of h + r - t; {constraint}"
        scores = translation_scores(raw_entities, raw_relations, norm)
    names = (["entity_ids.del"], ["relation_ids.del"])
    labels = read_vocabularies(options, folder, names, (len(entities), len(relations)))
    return ForeignModel(TOOL, convention, Embedding(geometry, entities, relations), *labels, scores, notes)


def _state(path: Path, content: Any) -> dict[str, Any]:
    model = content.get("model") if isinstance(content, dict) else None
    if isinstance(model, tuple | list) and model:
        model = model[0]
    if not isinstance(model, dict):
        raise FileError(path, 'has no state dict under "model"', f"{CONVERSION}")
    return {str(name): value for name, value in model.items()}


def _weight(path: Path, state: dict[str, Any], prefix: str) -> torch.Tensor:
    for key in (f"{prefix}_embedder._embeddings.weight", f"{prefix}_embedder.embeddings.weight"):
        if isinstance(state.get(key), torch.Tensor):
            weight: torch.Tensor = state[key]
            return weight
    raise FileError(path, f"no {prefix}_embedder._embeddings.weight", "only models with lookup embedders can be read")


def _norm(path: Path, stated: Any, options: ImportOptions, notes: list[str]) -> int:
    if stated is None and options.norm is None:
        notes.append("the file does not say its l_norm; LibKGE's default, 1, was taken (`norm` says another)")
        return 1
    norm = number(settled("norm", options.norm, stated, path), "l_norm", path)
    if norm not in (1, 2):
        raise FileError(path, f"l_norm is {norm:g}", "only the norms 1 and 2 can be used")
    return int(norm)
