"""Model directories as version 1 of the format had them, to see that they still load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ookg.storage.checkpoint import MODEL_FILE, _content_digest, load_checkpoint
from ookg.storage.data import FILES
from ookg.system.files import digest


def as_version_1(directory: Path) -> None:
    """Write the model in a directory as version 1 wrote it, in the same data folder."""
    checkpoint = load_checkpoint(directory)
    path = directory / MODEL_FILE
    description = json.loads(path.read_text())
    data = directory / description["data"]
    tables: dict[str, dict[str, Any]] = {
        "entities.parquet": {"entity": checkpoint.entities.labels},
        "relations.parquet": {"relation": checkpoint.relations.labels},
    }
    statistics, triples = checkpoint.statistics, checkpoint.triples
    if statistics is not None:
        pairs = statistics.cooccurrence.tocoo()
        tables["entities.parquet"]["degree"] = statistics.degree
        tables["relations.parquet"]["entities"] = statistics.cooccurrence.diagonal()
        tables["cooccurrence.parquet"] = {"relation": pairs.coords[0], "other": pairs.coords[1], "entities": pairs.data}
        tables["triples.parquet"] = dict(zip(("head", "relation", "tail"), triples.T, strict=True))
    made = {name: pa.table(columns) for name, columns in tables.items()}
    for name in FILES[1:]:
        (data / name).unlink(missing_ok=True)
    for name, table in made.items():
        pq.write_table(table, data / name)
    files = sorted(data.iterdir())
    description |= {
        "version": 1,
        "bytes": {file.name: file.stat().st_size for file in files},
        "digests": {file.name: digest(file) for file in files},
    }
    path.write_text(json.dumps(description | {"digest": _content_digest(description)}, indent=2))
