"""The learning rate on the way: it drops at shares of the steps, or falls evenly; sooner where time runs short."""

from __future__ import annotations

from ookg.training.settings import TrainingSettings


class Schedule:
    """When the learning rate drops.

    drop_steps: the steps at which it is divided by ten and Adam starts afresh, ascending
    """

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings, self.drop_steps = settings, settings.drop_steps

    def rate(self, step: int) -> float:
        """The learning rate of the step with this number."""
        return self.settings.rate(step, self.drop_steps)

    def hurry(self, step: int, progress: float) -> None:
        """Before the step with this number: let the rate drop as if this share of all steps were taken.

        What has dropped stays so, and what is due by the steps alone is not put off.
        """
        due = sum(share <= progress for share in self.settings.lr_drops)
        self.drop_steps = tuple(min(start, step) for start in self.drop_steps[:due]) + self.drop_steps[due:]


class LinearSchedule(Schedule):
    """The learning rate falls evenly to 0 over the steps, or over the time if that is shorter; Adam just goes on."""

    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__(settings)
        self.drop_steps, self._progress = (), 0.0

    def rate(self, step: int) -> float:
        """lr · (1 - the share of the steps, or of the time, that is over); half a step's share at least."""
        left = 1 - max(step / self.settings.steps, self._progress)
        return self.settings.lr * max(left, 0.5 / self.settings.steps)

    def hurry(self, step: int, progress: float) -> None:
        """Let the rate fall as if this share of all steps were taken."""
        del step
        self._progress = max(self._progress, progress)
