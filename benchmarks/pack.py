"""Pack published data sets as compressed id arrays, for a machine that has no reader for them.

python benchmarks/pack.py FOLDER [NAME ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ookg.datasets.dataset import PARTS
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.datasets.published import published_sets


def pack(name: str, folder: Path) -> Path:
    """Known entities come first, then new ones; relations of train first, then the others."""
    dataset = EncodedDataset.of(load_dataset(name))
    arrays = {part: getattr(dataset, part).astype(np.int32) for part in PARTS}
    truths = {"valid_truth": dataset.valid_truth, "test_truth": dataset.test_truth}
    arrays |= {part: truth for part, truth in truths.items() if truth is not None}
    sizes = [dataset.num_known, dataset.num_entities, dataset.num_trained, dataset.num_relations]
    path = folder / f"{name}.npz"
    np.savez_compressed(path, sizes=np.array(sizes), **arrays)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="published data sets, all by default")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or published_sets():
        packed = pack(name, options.folder)
        print(packed, packed.stat().st_size)


if __name__ == "__main__":
    main()
