"""The settings of the baselines: one object, and what was published for each method and task."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from ookg.datasets.encoded import Task
from ookg.errors import InputError, unknown_name

BASELINES: tuple[str, ...] = ("GNN-LSTM", "GNN-MEAN", "LAN", "ConvLayer", "FCLEntity")

Objective = Literal["ranking", "absolute"]
Transition = Literal["projection", "linear", "convolution", "dense"]
Distance = Literal["l1", "l1-normalized", "squared"]
FalseEntities = Literal["any", "relation"]
Sides = Literal["even", "bernoulli"]
OwnRelation = Literal["certain", "mean"]
Padding = Literal["left out", "learned"]
LstmStart = Literal["random", "sum"]
Discounts = Literal["all", "kept"]

# What the settings that are one of a few words can be.
CHOICES: dict[str, Any] = {
    "task": Task,
    "objective": Objective,
    "distance": Distance,
    "false_entities": FalseEntities,
    "sides": Sides,
    "own_relation": OwnRelation,
    "padding": Padding,
    "lstm_start": LstmStart,
    "discounts": Discounts,
}

PADDED = ("GNN-LSTM", "GNN-MEAN")  # the methods that can learn padding

# Which transitions each method is defined with.
TRANSITIONS: dict[str, tuple[Transition, ...]] = {
    "GNN-LSTM": ("projection", "linear"),
    "GNN-MEAN": ("projection", "linear"),
    "LAN": ("projection",),
    "ConvLayer": ("convolution",),
    "FCLEntity": ("dense",),
}


@dataclass(frozen=True)
class BaselineSettings:
    """How to train a baseline.

    method: one of BASELINES; it names the aggregator. task: what is trained for and validated by
    transition: what becomes of a neighbour before the aggregation; "projection" and "linear" are open to the GNNs
    dim: coordinates of an entity; max_neighbors: K, the first so many neighbours of an entity count
    padding: where an entity has fewer neighbours than others: "left out", or "learned": a vector that is aggregated
        like a neighbour's transition, as often as neighbours are missing
    distance: D of a triple: "l1" is ‖h + r - t‖₁, "l1-normalized" the same with h, r, t scaled to length 1,
        "squared" is ‖h + tanh(r) - t‖₂²
    objective: "ranking" is max(0, γ + D - D'), "absolute" is D + max(0, γ - D'), D' the distance of a false triple
    margin: γ; raw_term: add the same objective on the entities' own input vectors
    hide_target: training on (h, r, t), leave neighbour (r, t) out of h, and (r⁻¹, h) out of t, as in testing
    false_entities: what a false entity is drawn from: "any" known one, or those that train has at that end of the
        "relation"
    sides: which end it replaces where either may be: "even" odds, or "bernoulli", the head with probability
        heads(t) / (tails(h) + heads(t)), the distinct heads of t and tails of h in train over all relations
    own_relation: P(a implies a) in LAN's logic weights: "certain", which is 1, or the "mean" over all directed
        relations b of P(a implies b), a itself counted as 0
    discounts: whose relations count in the denominators of LAN's logic weights: those of "all" neighbours of an entity,
        as in its code, or of the "kept" ones, the first K
    lstm_start: what an LSTM is before training: "random", or a fading "sum" of what it has read
    lr: Adam's; weight_decay: λ, λ/2 · ‖x‖² of the parameters x of transition and aggregator, but an LSTM's, is added to
        the objective
    batch: true triples a step; epochs: at most so many passes over train
    validate_every: epochs between validations, 0 for none
    patience: stop after so many validations without a new best, 0 to go on to the end; the best state is kept
    """

    method: str
    task: Task
    transition: Transition = "projection"
    dim: int = 100
    max_neighbors: int = 64
    padding: Padding = "left out"
    distance: Distance = "l1-normalized"
    objective: Objective = "ranking"
    margin: float = 1.0
    raw_term: bool = True
    hide_target: bool = True
    false_entities: FalseEntities = "any"
    sides: Sides = "even"
    own_relation: OwnRelation = "mean"
    discounts: Discounts = "kept"
    lstm_start: LstmStart = "random"
    lr: float = 1e-3
    weight_decay: float = 0.0
    batch: int = 1024
    epochs: int = 1000
    validate_every: int = 20
    patience: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        _check_method(self.method)
        allowed = TRANSITIONS[self.method]
        if self.transition not in allowed:
            raise InputError(f"transition {self.transition!r} of {self.method}; choose {' or '.join(allowed)}")
        for name, kind in CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                raise InputError(f"{name} {getattr(self, name)!r}; choose {' or '.join(get_args(kind))}")
        for name in ("dim", "max_neighbors", "batch", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}; it must be 1 or more")
        for name in ("margin", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be a number above 0")
        for name in ("weight_decay", "validate_every", "patience", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be 0 or more")
        if self.seed >= 1 << 63:
            raise InputError(f"seed {self.seed}; it must be below 2^63")
        if self.padding == "learned" and self.method not in PADDED:
            raise InputError(f"padding 'learned' of {self.method}; it is there for {' and '.join(PADDED)} alone")
        if self.patience and not self.validate_every:
            raise InputError("patience without validate_every; say how often to validate, or set patience to 0")

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, for JSON."""
        return asdict(self)

    def changed(self, values: dict[str, Any]) -> BaselineSettings:
        """These settings with some values replaced, each checked for its name and type."""
        known = [field.name for field in fields(self)]
        checked: dict[str, Any] = {}
        for name, value in values.items():
            if name not in known:
                raise unknown_name("setting", name, known, f"the settings are {', '.join(known)}")
            checked[name] = _typed(name, value, type(getattr(self, name)))
        return replace(self, **checked)


def published_settings(method: str, task: Task) -> BaselineSettings:
    """The settings of a method for a task: what is published, completed as `docs/baselines.md` says."""
    _check_method(method)
    if task not in get_args(Task):
        raise InputError(f"task {task!r}; choose {' or '.join(get_args(Task))}")
    transition = TRANSITIONS[method][0]
    if task == "link-prediction":
        return BaselineSettings(method, task, transition, discounts="all" if method == "LAN" else "kept")
    if method == "GNN-MEAN":  # its own code; all others are in LAN's frame
        return BaselineSettings(
            method,
            task,
            transition="linear",
            dim=200,
            distance="squared",
            objective="absolute",
            margin=300.0,
            raw_term=False,
            false_entities="relation",
            sides="bernoulli",
            epochs=100,
        )
    # Where claims are classified few entities have more than K neighbours: 0.4 % of WN11's.
    return BaselineSettings(method, task, transition, margin=300.0, weight_decay=1e-3, epochs=500)


def _check_method(method: str) -> None:
    if method not in BASELINES:
        raise unknown_name("baseline", str(method), list(BASELINES), f"choose {' or '.join(BASELINES)}")


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if not fits:
        raise InputError(f"setting {name} is {value!r}; it must be of type {kind.__name__}")
    return kind(value)
