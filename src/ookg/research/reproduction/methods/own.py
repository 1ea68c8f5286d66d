"""Methods and data sets of one's own, beside those of the paper.

A method is a Python file, or a package that names a module in the entry-point group `ookg.methods`. It has one of two
functions, which docs/own-method.md describes:

    vectors(context)   (newcomers, width) the new entities' vectors, beside vectors that were trained on the data set
    scorer(context)    an `ookg.scoring.scorer.Scorer`: any method at all

A data set is a folder, as `ookg evaluate --dataset` takes one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ookg.errors import InputError, OokgError, one_line
from ookg.research.reproduction.methods.inverse import InverseMethod
from ookg.research.reproduction.methods.method import BOTH_TASKS, Context, Variant

if TYPE_CHECKING:
    from ookg.models.embedding import Embedding
    from ookg.scoring.scorer import Scorer

GROUP = "ookg.methods"
MODELS = ("transe", "rotate")


@dataclass(frozen=True)
class OwnMethod(InverseMethod):
    """A method from outside this package.

    make: `vectors` or `scorer` of its module; gives_vectors: which of the two; file: where it is
    digest: of its file, so that results of another state of it are not taken for its own
    """

    make: Callable[[OwnContext], Any] = field(kw_only=True, hash=False)
    gives_vectors: bool = field(kw_only=True)
    digest: str = field(kw_only=True)
    file: str = field(kw_only=True)

    def train(self, context: Context) -> Any:
        """The vectors of the known entities; a scorer takes them when it first asks for them, if it does."""
        return super().train(context) if self.gives_vectors else None

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Of the vectors; what a scorer does is not known."""
        return super().rough_seconds(dataset, on_gpu) if self.gives_vectors else 0.0

    def variants(self, dataset: str) -> tuple[Variant, ...]:
        """One way to evaluate it."""
        del dataset
        return (Variant(options={"method": self.digest}),)

    def figures(self, context: Context, trained: Any, variant: Variant) -> dict[str, float]:
        """What it comes to."""
        with self._errors_in_one_line():
            return super().figures(context, trained, variant)

    @contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        """An error of the file, or of what it gave, in one line that says where."""
        try:
            yield
        except OokgError:
            raise
        except Exception as error:  # whatever the file does
            frames = traceback.extract_tb(error.__traceback__)
            where = next((frame for frame in reversed(frames) if frame.filename == self.file), frames[-1])
            said = f"{where.filename}, line {where.lineno}: {type(error).__name__}: {error}; mend the method"
            raise InputError(one_line(said)) from error

    def scorer(self, context: Context, trained: Any, variant: Variant) -> Scorer:
        """What the file makes of the data set."""
        from ookg.scoring.scorer import Scorer, TranslationScorer

        del variant
        dataset = context.dataset
        made = self.make(OwnContext(context, self))
        if not self.gives_vectors:
            if not isinstance(made, Scorer):
                problem = f"scorer gave a {type(made).__name__}"
                raise InputError(f"method {self.name}: {problem}; return an ookg.scoring.scorer.Scorer")
            return made
        import torch

        from ookg.newcomers.embedder import find_newcomers
        from ookg.newcomers.reducer import Uniform

        shape = dataset.num_entities - dataset.num_known, trained.entities.shape[1]
        vectors = torch.as_tensor(np.asarray(made) if not torch.is_tensor(made) else made)
        if tuple(vectors.shape) != shape:
            problem = f"vectors gave an array of shape {tuple(vectors.shape)}"
            raise InputError(f"method {self.name}: {problem}; it must be {shape}, a row for each new entity")
        vectors = vectors.to(trained.entities)
        newcomers = find_newcomers(trained, context.graph, dataset.train, dataset.given, Uniform(), None)
        newcomers = newcomers.with_room_for(shape[0])
        rows = torch.isfinite(vectors).all(dim=1).cpu().numpy()
        if not rows[newcomers.representable].all():
            problem = "vectors has NaN or infinity for a new entity with a given triple"
            raise InputError(f"method {self.name}: {problem}; give each of them a vector")
        return TranslationScorer(replace(newcomers, refined=vectors.nan_to_num(0.0)))


@dataclass(frozen=True, eq=False)
class OwnContext:
    """What a method of one's own works with."""

    _context: Context
    _method: InverseMethod

    @cached_property
    def embedding(self) -> Embedding:
        """Vectors of the known entities and of the relations, trained on the data set by the settings of the tables."""
        return InverseMethod.train(self._method, self._context)

    @property
    def dataset(self) -> Any:
        """The data set as ids: train, given (aux), valid, test; new entities have the ids from num_known on."""
        return self._context.dataset

    @property
    def graph(self) -> Any:
        """Counts over the training triples: degrees and co-occurrence of relations."""
        return self._context.graph

    @property
    def seed(self) -> int:
        """The seed of this run."""
        return self._context.seed

    @property
    def device(self) -> Any:
        """Where to compute."""
        return self._context.device


def own_method(name: str) -> OwnMethod | None:
    """The method of a Python file, or of an installed package; None if the name is neither."""
    if name.endswith(".py"):
        return _of_module(_module_of(Path(name)), Path(name).stem)
    for entry in entry_points(group=GROUP):
        if entry.name.lower() == name.lower():
            return _of_module(entry.load(), entry.name)
    return None


def _module_of(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path of the method")
    spec = importlib.util.spec_from_file_location(f"ookg_method_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: no Python file; give one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the file does
        raise InputError(one_line(f"{path}: cannot be imported ({type(error).__name__}: {error}); mend it")) from error
    return module


def _of_module(module: ModuleType, usual_name: str) -> OwnMethod:
    place = getattr(module, "__file__", None) or module.__name__
    functions = {name: getattr(module, name) for name in ("vectors", "scorer") if callable(getattr(module, name, None))}
    if len(functions) != 1:
        raise InputError(f"{place}: {len(functions)} of the functions vectors and scorer; define one of them")
    name, model = getattr(module, "NAME", usual_name), getattr(module, "MODEL", "transe")
    tasks = tuple(getattr(module, "TASKS", BOTH_TASKS))
    if not isinstance(name, str) or not name.strip() or any(character in name for character in "/\\\0"):
        raise InputError(f"{place}: NAME {name!r}; it must be a text without slashes")
    if model not in MODELS:
        raise InputError(f"{place}: MODEL {model!r}; choose {' or '.join(MODELS)}")
    if not tasks or not set(tasks) <= set(BOTH_TASKS):
        raise InputError(f"{place}: TASKS {tasks!r}; choose among {', '.join(BOTH_TASKS)}")
    (kind, make), *_ = functions.items()
    source = Path(place).read_bytes() if Path(place).is_file() else module.__name__.encode()
    digest = hashlib.sha256(source).hexdigest()[:16]
    return OwnMethod(
        name.strip(), model, tasks, make=make, gives_vectors=kind == "vectors", digest=digest, file=str(place)
    )
