"""Run methods again and hold their figures against the stored results: the same, to the last stored digit.

    python benchmarks/stored_results.py --data packed [--dataset FB15k-Head-10] [--method InvTransE Combined] [--seed 0]

Data sets are packed ones (`benchmarks/pack.py`), so that a machine without readers will do. Figures depend on the GPU
and the versions that the stored results name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.packed import find_packed, read_packed
from ookg.research.reproduction.cache import ModelCache
from ookg.research.reproduction.methods import METHODS, Context
from ookg.research.reproduction.results import read_json


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of packed data sets")
    parser.add_argument("--results", type=Path, default=Path(__file__).resolve().parent.parent / "results")
    parser.add_argument("--dataset", default="FB15k-Head-10")
    parser.add_argument("--method", nargs="+", default=["InvTransE", "Combined"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    packed = find_packed(options.dataset, options.data)
    if packed is None:
        parser.error(f"no {options.dataset}.npz in {options.data}; make it with benchmarks/pack.py")
    dataset = read_packed(packed)
    assert isinstance(dataset, EncodedDataset)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    differing = 0
    with tempfile.TemporaryDirectory() as models:
        for name in options.method:
            stored = read_json(options.results / options.dataset / name / f"seed-{options.seed}.json")
            begun = time.perf_counter()
            method, context = METHODS[name], Context(dataset, options.seed, device, ModelCache(models))
            plain = next(variant for variant in method.variants(options.dataset) if not variant.name)
            figures = method.figures(context, method.train(context), plain)
            seconds = time.perf_counter() - begun
            for measure, value in stored["figures"].items():
                same = round(figures[measure], 6) == value
                differing += not same
                print(f"{name:12} {measure:10} {value:>12} {'equal' if same else figures[measure]} ({seconds:.0f} s)")
    print("all equal" if not differing else f"{differing} differ")
    return 0 if not differing else 1


if __name__ == "__main__":
    sys.exit(main())
