"""Pack data sets as compressed id arrays, for a machine that has no reader for them.

python benchmarks/pack.py FOLDER [NAME ...]

`ookg reproduce --data FOLDER` reads them there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.few_shot import find_few_shot, load_few_shot
from ookg.datasets.folder import load_dataset
from ookg.datasets.growing import find_growing, load_growing
from ookg.datasets.packed import pack
from ookg.datasets.published import published_sets
from ookg.datasets.shots import EncodedFewShot
from ookg.datasets.snapshots import EncodedGrowth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    names = "data sets, growing and few-shot ones too (all published ones)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    options = parser.parse_args()
    for name in options.names or published_sets():
        packed = pack(encoded(name), options.folder)
        print(packed, packed.stat().st_size)


def encoded(name: str) -> EncodedDataset | EncodedGrowth | EncodedFewShot:
    """A data set of any kind."""
    if find_growing(name) is not None:
        return load_growing(name).encoded
    if find_few_shot(name) is not None:
        return load_few_shot(name).encoded
    return EncodedDataset.of(load_dataset(name))


if __name__ == "__main__":
    main()
