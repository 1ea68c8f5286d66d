"""Sound models of other tools: one folder each, as the tools write them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

N, R, D, SPAN, GAMMA = 12, 3, 4, 2.0, 6.0
LABELS = {"entity": [f"e{number}" for number in range(N)], "relation": [f"r{number}" for number in range(R)]}
STEMS = {"entity": "entities", "relation": "relations"}
_RNG = np.random.default_rng(0)
NARROW = _RNG.normal(size=(N, D)).astype(np.float32)
WIDE = _RNG.normal(size=(N, 2 * D)).astype(np.float32)  # RotatE's: real parts, then imaginary parts
RELATIONS = _RNG.uniform(-SPAN, SPAN, (R, D)).astype(np.float32)

# By the folder's name: what follows `ookg import`, run in the folder.
IMPORTERS: dict[str, tuple[str, ...]] = {
    "pykeen": ("pykeen", ".", "--model", "transe"),
    "pykeen-rotate": ("pykeen", ".", "--triples", "numeric_triples.tsv.gz"),
    "pyg": ("pyg", "model.pt", "--model", "transe"),
    "pyg-rotate": ("pyg", "model.pt"),
    "torchkge": ("torchkge", "model.pt", "--model", "transe", "--vocabulary", "."),
    "kge": ("kge", ".", "--vocabulary", "."),
    "dgl-ke": ("dgl-ke", "."),
    "dgl-ke-rotate": ("dgl-ke", "."),
    "libkge": ("libkge", "plain.pt"),
    "openke": ("openke", "model.ckpt", "--model", "transe", "--triples", "train2id.txt"),
    "openke-rotate": ("openke", "model.ckpt"),
    "openke-json": ("openke", "model.json", "--model", "transe"),
    "biggraph": ("biggraph", ".", "--vocabulary", "."),
    "biggraph-dynamic": ("biggraph", ".", "--vocabulary", "."),
    "arrays-npy": ("arrays", "."),
    "arrays-safetensors": ("arrays", "."),
    "arrays-parquet": ("arrays", "."),
    "arrays-vec": ("arrays", "."),
}


def write_foreign(folder: Path) -> None:
    """Write a folder for each importer."""
    for name in IMPORTERS:
        (folder / name).mkdir(parents=True)
    turns = np.exp(1j * RELATIONS.astype(np.float64)).view(np.float64).astype(np.float32)
    _write_pykeen(folder / "pykeen", NARROW, RELATIONS)
    _write_pykeen(folder / "pykeen-rotate", WIDE, turns)
    state = {"node_emb.weight": NARROW, "rel_emb.weight": RELATIONS}
    _write_state_dict(folder / "pyg", state)
    _write_state_dict(folder / "pyg-rotate", state | {"node_emb_im.weight": NARROW + 1})
    _write_state_dict(folder / "torchkge", {"ent_emb.weight": NARROW, "rel_emb.weight": RELATIONS})
    _write_kge(folder / "kge")
    _write_dgl_ke(folder / "dgl-ke", "TransE_l2", NARROW)
    _write_dgl_ke(folder / "dgl-ke-rotate", "RotatE", WIDE)
    _write_libkge(folder / "libkge")
    for name in ("openke", "openke-rotate", "openke-json"):
        _write_openke(folder / name)
    _write_biggraph(folder / "biggraph", dynamic=False)
    _write_biggraph(folder / "biggraph-dynamic", dynamic=True)
    for form in ("npy", "safetensors", "parquet", "vec"):
        _write_arrays(folder / f"arrays-{form}", form)


def _tensors(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _write_ids(path: Path, kind: str, first: str = "", label_first: bool = False) -> None:
    pairs = [(label, number) if label_first else (number, label) for number, label in enumerate(LABELS[kind])]
    path.write_text(first + "".join(f"{one}\t{other}\n" for one, other in pairs))


def _write_pykeen(run: Path, entities: Any, relations: Any) -> None:
    names = [f"{kind}_representations.0._embeddings.weight" for kind in LABELS]
    torch.save(_tensors(dict(zip(names, (entities, relations), strict=True))), run / "state_dict.pt")
    (run / "metadata.json").write_text("{}")
    (run / "results.json").write_text('{"losses": [1.0], "metrics": {}}')
    (run / "training_triples").mkdir()
    for kind, texts in LABELS.items():
        text = "id\tlabel\n" + "".join(f"{number}\t{label}\n" for number, label in enumerate(texts))
        path = run / "training_triples" / f"{kind}_to_id.tsv.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    ids = b"head\trelation\ttail\n0\t0\t1\n1\t2\t11\n"
    (run / "numeric_triples.tsv.gz").write_bytes(gzip.compress(ids, mtime=0))


def _write_state_dict(run: Path, state: Mapping[str, Any]) -> None:
    torch.save(_tensors(state), run / "model.pt")
    (run / "entities.txt").write_text("\n".join(LABELS["entity"]) + "\n")
    (run / "relations.json").write_text(json.dumps(LABELS["relation"]))


def _write_kge(run: Path) -> None:
    np.save(run / "entity_embedding.npy", WIDE)
    np.save(run / "relation_embedding.npy", RELATIONS)
    config = {"model": "RotatE", "gamma": GAMMA, "hidden_dim": D, "data_path": "../data"}
    (run / "config.json").write_text(json.dumps(config))
    state = _tensors({"entity_embedding": WIDE, "relation_embedding": RELATIONS})
    state |= {"gamma": torch.tensor([GAMMA]), "embedding_range": torch.tensor([SPAN])}
    torch.save({"step": 5, "model_state_dict": state, "optimizer_state_dict": {}}, run / "checkpoint")
    for kind, stem in STEMS.items():
        _write_ids(run / f"{stem}.dict", kind)


def _write_dgl_ke(run: Path, model: str, entities: Any) -> None:
    np.save(run / f"FB15k_{model}_entity.npy", entities)
    np.save(run / f"FB15k_{model}_relation.npy", RELATIONS)
    config = {"model_name": model, "hidden_dim": D, "gamma": GAMMA, "dataset": "FB15k"}
    config |= {"emp_file": "entities.tsv", "rmap_file": "relations.tsv"}
    (run / "config.json").write_text(json.dumps(config))
    for kind, stem in STEMS.items():
        _write_ids(run / f"{stem}.tsv", kind)


def _write_libkge(run: Path) -> None:
    names = [f"_{kind}_embedder._embeddings.weight" for kind in LABELS]
    state = _tensors(dict(zip(names, (WIDE, RELATIONS), strict=True)))
    torch.save({"model": state, "model_name": "rotate", "l_norm": 1.0}, run / "plain.pt")
    for kind in LABELS:
        _write_ids(run / f"{kind}_ids.del", kind)


def _write_openke(run: Path) -> None:
    entities = WIDE if run.name == "openke-rotate" else NARROW
    state = _tensors({"ent_embeddings.weight": entities, "rel_embeddings.weight": RELATIONS})
    if run.name == "openke-json":
        lists = {name: table.tolist() for name, table in state.items()}
        (run / "model.json").write_text(json.dumps(lists | {"p_norm": 1, "norm_flag": True}))
    if run.name == "openke-rotate":
        state |= {"rel_embedding_range": torch.tensor([SPAN]), "margin": torch.tensor([GAMMA])}
    if run.name != "openke-json":
        torch.save(state, run / "model.ckpt")
    _write_ids(run / "entity2id.txt", "entity", f"{N}\n", label_first=True)
    _write_ids(run / "relation2id.txt", "relation", f"{R}\n", label_first=True)
    (run / "train2id.txt").write_text("3\n0 1 0\n2 3 1\n4 5 2\n")


def _write_biggraph(run: Path, *, dynamic: bool) -> None:
    relations = [{"name": name, "lhs": "user", "rhs": "item", "operator": "translation"} for name in LABELS["relation"]]
    config = {
        "entities": {"user": {"num_partitions": 2}, "item": {"num_partitions": 1, "featurized": False}},
        "relations": relations[:1] if dynamic else relations,
        "dynamic_relations": dynamic,
        "comparator": "l2",
        "bias": False,
        "max_norm": 3.0,
        "entity_path": "data/graph",
    }
    (run / "config.json").write_text(json.dumps(config))
    (run / "checkpoint_version.txt").write_text("7\n")
    for place, part in enumerate(("user_0", "user_1", "item_0")):
        rows = slice(4 * place, 4 * place + 4)
        with h5py.File(run / f"embeddings_{part}.v7.h5", "w") as file:
            file.create_dataset("embeddings", data=NARROW[rows])
        (run / f"entity_names_{part}.json").write_text(json.dumps(LABELS["entity"][rows]))
    with h5py.File(run / "model.v7.h5", "w") as file:
        group = file.create_group("model")
        group.create_dataset("entities/user/global_embedding", data=np.zeros(D, np.float32))
        if dynamic:
            group.create_dataset("relations/0/operator/lhs/translations", data=RELATIONS)
            (run / "dynamic_rel_names.json").write_text(json.dumps(LABELS["relation"]))
        else:
            for number, row in enumerate(RELATIONS):
                group.create_dataset(f"relations/{number}/operator/rhs/translation", data=row)


def _write_arrays(run: Path, form: str) -> None:
    description = {"model": "transe", "norm": 1, "squared": False, "unit_norm": 0}
    (run / "vectors.json").write_text(json.dumps(description))
    for (kind, stem), table in zip(STEMS.items(), (NARROW, RELATIONS), strict=True):
        labels = LABELS[kind]
        if form == "npy":
            np.save(run / f"{stem}.npy", table)
            (run / f"{stem}.json").write_text(json.dumps({label: number for number, label in enumerate(labels)}))
        elif form == "safetensors":
            save_file(_tensors({stem: table}), run / f"{stem}.safetensors")
            _write_ids(run / f"{stem}.tsv", kind)
        elif form == "parquet":
            pq.write_table(pa.table({kind: labels, "vector": list(table)}), run / f"{stem}.parquet")
        else:
            rows = [" ".join([label, *map(repr, row.tolist())]) for label, row in zip(labels, table, strict=True)]
            (run / f"{stem}.vec").write_text("\n".join([f"{len(table)} {D}", *rows]) + "\n")
