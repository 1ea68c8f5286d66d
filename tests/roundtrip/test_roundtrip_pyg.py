"""PyTorch Geometric itself: train there, import, embed, export, load there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torch_geometric")

from torch_geometric.nn import ComplEx, DistMult, RotatE, TransE

from ookg.errors import OokgError
from ookg.interchange.exports import collect, export
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.pyg import read
from roundtrip import GRAPH, NEW, SAMPLE, same_scores

pytestmark = pytest.mark.filterwarnings("ignore")


def encoded() -> tuple[list[str], list[str], Any]:
    entities = sorted({end for h, _, t in GRAPH for end in (h, t)})
    relations = sorted({r for _, r, _ in GRAPH})
    ids = [[entities.index(h), relations.index(r), entities.index(t)] for h, r, t in GRAPH]
    return entities, relations, torch.tensor(ids)


def trained(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    entities, relations, ids = encoded()
    model = kind(len(entities), len(relations), hidden_channels=8, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        model.loss(ids[:, 0], ids[:, 1], ids[:, 2]).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize(
    ("kind", "made", "options"),
    [
        (TransE, {}, {"model": "transe"}),
        (TransE, {"p_norm": 1.0}, {"model": "transe", "norm": 1}),
        (TransE, {"p_norm": 2.0}, {"model": "transe", "norm": 2}),
        (RotatE, {"margin": 3.0}, {}),
    ],
)
def test_state_dict_and_back(kind: Any, made: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    model = trained(kind, **made)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    entities, relations, _ = encoded()
    (tmp_path / "entities.txt").write_text("\n".join(entities))
    (tmp_path / "relations.txt").write_text("\n".join(relations))
    foreign = read(tmp_path / "model.pt", ImportOptions(**options))
    ours = foreign.to_model(GRAPH)
    assert len(ours.checkpoint.triples) == len(GRAPH)
    margin = made.get("margin", 0.0) if kind is RotatE else 0.0  # PyG's RotatE returns margin - D
    head, relation, tail = torch.from_numpy(SAMPLE).unbind(dim=1)
    with torch.no_grad():
        before = model(head, relation, tail).numpy() - margin
    same_scores(foreign, ours, SAMPLE, before)

    export(collect(ours, ours.embed(NEW)), "npy", tmp_path / "out")
    vectors = torch.from_numpy(np.load(tmp_path / "out" / "entities.npy"))
    larger = kind(len(entities) + 1, len(relations), hidden_channels=8, **made)
    state = {"rel_emb.weight": torch.from_numpy(np.load(tmp_path / "out" / "relations.npy"))}
    parts = [vectors] if kind is TransE else vectors.chunk(2, dim=1)
    larger.load_state_dict(state | dict(zip(("node_emb.weight", "node_emb_im.weight"), parts, strict=False)))
    with torch.no_grad():
        np.testing.assert_allclose(larger(head, relation, tail).numpy() - margin, before, rtol=1e-5)


def test_other_models_are_refused(tmp_path: Path) -> None:
    for kind in (DistMult, ComplEx):
        torch.save(trained(kind).state_dict(), tmp_path / "model.pt")
        with pytest.raises(OokgError, match="TransE"):
            read(tmp_path / "model.pt", ImportOptions())
