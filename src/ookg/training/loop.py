"""The loop around the trainer: progress, validation, early stopping, and a state on disk to resume from."""

from __future__ import annotations

import json
import operator
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ookg.errors import InputError, ModelFileError, OokgError, TrainingInterrupted
from ookg.system.files import atomic_write, save_tensors
from ookg.system.progress import Reporter, tell
from ookg.training.settings import UNSTATED
from ookg.training.trainer import RATE_OVERFLOW, Trainer

SAVE_SECONDS = 60.0
# Saving may take this share of the time: large tables are saved less often.
SAVE_SHARE = 0.05

# So many numbers at a time are looked at for NaN, which takes a byte for each.
CHECKED_NUMBERS = 1 << 24

# How often a run with a time limit waits for the device, which would otherwise be behind the clock.
WAIT_STEPS = 32

# A gain of a validation that counts, as a share of what was there, where triples are held out.
LEAST_GAIN = 0.005

# How reading a damaged state fails.
DAMAGES = (SafetensorError, KeyError, TypeError, ValueError, OverflowError, RecursionError)

Validate = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class TrainedTables:
    """What a run ends with: the vectors, the step they are from, and the validations (step, figure) on the way."""

    entity_vectors: Tensor
    relation_vectors: Tensor
    step: int
    validations: list[tuple[int, float]]


@dataclass
class TrainingRun:
    """One run of a trainer to its last step.

    state_path: where its state is kept for resuming, or None
    validate: a figure for (entity vectors, relation vectors), the higher the better
    fingerprint: what the state must match to be resumed: a digest of data and settings
    most_seconds: stop after so much time, the learning rate's drops brought forward to fit into it; None for no limit
    how_to_resume: what an interrupted user reads
    """

    trainer: Trainer
    state_path: Path | None = None
    validate: Validate | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    validations: list[tuple[int, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    earlier_seconds: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    is_warned: bool = False  # that its state could not be written
    most_seconds: float | None = None
    how_to_resume: str = "the same training with `resume=True` continues it"

    def run(self, report: Reporter | None = None) -> TrainedTables:
        """Train until the last step or the early stop, from wherever the trainer stands."""
        trainer, settings = self.trainer, self.trainer.settings
        saved_at, save_took = time.monotonic(), 0.0
        self.begun = saved_at
        with _stop_requests(self.state_path is not None) as stop_requested:
            while trainer.step_number < settings.steps and not self._is_enough() and not self._time_is_over():
                loss = self._step()
                if self.most_seconds is not None:
                    self._keep_to_time(loss, self.most_seconds)
                if report is not None:
                    report(trainer.step_number, lambda loss=loss: self._figures(loss))  # type: ignore[misc]
                if self.validate and settings.validate_every and trainer.step_number % settings.validate_every == 0:
                    self._validate(self.validate)
                now = time.monotonic()
                if self.state_path and now - saved_at >= max(SAVE_SECONDS, save_took / SAVE_SHARE):
                    self._save_on_the_way()
                    saved_at, save_took = time.monotonic(), time.monotonic() - now
                if stop_requested() and self.state_path and trainer.step_number < settings.steps:
                    self.save()
                    done = f"stopped after step {trainer.step_number:,} of {settings.steps:,}"
                    raise TrainingInterrupted(f"{done}; {self.how_to_resume}")
        self._refuse_divergence()
        if settings.patience and self.best:
            best_step = max(self.validations, key=lambda validation: validation[1])[0]
            return TrainedTables(self.best["entities"], self.best["relations"], best_step, self.validations)
        return TrainedTables(trainer.entity_vectors, trainer.relation_vectors, trainer.step_number, self.validations)

    def _time_is_over(self) -> bool:
        return self.most_seconds is not None and self.seconds >= self.most_seconds

    def _keep_to_time(self, loss: Tensor, most_seconds: float) -> None:
        """Bring the drops of the learning rate forward where the time is further on than the steps."""
        if self.trainer.step_number % WAIT_STEPS == 0:
            loss.item()
        if most_seconds > 0:
            self.trainer.schedule.hurry(self.trainer.step_number, self.seconds / most_seconds)

    def _validate(self, validate: Validate) -> None:
        vectors = {"entities": self.trainer.entity_vectors, "relations": self.trainer.relation_vectors}
        figure = validate(vectors["entities"], vectors["relations"])
        if self.trainer.settings.patience and all(figure > earlier for _, earlier in self.validations):
            if self.trainer.room.place != "disk":
                self.best = {}  # first, so that there is room for one copy
            entities = self.trainer.copied(vectors["entities"], self.best.get("entities"))
            self.best = {"entities": entities, "relations": vectors["relations"].to(entities.device)}
        self.validations.append((self.trainer.step_number, figure))

    def _figures(self, loss: Tensor) -> str:
        validated = f", validation {self.validations[-1][1]:.4f}" if self.validations else ""
        return f"loss {loss.item():.4f}{validated}"

    def _is_enough(self) -> bool:
        """Whether more steps no longer pay."""
        return self._gains_nothing() if self.trainer.settings.held_out else self._patience_is_over()

    def _gains_nothing(self) -> bool:
        """Whether the last validations brought no gain since the rate dropped for the last time."""
        patience, drops = self.trainer.settings.patience, self.trainer.schedule.drop_steps
        figures = [figure for at, figure in self.validations if at > max(drops, default=0)]
        if not patience or len(figures) <= patience:
            return False
        return max(figures[-patience:]) <= max(figures[:-patience]) * (1 + LEAST_GAIN)

    def _patience_is_over(self) -> bool:
        patience = self.trainer.settings.patience
        if not patience or not self.validations:
            return False
        figures = [figure for _, figure in self.validations]
        return len(figures) - 1 - figures.index(max(figures)) >= patience

    def _step(self) -> Tensor:
        try:
            return self.trainer.step()
        except RuntimeError as error:
            if RATE_OVERFLOW not in str(error):
                raise
            raise self._divergence() from error

    def _refuse_divergence(self) -> None:
        """Stop where the vectors are no numbers any more; the last state on disk is from before."""
        for table in self.trainer.tables.tensors().values():
            for part in torch.split(table.view(-1), CHECKED_NUMBERS):
                if not bool(torch.isfinite(part).all()):
                    raise self._divergence()

    def _divergence(self) -> OokgError:
        problem = f"training diverged before step {max(1, self.trainer.step_number):,}: vectors hold NaN or infinity"
        return OokgError(f"{problem}; lower `lr`, or check `temperature` and `l2`")

    @property
    def seconds(self) -> float:
        """How long the run has taken, with the time before an interruption."""
        return self.earlier_seconds + time.monotonic() - self.begun

    def save(self) -> None:
        """Write the state, atomically."""
        if self.state_path is None:
            raise InputError("this run has no place for its state; give a state_path")
        self._refuse_divergence()
        tensors = self.trainer.state() | {f"best.{name}": value for name, value in self.best.items()}
        tensors = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
        header = {"fingerprint": self.fingerprint, "validations": self.validations, "seconds": self.seconds}
        with atomic_write(self.state_path) as temporary:
            save_tensors(tensors, temporary, {"ookg": json.dumps(header)})

    def _save_on_the_way(self) -> None:
        """Write the state; where it cannot be written, go on: the model may well be, and the last state stays."""
        try:
            self.save()
        except InputError as error:
            if not self.is_warned:
                tell(f"note: {str(error).split(';')[0]}; training goes on without, and tries again later")
            self.is_warned = True

    def resume(self, or_replace: bool = False) -> bool:
        """Go on from the saved state; False where there is none.

        or_replace: begin anew, and say so, where the state is damaged or that of another run; it is refused otherwise
        """
        if self.state_path is None or not self.state_path.exists():
            return False
        try:
            header, tensors = self._read_state(self.state_path)
        except (InputError, ModelFileError) as error:
            if not or_replace:
                raise
            tell(f"note: {str(error).split(';')[0]}; it is replaced")
            return False
        self.best = {name[5:]: value for name, value in tensors.items() if name.startswith("best.")}
        self.validations, self.earlier_seconds = header["validations"], header["seconds"]
        self.trainer.load_state(tensors)
        if self.best and self.trainer.room.place == "disk":  # what is read is in memory as soon as it is written over
            self.best["entities"] = self.trainer.copied(self.best["entities"])
        return True

    def _read_state(self, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a state says of itself, and its tensors; one that is damaged or of another run is refused."""
        remedy = "remove it, or train with `overwrite=True`"
        try:
            with safe_open(path, framework="pt") as file:
                header = json.loads(file.metadata()["ookg"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            fingerprint = dict(header["fingerprint"])
            validations = [(operator.index(step), float(figure)) for step, figure in header["validations"]]
            header = {"validations": validations, "seconds": float(header["seconds"])}
        except OSError as error:
            raise OokgError(f"{path}: cannot be read ({error}); check its permissions") from error
        except DAMAGES as error:
            raise ModelFileError(f"{path}: damaged training state ({error}); {remedy}") from error
        fingerprint = UNSTATED | fingerprint
        for name, value in (UNSTATED | self.fingerprint).items():
            if fingerprint.get(name) != value:
                started = f"was started with {name} {fingerprint.get(name)!r}, not {value!r}"
                raise InputError(
                    f"{path}: this run {started}; resume it as it was started, or replace it with `overwrite=True`"
                )
        for name, table in self.trainer.state().items():
            if name not in tensors or tensors[name].shape != table.shape:
                raise ModelFileError(f"{path}: damaged training state (no {name} that fits); {remedy}")
        return header, tensors


def fingerprint_of(path: Path) -> dict[str, Any]:
    """The fingerprint of a state; an empty one where it is damaged, which is reported when it is resumed."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(json.loads(file.metadata()["ookg"])["fingerprint"])
    except (OSError, *DAMAGES):
        return {}


@contextmanager
def _stop_requests(wanted: bool) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or kill into a request to stop after the current step; a second one stops at once."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requested = False

    def request(number: int, frame: Any) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    earlier = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: requested
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def choose_device(name: str | torch.device) -> torch.device:
    """The device of that name, also one of several such as "cuda:1"; "auto" is the GPU where there is one."""
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError(f"device {str(name)!r}; choose auto, cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name}, but PyTorch sees no such GPU here; use `device` cpu or auto")
    return device
