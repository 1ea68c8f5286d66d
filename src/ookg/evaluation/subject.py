"""What evaluating and judging ask of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ookg.evaluation.verdicts import Classification
from ookg.evidence.combined import GraphEvidence
from ookg.graph.triples import TripleSource
from ookg.newcomers.refinement import RefineSettings
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.judge import FittedJudge, JudgeSettings
from ookg.storage.checkpoint import Checkpoint


class EvaluatedModel(Protocol):
    """A trained model; `ookg.Model` is one. Named here so that nothing in this folder imports it."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Vectors, labels, training triples and settings."""

    @property
    def known_evidence(self) -> GraphEvidence:
        """What the training triples say beside the vectors."""

    @property
    def defaults(self) -> NewcomerDefaults:
        """How new entities are treated if nothing else is said."""

    @property
    def companions(self) -> Sequence[EvaluatedModel]:
        """The models that answer questions together with this one, beside the same graph."""

    def combines(self, refine: bool | RefineSettings) -> bool:
        """Whether answers are ranked by all evidence if nothing else is said."""

    def classify(
        self,
        claims: TripleSource,
        *,
        valid: TripleSource | None = None,
        given: TripleSource = (),
        judge: bool | JudgeSettings | FittedJudge | None = None,
    ) -> Classification:
        """Verdicts by thresholds, or by a judge where claims are about newcomers."""
