"""Round trips through the real tools: train there, import, embed, export, load there. `make roundtrip` runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ookg.interchange.foreign import ForeignModel
from ookg.model.model import Model
from ookg.newcomers.reducer import Uniform

Rows = list[tuple[str, str, str]]
Ids = np.ndarray[Any, np.dtype[np.int64]]

ENTITIES, RELATIONS = 25, 4
NEW = [("newcomer", "r1", "e2"), ("e3", "r0", "newcomer"), ("newcomer", "r2", "e5")]


def random_ids(seed: int, size: int) -> Ids:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, rows, size) for rows in (ENTITIES, RELATIONS, ENTITIES)], axis=1)


GRAPH: Rows = sorted({(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random_ids(0, 300).tolist()})
SAMPLE = random_ids(1, 200)


def graph_file(folder: Path) -> Path:
    path = folder / "graph.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in GRAPH))
    return path


def same_scores(foreign: ForeignModel, model: Model, sample: Ids, theirs: Any) -> None:
    """Theirs, the importer's own and our model's scores are the same, to 1e-5 of each."""
    np.testing.assert_allclose(foreign.scores(sample), theirs, rtol=1e-5)
    np.testing.assert_allclose(model.given([], Uniform()).newcomers.scores(sample), theirs, rtol=1e-5)
