"""The settings of a training run: one object, two presets from the paper, a TOML file."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ookg.errors import FileError, InputError, unknown_name
from ookg.models import GEOMETRIES, models_with, own_settings

if TYPE_CHECKING:
    import torch

    from ookg.models import Geometry

# What older versions stored with a model, and no setting is now.
RETIRED = frozenset({"placeholder_entities"})
# What stored settings mean that say nothing of these. What means the same is stored without them, as before there was a
# choice, so that what is named by a digest of its settings keeps its name.
UNSTATED: dict[str, Any] = {"optimizer": "adam", "negatives_shared": 0, "held_out": 0}
COMPACT = "compact-adam"  # for a GPU, whose memory is small
OPTIMIZERS = ("auto", "adam", "sparse-adam", COMPACT, "adagrad")
# "auto" is Adam on touched rows where there are more than so many times as many entities as a step touches rows. At
# d 100, batch 1,024 and 64 negatives (67,584 rows) on two busy cores, it took 1.33, 1.00, 0.68 and 0.43 of the time of
# Adam over whole tables with 15,000, 75,000, 150,000 and 1,000,000 entities: below, there is little to gain.
SPARSE_FROM = 2.0
# Steps by the size of the graph (`TrainingSettings.steps_for`): passes over the triples of small and of large graphs.
SMALL_PASSES, PASSES, LARGE_PASSES = 400, 80, 40
FEWEST_STEPS, SMALL_STEPS, USUAL_STEPS, MOST_STEPS = 2_000, 6_000, 20_000, 100_000
# What is held out where nothing is said: so much of the triples, so many at most; below the fewest it says too little.
HELD_OUT_SHARE, MOST_HELD_OUT, FEWEST_HELD_OUT = 0.01, 1_000, 50
VALIDATIONS, PATIENCE = 20, 3  # over all steps, and how many of them without a gain are enough
# Beyond these a number is a mistake, which would otherwise show as a lack of memory or as infinite values.
LARGEST = {
    "dim": 1_000_000,
    "relation_dim": 1_000_000,
    "negatives": 1_000_000,
    "negatives_shared": 1_000_000_000,
    "batch": 1_000_000_000,
    "steps": 1_000_000_000_000,
    "validate_every": 1_000_000_000_000,
    "patience": 1_000_000_000_000,
    "held_out": 1_000_000_000,
    "margin": 1_000_000_000,
    "temperature": 1_000_000_000,
    "l2": 1_000_000,
}
# What a setting may be, by the type of its default; of several shares each.
KINDS: dict[type, type] = {int: Integral, float: Real, tuple: Real, str: str, bool: bool}


@dataclass(frozen=True)
class TrainingSettings:
    """How to train.

    model: a name of `ookg.models.GEOMETRIES`, such as "transe" or "rotate"; norm: the p of its distance
    dim: coordinates of an entity; margin: γ; temperature: α of the self-adversarial weights
    steps: how many; 0: by the size of the graph (`steps_for`), with a share of it held out to stop when it pays
    negatives: false triples per true one, each drawn on its own; batch: true triples per step
    optimizer: "adam" over both whole tables; or "sparse-adam", "compact-adam" or "adagrad", which change only the rows
        that a step touches (`ookg.training.optimizers`); "auto" is one of the first two, by the size of the graph, and
        the third where only that fits on a GPU (`ookg.training.plan`)
    lr: Adam's learning rate; lr_drops: shares of the steps at which it is divided by ten and Adam starts afresh
    l2: factor of ‖E‖² + ‖R‖², added to the loss; over both whole tables, or over the touched rows of them
    subsampling: weigh a triple by 1/sqrt(count(h, r) + count(r, t)), each count starting at 4
    validate_every: steps between validations, 0 for none
    patience: stop after so many validations without a new best and keep the best, 0 to go on to the end
    held_out: so many triples are not trained on, and validated on (`ookg.model.held_out`). Then patience is for a gain
        of half a percent, once the learning rate has dropped for the last time
    relation_dim: coordinates of a relation's space in TransR, 0 for as many as an entity has
    negatives_shared: so many triples of a batch share one set of negatives, of which each leaves out what makes it
        true; 0: each has its own, drawn again where it makes the triple true
    """

    model: str = "transe"
    norm: int = 1
    dim: int = 200
    steps: int = 0
    batch: int = 1024
    negatives: int = 64
    margin: float = 12.0
    temperature: float = 1.0
    lr: float = 1e-3
    lr_drops: tuple[float, ...] = (0.5,)
    l2: float = 0.0
    subsampling: bool = True
    seed: int = 0
    validate_every: int = 0
    patience: int = 0
    relation_dim: int = 0
    optimizer: str = "auto"
    negatives_shared: int = 0
    held_out: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        for name, choices in (("model", list(GEOMETRIES)), ("optimizer", list(OPTIMIZERS))):
            if getattr(self, name) not in choices:
                raise unknown_name(name, str(getattr(self, name)), choices, f"choose {' or '.join(choices)}")
        for name in ("dim", "batch", "negatives"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}; it must be 1 or more")
        for name in ("margin", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be a number above 0")
        for name, most in LARGEST.items():
            if getattr(self, name) > most:
                raise InputError(f"{name} {getattr(self, name)}; it must be at most {most:,}")
        counts = ("steps", "seed", "validate_every", "patience", "relation_dim", "negatives_shared", "held_out")
        for name in ("temperature", "l2", *counts):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be 0 or more")
        if self.seed >= 1 << 63:
            raise InputError(f"seed {self.seed}; it must be below 2^63")
        if self.norm not in (1, 2):
            raise InputError(f"norm {self.norm}; it must be 1 or 2")
        if not all(0 < drop <= 1 for drop in self.lr_drops):
            raise InputError(f"lr_drops {self.lr_drops}; each is a share of the steps between 0 and 1")
        self._check_together()

    def _check_types(self) -> None:
        """Refuse values of another type; numbers of NumPy become plain ones, which JSON knows."""
        for field in fields(self):
            kind: Any = type(field.default)
            value = getattr(self, field.name)
            values = [value] if kind is not tuple else value if isinstance(value, list | tuple) else [None]
            if not all(isinstance(one, KINDS[kind]) and isinstance(one, bool) == (kind is bool) for one in values):
                raise InputError(f"{field.name} {value!r}; it must be of type {kind.__name__}")
            if type(value) is not kind:
                object.__setattr__(self, field.name, tuple(map(float, value)) if kind is tuple else kind(value))

    def _check_together(self) -> None:
        """Refuse settings that do not go with one another."""
        if self.relation_dim and "relation_dim" not in own_settings(self.model):
            owners = " and ".join(models_with("relation_dim"))
            raise InputError(f"relation_dim {self.relation_dim} with {self.model}; only {owners} has one, leave it out")
        if self.patience and not self.validate_every:
            raise InputError("patience without validate_every; say how often to validate")

    @property
    def geometry(self) -> Geometry:
        """The model's equations at these settings."""
        # Only here PyTorch is imported, which reading settings does not need.
        model: Any = GEOMETRIES[self.model]
        geometry: Geometry = model(
            self.dim, self.norm, **{name: getattr(self, name) for name in own_settings(self.model)}
        )
        return geometry

    @property
    def initial_range(self) -> float:
        """Initial values are uniform in ±(γ + 2)/d."""
        return (self.margin + 2.0) / self.dim

    def rate(self, step: int, drop_steps: tuple[int, ...] | None = None) -> float:
        """The learning rate of the step with this number, counted from 0; drop_steps: where it drops, if elsewhere."""
        drops = self.drop_steps if drop_steps is None else drop_steps
        return self.lr * 0.1 ** sum(step >= start for start in drops)

    @property
    def drop_steps(self) -> tuple[int, ...]:
        """The steps at which the learning rate drops."""
        return tuple(sorted(round(share * self.steps) for share in self.lr_drops))

    @property
    def rows_touched(self) -> int:
        """The most rows of the entities that a step reads or changes."""
        sets = -(-self.batch // self.negatives_shared) if self.negatives_shared else self.batch
        return 2 * self.batch + sets * self.negatives

    def resolved(self, num_entities: int) -> Self:
        """These settings with the optimiser that "auto" is for so many entities."""
        if self.optimizer != "auto":
            return self
        is_large = num_entities > SPARSE_FROM * self.rows_touched
        return replace(self, optimizer="sparse-adam" if is_large else "adam")

    def refuse_without_gpu(self, device: torch.device) -> None:
        """Refuse an optimiser for GPUs on another device."""
        if self.optimizer == COMPACT and device.type != "cuda":
            remedy = 'use `optimizer` sparse-adam or adagrad, and `tables="disk"` where memory is short'
            raise InputError(f"optimizer {COMPACT} is for a GPU; {remedy}")

    def on(self, device: torch.device) -> Self:
        """These settings where a model is trained on that was trained elsewhere: an optimiser for GPUs needs one."""
        is_missing = self.optimizer == COMPACT and device.type == "cpu"
        return replace(self, optimizer="sparse-adam") if is_missing else self

    def with_steps(self, num_triples: int) -> Self:
        """These settings with the steps that 0 is for so many triples."""
        return self if self.steps else replace(self, steps=self.steps_for(num_triples))

    def steps_for(self, num_triples: int) -> int:
        """The steps for so many triples, at most: 400 passes over few of them, 80 over more, and 40 over many.

        Of 400 passes 2,000 to 6,000 steps, of 80 up to 20,000, of 40 up to 100,000; whichever is most. A multiple of
        20, so that the last one is validated.
        """
        pass_steps = num_triples / self.batch
        steps = max(
            FEWEST_STEPS,
            min(SMALL_PASSES * pass_steps, SMALL_STEPS),
            min(PASSES * pass_steps, USUAL_STEPS),
            min(LARGE_PASSES * pass_steps, MOST_STEPS),
        )
        return round(steps / VALIDATIONS) * VALIDATIONS

    def validated(self, num_triples: int) -> Self:
        """The same, for 0 steps with a share of the triples held out where nothing else is said."""
        if self.steps:
            return self
        steps = self.steps_for(num_triples)
        values: dict[str, Any] = {"steps": steps}
        if not self.validate_every:
            values |= {"validate_every": steps // VALIDATIONS, "patience": self.patience or PATIENCE}
        held_out = min(int(HELD_OUT_SHARE * num_triples), MOST_HELD_OUT)
        if not self.held_out and held_out >= FEWEST_HELD_OUT:
            values["held_out"] = held_out
        return replace(self, **values)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, for JSON."""
        values = asdict(self) | {"lr_drops": list(self.lr_drops)}
        return {name: value for name, value in values.items() if UNSTATED.get(name) != value or name not in UNSTATED}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Settings from plain values as `to_dict` gives them, each checked for its name and type."""
        stated = {name: value for name, value in values.items() if name not in RETIRED}
        return cls(**cls._checked(UNSTATED | stated))

    def changed(self, values: dict[str, Any]) -> Self:
        """These settings with some values replaced."""
        return replace(self, **self._checked(values))

    @classmethod
    def _checked(cls, values: dict[str, Any]) -> dict[str, Any]:
        known = {field.name: field for field in fields(cls)}
        checked: dict[str, Any] = {}
        for name, value in values.items():
            if name not in known:
                raise unknown_name("setting", name, list(known), f"the settings are {', '.join(known)}")
            kind: Any = type(known[name].default)
            if kind is tuple:
                fits = isinstance(value, list | tuple) and all(isinstance(share, int | float) for share in value)
            elif kind is float:
                fits = isinstance(value, int | float) and not isinstance(value, bool)
            else:
                fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not fits:
                raise InputError(f"setting {name} is {value!r}; it must be of type {kind.__name__}")
            try:
                checked[name] = kind(value)
            except OverflowError:
                raise InputError(f"setting {name} is {value}; it must be a number that a float can hold") from None
        return checked


# The paper's two settings (its appendix), completed from what the authors' code does.
PRESETS = {
    "fb15k": TrainingSettings(
        dim=1000,
        margin=24.0,
        negatives=256,
        steps=100_000,
        lr_drops=(0.1, 0.3, 0.9),
        subsampling=True,
        optimizer="adam",
    ),
    "wn11": TrainingSettings(
        dim=300,
        margin=0.5,
        negatives=128,
        steps=20_000,
        lr_drops=(0.5,),
        l2=1e-5,
        subsampling=False,
        optimizer="adam",
    ),
}


def preset(name: str) -> TrainingSettings:
    """The settings of that name."""
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown_name("preset", str(name), list(PRESETS), f"choose {' or '.join(PRESETS)}")
    return PRESETS[name]


def settings_text(settings: TrainingSettings) -> str:
    """Settings as the TOML file that `read_settings` reads: those that are not the default."""
    defaults = TrainingSettings()
    lines = []
    for field in fields(TrainingSettings):
        value = getattr(settings, field.name)
        if value != getattr(defaults, field.name):
            written = list(value) if isinstance(value, tuple) else value
            lines.append(f"{field.name} = {json.dumps(written)}\n")  # what JSON and TOML write alike
    return "".join(lines)


def read_settings(path: str | Path, base: TrainingSettings | None = None) -> TrainingSettings:
    """Settings from a TOML file of `name = value` lines; `preset = "wn11"` there starts from a preset."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(path, "no such file", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(path, f"cannot be read ({error})", "check the path and its permissions") from error
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise FileError(path, f"not TOML: {error}", 'write lines such as `dim = 200` and `model = "rotate"`') from error
    named = values.pop("preset", None)
    if named is not None and base is not None:
        raise InputError(f"{path}: names the preset {named!r} beside the one that is given; choose one of them")
    settings = preset(named) if named is not None else base or TrainingSettings()
    try:
        return settings.changed(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
