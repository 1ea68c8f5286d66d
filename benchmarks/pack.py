"""Pack published data sets as compressed id arrays, for a machine that has no reader for them.

python benchmarks/pack.py FOLDER [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ookg.datasets import load_dataset, published_sets


def pack(name: str, folder: Path) -> Path:
    """Known entities come first, then new ones; relations of train first, then the others."""
    dataset = load_dataset(name)
    entities = dataset.known_entities.extended(dataset.new_entities.labels)
    relations = dataset.relations
    parts = {part: getattr(dataset, part) for part in ("train", "valid", "aux", "test")}
    for triples in parts.values():
        relations = relations.extended(triples.relations.labels)
    arrays = {part: triples.encoded(entities, relations).astype(np.int32) for part, triples in parts.items()}
    for part, triples in parts.items():
        if triples.truth is not None:
            arrays[f"{part}_truth"] = triples.truth
    sizes = [len(dataset.known_entities), len(entities), len(dataset.relations), len(relations)]
    path = folder / f"{name}.npz"
    np.savez_compressed(path, sizes=np.array(sizes), **arrays)
    return path


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for wanted in sys.argv[2:] or published_sets():
        packed = pack(wanted, target)
        print(packed, packed.stat().st_size)
