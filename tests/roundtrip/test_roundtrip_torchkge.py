"""TorchKGE itself: train there, import, embed, export, load there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchkge")

import pandas
from torchkge.data_structures import KnowledgeGraph
from torchkge.models import DistMultModel, TransEModel, TransHModel
from torchkge.sampling import BernoulliNegativeSampler
from torchkge.utils import MarginLoss

from ookg.errors import OokgError
from ookg.interchange.exports import collect, export
from ookg.interchange.foreign import ImportOptions
from ookg.interchange.torchkge import read
from roundtrip import GRAPH, NEW, SAMPLE, graph_file, same_scores

pytestmark = pytest.mark.filterwarnings("ignore")


def trained(dissimilarity: str) -> tuple[Any, KnowledgeGraph]:
    torch.manual_seed(0)
    frame = pandas.DataFrame(GRAPH, columns=["from", "rel", "to"])[["from", "to", "rel"]]
    data = KnowledgeGraph(df=frame)
    model = TransEModel(8, data.n_ent, data.n_rel, dissimilarity_type=dissimilarity)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    sampler, loss = BernoulliNegativeSampler(data), MarginLoss(0.5)
    for _ in range(10):
        negative = sampler.corrupt_batch(data.head_idx, data.tail_idx, data.relations)
        optimizer.zero_grad()
        loss(*model(data.head_idx, data.tail_idx, data.relations, *negative)).backward()
        optimizer.step()
    return model, data


def scores(model: Any) -> Any:
    head, relation, tail = torch.from_numpy(SAMPLE).unbind(dim=1)
    with torch.no_grad():
        return model.scoring_function(head, tail, relation).numpy()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("dissimilarity", ["L1", "L2"])
def test_state_dict_and_back(dissimilarity: str, normalised: bool, tmp_path: Path) -> None:
    model, data = trained(dissimilarity)
    if normalised:
        model.normalize_parameters()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    data_file = graph_file(tmp_path)
    options = ImportOptions(vocabulary=data_file, model="transe", norm=1 if dissimilarity == "L1" else None)
    foreign = read(tmp_path / "model.pt", options)
    assert all(foreign.entities.find(label) == number for label, number in data.ent2ix.items())
    assert all(foreign.relations.find(label) == number for label, number in data.rel2ix.items())
    ours = foreign.to_model(data_file)
    before = scores(model)
    same_scores(foreign, ours, SAMPLE, before)

    export(collect(ours, ours.embed(NEW)), "npy", tmp_path / "out")
    vectors, relations = (torch.from_numpy(np.load(tmp_path / "out" / f"{n}.npy")) for n in ("entities", "relations"))
    larger = TransEModel(8, data.n_ent + 1, data.n_rel, dissimilarity_type=dissimilarity)
    larger.load_state_dict({"ent_emb.weight": vectors, "rel_emb.weight": relations})
    np.testing.assert_allclose(scores(larger), before, rtol=1e-5)
    assert torch.linalg.vector_norm(vectors[-1]).item() == pytest.approx(1, abs=1e-5)


def test_other_models_are_refused(tmp_path: Path) -> None:
    for model in (DistMultModel(8, 5, 2), TransHModel(8, 5, 2)):
        torch.save(model.state_dict(), tmp_path / "model.pt")
        with pytest.raises(OokgError, match="TransE"):
            read(tmp_path / "model.pt", ImportOptions())
