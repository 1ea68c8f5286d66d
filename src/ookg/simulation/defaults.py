"""How a model treats new entities unless told otherwise: as stored with it, or else by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ookg.errors import IMPORT_TRIPLES, InputError
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, RankingWeights
from ookg.evidence.network import default_weights
from ookg.evidence.registry import LEARNED
from ookg.models import Projected, refinable_models
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import Correlation, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings, default_refinement
from ookg.simulation.choice import NewcomerChoice, NewcomerMethod, stored_choice
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.trust import Calibration
from ookg.simulation.ways import DEFAULT_KNOWN, DEFAULT_WAYS, Ways

if TYPE_CHECKING:
    from ookg.storage.checkpoint import Checkpoint

DEFAULT_POWER = Correlation().power
# The weights of the combination where none are stored, by the vectors that are combined.
DEFAULT_RANKING: dict[NewcomerMethod, RankingWeights] = {
    "closed form": CLOSED_FORM_WEIGHTS,
    "refined": RankingWeights(),
}
# A graph is redundant if another link all but states this share of its triples: 73 % in FB15k-Head-10, 91 % in WN11,
# none in the film graph of the demo.
REDUNDANT_SHARE = 0.2


def can_refine(embedding: Embedding) -> bool:
    """Whether the model's new vectors can be fitted: under TransH and TransR they are least-squares solutions."""
    return embedding.geometry.can_refine


