"""Optional libraries: which an extra of the package brings, and what is said where one is missing."""

from __future__ import annotations

from ookg.errors import InputError

# As `project.optional-dependencies` of pyproject.toml has them. They are named themselves: they are on every index.
EXTRAS = {
    "biggraph": ("h5py",),
    "faiss": ("faiss-cpu",),
    "plots": ("matplotlib",),
    "postgres": ("psycopg[binary]",),
    "rdf": ("pyoxigraph",),
    "serve": ("fastapi", "httptools", "uvicorn"),
    "spark": ("pyspark", "pandas"),
}


def missing(what: str, library: str, extra: str) -> InputError:
    """The error where something needs a library that is not installed: what does, which, and how to get it."""
    packages = " ".join(f"'{package}'" if "[" in package else package for package in EXTRAS[extra])
    return InputError(f"{what} needs {library}; install it with `pip install {packages}` (the extra {extra!r} of ookg)")
