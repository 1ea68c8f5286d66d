"""Pack data sets as compressed id arrays, for a machine that has no reader for them.

python benchmarks/pack.py FOLDER [NAME ...]

`ookg reproduce --data FOLDER` reads them there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.datasets.growing import find_growing, load_growing
from ookg.datasets.packed import pack
from ookg.datasets.published import published_sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets, growing ones too (all published ones)")
    options = parser.parse_args()
    for name in options.names or published_sets():
        is_growing = find_growing(name) is not None
        packed = pack(
            load_growing(name).encoded if is_growing else EncodedDataset.of(load_dataset(name)), options.folder
        )
        print(packed, packed.stat().st_size)


if __name__ == "__main__":
    main()