@dataclass(frozen=True, eq=False)
class NewcomerDefaults:
    """The settings of one model for new entities.

    choice: what is stored with it
    """

    checkpoint: Checkpoint
    choice: NewcomerChoice

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> NewcomerDefaults:
        """Those of a model as it stands."""
        return cls(checkpoint, stored_choice(checkpoint))

    @property
    def network(self) -> str | None:
        """The digest of the model's network, if it has one."""
        network = self.checkpoint.network
        return None if network is None else network.digest

    def learned_at(self, triples: int) -> dict[str, float]:
        """What the parts of the model's network count for by default, with so many triples; nothing without one."""
        network = self.checkpoint.network
        return {} if network is None else default_weights(triples, network.parts)

    @property
    def weighs_network(self) -> bool:
        """Whether the model has a network and the stored ways were chosen with it."""
        return self.network is not None and self.choice.network == self.network

    @property
    def measured_without_network(self) -> bool:
        """Whether the likelihood of answers was measured, but without the network that counts in them now."""
        return self.network is not None and not self.weighs_network and "chosen" in self.choice.likelihood

    @property
    def power(self) -> float:
        """Of the correlation weights."""
        return DEFAULT_POWER if self.choice.power is None else self.choice.power

    @property
    def refine(self) -> RefineSettings:
        """How new vectors are fitted: as stored, or at the scale of the model's vectors."""
        if self.choice.refine is not None:
            return self.choice.refine
        return default_refinement(self.checkpoint.embedding, self.checkpoint.settings.get("margin"))

    @property
    def ranking(self) -> dict[NewcomerMethod, RankingWeights]:
        """The weights of the combination, by the vectors combined."""
        return DEFAULT_RANKING | self.choice.ranking

    @property
    def ways(self) -> Ways | None:
        """How questions about newcomers are answered by their number of triples.

        None without training triples, and under a model that makes no vectors of new entities. Where there is a network
        that they were not chosen with, it has its default weight.
        """
        geometry = self.checkpoint.embedding.geometry
        if self.checkpoint.statistics is None or (geometry.projects and not isinstance(geometry, Projected)):
            return None
        ways = self.choice.ways
        if ways is None or not self.weighs_network:
            ways = (ways or DEFAULT_WAYS).with_learned(self.learned_at)
        return ways if can_refine(self.checkpoint.embedding) else ways.without_refining()

    @property
    def known_ranking(self) -> RankingWeights | None:
        """What the vector and evidence count for in questions about known entities; None if the vector alone ranks."""
        if self.checkpoint.statistics is None:
            return None
        if (known := self.choice.known) is not None:
            if not self._knows_network:
                known = RankingWeights.alone(**(known.to_dict() | dict.fromkeys(LEARNED, 0.0)))
            return known if known.has_evidence else None
        # How likely answers are was measured before evidence counted in them.
        return None if "known" in self.choice.likelihood else DEFAULT_KNOWN

    @property
    def _knows_network(self) -> bool:
        """Whether answers about known entities were measured with the network that there is, or with none."""
        return self.choice.known_network in (None, self.network)

    def weights(self, usual: Weights) -> Weights:
        """The usual weights of a task, correlation ones with the stored power; uniform ones for a model that came
        without its training triples.
        """
        if self.checkpoint.statistics is None:
            return Uniform()
        has_power = isinstance(usual, Correlation) and self.choice.power is not None
        return Correlation(self.power) if has_power else usual

    def refinement(self, refine: bool | RefineSettings) -> RefineSettings | None:
        """How vectors are fitted if `refine` says so: as it says, or as `refine` here does; None if they are not."""
        if not refine:
            return None
        if not can_refine(self.checkpoint.embedding):
            name = type(self.checkpoint.embedding.geometry).__name__
            raise InputError(f"refine is for {refinable_models()}, and this is {name}; leave it out")
        return refine if isinstance(refine, RefineSettings) else self.refine

    def refinement_beside(self, refine: bool | RefineSettings) -> RefineSettings | None:
        """How vectors are fitted together with those of another model, which `refine` is for.

        Margin and rate fit the scale of a model's vectors, so they are its own. None if vectors cannot be fitted, too.
        """
        if not refine or not can_refine(self.checkpoint.embedding):
            return None
        own = self.refine
        return replace(refine, margin=own.margin, lr=own.lr) if isinstance(refine, RefineSettings) else own

    def ranking_weights(self, combine: bool | RankingWeights, refined: bool) -> RankingWeights | None:
        """How evidence is weighed if `combine` says so: as it says, or as `ranking` does; None if it is not."""
        if not combine:
            return None
        if self.checkpoint.statistics is None:
            problem = "combine needs the training triples, which this model came without"
            raise InputError(f"{problem}; {IMPORT_TRIPLES}, or leave `combine` out")
        if isinstance(combine, RankingWeights):
            return combine
        return self.ranking["refined" if refined else "closed form"]

    def combines(self, refine: bool | RefineSettings, redundancy: Callable[[], float]) -> bool:
        """Whether answers are ranked by all evidence by default.

        With fitted vectors, if `ookg tune` found that better, or if it did not try and the graph is redundant: direct
        links are worth little where relations do not imply one another.

        redundancy: the share of the graph's triples that another link all but states; asked only if it is needed
        """
        if not refine or self.checkpoint.statistics is None:
            return False
        if self.choice.best is not None:
            return self.choice.best == "combined"
        return redundancy() >= REDUNDANT_SHARE

    def calibration(self, *, refine: bool, combine: bool, chosen: bool = False) -> Calibration | None:
        """What to expect of a new vector that is used in this way, if it was measured. chosen: as `ways` has it"""
        method = self._method(refine=refine, combine=combine, chosen=chosen)
        return None if method is None else self.choice.calibration.get(method)

    def likelihood(self, *, refine: bool, combine: bool, chosen: bool, models: int) -> Likelihood | None:
        """How likely answers about newcomers are right, if it was measured for as many models together."""
        method = self._method(refine=refine, combine=combine, chosen=chosen)
        fitted = None if method is None else self.choice.likelihood.get(method)
        return fitted if fitted is not None and fitted.models == models else None

    def known_likelihood(self, weights: RankingWeights | None, *, models: int) -> Likelihood | None:
        """The same for known entities: measured as they are answered where nothing is said."""
        is_measured = weights == self.known_ranking and self._knows_network
        fitted = self.choice.likelihood.get("known") if is_measured else None
        return fitted if fitted is not None and fitted.models == models else None

    def _method(self, *, refine: bool, combine: bool, chosen: bool) -> NewcomerMethod | None:
        """What was measured of such answers; None where nothing was."""
        if chosen:
            return "chosen" if self.choice.network == self.network else None
        # "combined" was calibrated with fitted vectors
        if combine and not refine and can_refine(self.checkpoint.embedding):
            return None
        return "combined" if combine else "refined" if refine else "closed form"
