"""Small growing data sets for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIZES = (12, 18, 24)  # entities known by each snapshot


def snapshot_rows(seed: int = 0) -> list[dict[str, list[str]]]:
    """Three snapshots of 12, 18 and 24 entities, the last with a relation more; all of them are in train."""
    rng = np.random.default_rng(seed)
    seen: dict[str, None] = {}
    snapshots, known = [], 0
    for number, size in enumerate(SIZES):
        relations = 4 if number == 2 else 3
        rows = [f"e{entity}\tr{entity % relations}\te{(entity * 5 + 1) % size}" for entity in range(known, size)]
        rows.append(f"e0\tr{relations - 1}\te{size - 1}")
        ends = rng.integers(0, size, (60, 2)).tolist()
        rows += [f"e{head}\tr{(head + tail) % relations}\te{tail}" for head, tail in ends]
        fresh = [row for row in dict.fromkeys(rows) if row not in seen]
        seen |= dict.fromkeys(fresh)
        snapshots.append({"train": fresh[:-16], "valid": fresh[-16:-8], "test": fresh[-8:]})
        known = size
    return snapshots


def write_growing_set(folder: Path, seed: int = 0) -> Path:
    """The same as a folder."""
    for number, parts in enumerate(snapshot_rows(seed)):
        (folder / str(number)).mkdir(parents=True)
        for part, lines in parts.items():
            (folder / str(number) / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder
