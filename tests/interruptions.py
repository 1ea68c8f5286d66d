"""Trainings that are interrupted on the way, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ookg.errors import TrainingInterrupted
from ookg.training.loop import TrainingRun


@contextmanager
def interrupted_trainings(steps: int = 1) -> Iterator[None]:
    """Inside, each training that keeps a state is interrupted after so many steps, and its state kept."""
    real = TrainingRun.run

    def stopped(run: TrainingRun, report: Any = None) -> object:
        if run.state_path is None:  # what is new is placed first
            return real(run, report)
        for _ in range(steps):
            run.trainer.step()
        run.save()
        raise TrainingInterrupted("stopped")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "run", stopped)
        yield
