"""The systems the paper compares with: every entity, known or new, is an aggregate of its neighbours.

`train_baseline(dataset, published_settings("LAN", dataset.task))` trains one; the result is a `Scorer`, so that
evaluation takes it as it takes a translational model.
"""

from ookg.research.baselines.scorer import TrainedBaseline
from ookg.research.baselines.settings import BASELINES, BaselineSettings, published_settings
from ookg.research.baselines.training import train_baseline

__all__ = ["BASELINES", "BaselineSettings", "TrainedBaseline", "published_settings", "train_baseline"]
