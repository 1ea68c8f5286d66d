"""A judge of claims about new entities: how it learns, and its plain values, which are stored with the model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.claims import USE_FEATURES, ClaimEvidence, ClaimJudge
from ookg.scoring.thresholds import Worth, crossed
from ookg.simulation.hidden_claims import ENDS, hidden_claims
from ookg.simulation.hiding import NewEnd
from ookg.system.display import counted
from ookg.types import FloatArray, IntArray

if TYPE_CHECKING:
    from ookg.graph.vocabulary import Vocabulary

AGAIN = "fit the judge again"
# Of how judges and thresholds are fitted. What is stored without one is of version 1.
FITTED_VERSION = 2
FEWEST_CLAIMS = 20  # that a judge learned from, to say what it is worth
# What may be stored in a model's description, which is read whenever the model is opened.
MOST_FEATURES, MOST_NUMBERS = 64, 1 << 17


@dataclass(frozen=True)
class JudgeSettings:
    """How the judge learns.

    share: of the labelled claims, those whose entities are made new again; seed: of that choice
    retrain: train without these entities; False: take the model's own vectors, which have seen them: that takes
        seconds, and teaches a little too kind a lesson
    steps: training steps without these entities, None for as many as the model had
    new: the end of those claims that is made new; None: the one that is new in the claims to judge, or both
    """

    share: float = 0.5
    seed: int = 0
    steps: int | None = None
    progress: bool = False
    new: NewEnd | None = None
    retrain: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share {self.share}; it must be above 0 and at most 1")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")
        if self.new is not None and self.new not in ENDS:
            raise InputError(f"new {self.new!r}; choose {', '.join(ENDS)}")


def learn_judges(
    dataset: EncodedDataset, gather: Callable[[EncodedDataset], ClaimEvidence], settings: JudgeSettings
) -> tuple[ClaimJudge, ClaimJudge]:
    """The judge that the valid claims of a data set teach, their entities being hidden; and one by the graph alone.

    The second is for claims about entities that have no vector, because nothing known is tied to them.
    gather: the evidence of a data set; for the simulated one it trains vectors without the hidden entities
    """
    sample, _ = hidden_claims(dataset, settings.seed, settings.share, settings.new)
    assert sample.test_truth is not None  # `hide_claims` labels its claims
    ClaimJudge.check(sample.test_truth)  # before the training, not after it
    evidence, relations = gather(sample), sample.test[:, 1]
    judge, by_graph = (
        ClaimJudge.fit(features, relations, sample.test_truth, sample.num_trained)
        for features in (evidence.features(sample.test), evidence.graph_features(sample.test))
    )
    return judge, by_graph


def learn_checked_judge(
    dataset: EncodedDataset, gather: Callable[[EncodedDataset, IntArray], ClaimEvidence], settings: JudgeSettings
) -> tuple[ClaimJudge, Worth | None]:
    """The judge, and what it is worth: each half of its claims is judged by one that learned from the other.

    gather: is also given the ids that the known entities of the simulated data set have in the given one
    No worth where there are too few claims for that.
    """
    sample, entities = hidden_claims(dataset, settings.seed, settings.share, settings.new)
    assert sample.test_truth is not None  # `hide_claims` labels its claims
    ClaimJudge.check(sample.test_truth)  # before the training, not after it
    features, relations, truth = (
        gather(sample, entities[: sample.num_known]).features(sample.test),
        sample.test[:, 1],
        sample.test_truth,
    )
    judge = ClaimJudge.fit(features, relations, truth, sample.num_trained)
    usable = np.flatnonzero(np.isfinite(features).all(axis=1))
    features, relations, truth = features[usable], relations[usable], truth[usable]

    def judged(rows: IntArray, others: IntArray) -> FloatArray:
        half = ClaimJudge.fit(features[rows], relations[rows], truth[rows], sample.num_trained)
        return half.log_odds(features[others], relations[others])

    margins = crossed(truth, judged) if len(truth) >= FEWEST_CLAIMS else None
    return judge, None if margins is None else Worth.of(margins, truth)


@dataclass(frozen=True, repr=False)
class FittedJudge:
    """A judge in plain values, for the model that it learned with.

    features: the names of what it looks at; centre, scale: of each; shared: the weights of all relations, the
        constant first; own: what a relation's own weights add, by its label
    new: the end that was new in the claims it learned from; vectors: the digest of the model's relation vectors
    learned: how it was fitted, for people to read
    worth: what its verdicts are worth; None for a judge of an older version, or one that learned from few claims
    version: of how it was fitted
    """

    features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    shared: tuple[float, ...]
    own: dict[str, tuple[float, ...]]
    new: NewEnd
    vectors: str
    learned: dict[str, Any] = field(default_factory=dict, compare=False)
    worth: Worth | None = None
    version: int = FITTED_VERSION

    def __post_init__(self) -> None:
        size = len(self.features)
        rows = {"centre": (self.centre, size), "scale": (self.scale, size), "shared": (self.shared, size + 1)}
        rows |= {f"own weights of {label!r}": (row, size + 1) for label, row in self.own.items()}
        if not 0 < size <= MOST_FEATURES:
            raise InputError(f"a judge of {size} features, and there are 1 to {MOST_FEATURES}; {AGAIN}")
        if len(self.own) * (size + 1) > MOST_NUMBERS:
            problem = f"a judge with own weights for {len(self.own):,} relations is too large to be stored"
            raise InputError(f"{problem}; give labelled claims of {MOST_NUMBERS // (size + 1):,} relations at most")
        for name, (row, length) in rows.items():
            if len(row) != length or not all(math.isfinite(value) for value in row):
                raise InputError(f"{name} of a judge must be {length} finite numbers; {AGAIN}")
        if not min(self.scale) > 0:
            raise InputError(f"scale of a judge has {min(self.scale)}, and it must be above 0; {AGAIN}")
        if self.new not in ENDS:
            raise InputError(f"new end of a judge is {self.new!r} and not {', '.join(ENDS)}; {AGAIN}")

    @property
    def learned_from_labels(self) -> bool:
        """Whether there were labelled claims, and not only false triples made from those of training."""
        return self.learned.get("claims") != 0

    def serves(self, *, labelled: bool) -> bool:
        """Whether it is taken as it is, or gives way to one that learns now. labelled: from claims with labels

        Of an older version, one that had labelled claims or a training of its own stays until labelled claims come:
        what can be made of the model alone would be worth less.
        """
        if labelled and not self.learned_from_labels:
            return False
        if self.version >= FITTED_VERSION:
            return True
        return not labelled and (self.learned_from_labels or bool(self.learned.get("retrained", True)))

    def __repr__(self) -> str:
        claims = counted(self.learned["claims"], "claim") if "claims" in self.learned else "claims"
        relations = counted(len(self.own), "relation")
        return f"<ookg judge: learned from {claims} with new {self.new} ends, own weights for {relations}>"

    @classmethod
    def of(
        cls,
        judge: ClaimJudge,
        relations: Vocabulary,
        *,
        features: tuple[str, ...],
        new: NewEnd,
        vectors: str,
        learned: dict[str, Any],
        worth: Worth | None = None,
    ) -> FittedJudge:
        """A judge that has learned; a relation that no claim was about has no weights of its own."""
        weighed = np.flatnonzero(judge.own.any(axis=1))
        own = dict(zip(relations.select(weighed), map(_numbers, judge.own[weighed]), strict=True))
        rows = _numbers(judge.centre), _numbers(judge.scale), _numbers(judge.shared)
        return cls(features, *rows, own, new, vectors, learned, worth)

    def for_model(self, relations: Vocabulary, vectors: Tensor, features: tuple[str, ...]) -> ClaimJudge:
        """The judge by the ids of a model's relations; refused if it learned with another one, or on other evidence.

        One of an older version did not look at how a relation uses the ends, which are the last features.
        """
        if self.features not in (features, features[: -len(USE_FEATURES)]):
            problem = f"the judge weighs {len(self.features)} features and the evidence has {len(features)} others"
            raise InputError(f"{problem}; {AGAIN}")
        ids = relations.ids(list(self.own)) if self.own else np.empty(0, dtype=np.int64)
        if self.vectors != vectors_digest(vectors) or (ids < 0).any():
            raise InputError(f"the judge learned with another model than this one; {AGAIN} with this one")
        own = np.zeros((len(relations), len(self.shared)))
        if len(ids):
            own[ids] = list(self.own.values())
        return ClaimJudge(np.array(self.centre), np.array(self.scale), np.array(self.shared), own)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "features": list(self.features),
            "centre": list(self.centre),
            "scale": list(self.scale),
            "shared": list(self.shared),
            "own": {label: list(row) for label, row in self.own.items()},
            "new": self.new,
            "vectors": self.vectors,
            "learned": self.learned,
            "version": self.version,
        } | ({} if self.worth is None else {"worth": vars(self.worth)})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FittedJudge:
        """From plain values, each checked."""
        names, own, learned = values.get("features"), values.get("own"), values.get("learned", {})
        vectors = values.get("vectors")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"features of a judge are {names!r} instead of names; {AGAIN}")
        if not isinstance(own, dict) or not isinstance(learned, dict) or not isinstance(vectors, str):
            raise InputError(f"own weights, vectors or how it learned are missing in a judge; {AGAIN}")
        centre, scale, shared = (_row(name, values.get(name)) for name in ("centre", "scale", "shared"))
        weights = {label: _row(f"own weights of {label!r}", row) for label, row in own.items()}
        new: Any = values.get("new")
        if not isinstance(new, str):
            raise InputError(f"new end of a judge is {new!r} and not {', '.join(ENDS)}; {AGAIN}")
        worth, version = stored_worth(values.get("worth")), stored_version(values)
        rows = (centre, scale, shared)
        return cls(tuple(names), *rows, weights, new, vectors, learned, worth, version)  # type: ignore[arg-type]


def judge_in_words(judge: FittedJudge) -> str:
    """What a judge learned from."""
    claims, made, source = (judge.learned.get(name) for name in ("claims", "made", "source"))
    parts = []
    if isinstance(claims, int) and claims:
        # Older models have the folder of the file, and a server says this to everyone. What is given in Python has no
        # name of its own.
        where = f" of {Path(source).name}" if isinstance(source, str) and source != "triples" else ""
        parts.append(counted(claims, "labelled claim") + where)
    if isinstance(made, int) and made:
        parts.append(f"{made // 2:,} training triples and as many false ones made from them")
    text = f"the judge learned from {', '.join(parts)}" if parts else "the judge is the one stored with the model"
    if judge.version >= FITTED_VERSION:
        return text
    return f"{text}, with an older version of ookg; `ookg classify --judge --save` lets one learn anew"


def vectors_digest(vectors: Tensor) -> str:
    """The SHA-256 of a table of vectors: a judge fits those that it learned with."""
    return hashlib.sha256(vectors.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def _numbers(row: FloatArray) -> tuple[float, ...]:
    return tuple(row.tolist())


def stored_version(values: dict[str, Any]) -> int:
    """The version of how a judge, or thresholds, were fitted; 1 where none is written."""
    version = values.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"version of a judge or of thresholds is {version!r:.60} instead of a number; {AGAIN}")
    return version


def stored_worth(values: Any) -> Worth | None:
    """What verdicts are worth, from plain values; None where nothing is stored."""
    if values is None:
        return None
    numbers = [values.get(name) for name in ("accuracy", "slope", "claims")] if isinstance(values, dict) else []
    accuracy, slope, claims = _row("worth", numbers or None)
    if not (0 <= accuracy <= 1 and 0 <= slope < math.inf and claims >= 0):
        raise InputError(f"worth of a judge is {values!r:.60}, and that is impossible; {AGAIN}")
    return Worth(accuracy, slope, int(claims))


def _row(name: str, values: Any) -> tuple[float, ...]:
    is_fit = isinstance(values, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not is_fit:
        raise InputError(f"{name} of a judge is {values!r:.60} instead of numbers; {AGAIN}")
    return tuple(float(value) for value in values)
