"""The formats of other tools that can be read, by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ookg.errors import FileError, OokgError, unknown_name
from ookg.interchange.foreign import ForeignModel, ImportOptions

# A format's module is imported only when it is the one to read: each has `read(source, options) -> ForeignModel`.
FORMATS = {
    "kge": "ookg.interchange.knowledge_graph_embedding",
    "pykeen": "ookg.interchange.pykeen",
    "dgl-ke": "ookg.interchange.dgl_ke",
    "libkge": "ookg.interchange.libkge",
    "pyg": "ookg.interchange.pyg",
    "torchkge": "ookg.interchange.torchkge",
    "openke": "ookg.interchange.openke",
    "biggraph": "ookg.interchange.pytorch_biggraph",
    "arrays": "ookg.interchange.arrays",
}


def read_foreign(name: str, source: str | Path, options: ImportOptions | None = None) -> ForeignModel:
    """Read the model of another tool; `to_model()` of the result checks it and makes it ours."""
    if name not in FORMATS:
        raise unknown_name("format", name, list(FORMATS), f"the formats are {', '.join(FORMATS)}")
    source = Path(source)
    try:
        model: ForeignModel = import_module(FORMATS[name]).read(source, options or ImportOptions())
    except OokgError:
        raise
    except (OSError, MemoryError) as error:
        raise FileError(source, f"cannot be read ({error})", "check the path and its permissions") from error
    return model
