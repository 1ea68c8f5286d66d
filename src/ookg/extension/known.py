"""What an extended model asks of the model that it extends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ookg.evidence.combined import GraphEvidence, RankingWeights
from ookg.graph.fitting import FittingRelations
from ookg.graph.index import GraphIndex
from ookg.graph.names import Names
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples
from ookg.newcomers.embedder import Newcomers
from ookg.newcomers.given import LabelledVectors
from ookg.simulation.claim_thresholds import FittedThresholds
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.trust import TrustTable
from ookg.types import BoolArray, IntArray


class KnownModel(LabelledVectors, Protocol):
    """A trained model; `ookg.Model` is one. Named here so that nothing in this folder imports it."""

    @property
    def index(self) -> GraphIndex:
        """The training triples by entity."""

    @property
    def known_triples(self) -> IntArray:
        """(triples, 3) the training triples as ids; none for a model that came without them."""

    @property
    def statistics(self) -> GraphStatistics:
        """What is counted on the training triples."""

    @property
    def names(self) -> Names:
        """What the ids of entities and relations are called."""

    @property
    def given_vectors(self) -> int:
        """How many of the entities, the last ones, were not trained but came with their vectors."""

    @property
    def claim_thresholds(self) -> FittedThresholds | None:
        """What claims about known entities are held against, if it is stored."""

    @property
    def made_claims(self) -> Triples:
        """Labelled claims made from the training triples."""

    @property
    def loops(self) -> BoolArray:
        """(relations,) over which of them an entity can be its own answer."""

    @property
    def known_evidence(self) -> GraphEvidence:
        """What the training triples say beside the vectors."""

    @property
    def companions(self) -> Sequence[KnownModel]:
        """The models that answer questions together with this one, beside the same graph."""

    @property
    def fitting(self) -> FittingRelations:
        """Which relations fit an entity."""

    def likelihood(self, *, refine: bool, combine: bool, chosen: bool, models: int) -> Likelihood | None:
        """How likely answers about newcomers are right, if it was measured."""

    @property
    def known_ranking(self) -> RankingWeights | None:
        """What counts in questions about known entities where nothing is said; None if the vector alone ranks."""

    def known_likelihood(self, weights: RankingWeights | None, *, models: int) -> Likelihood | None:
        """The same for known entities, ranked by such weights."""

    @property
    def measured_without_network(self) -> bool:
        """Whether that was measured for newcomers, but without the network that counts in answers now."""

    def without(self, triples: IntArray) -> KnownModel:
        """The same vectors beside a graph that never had some of the training triples, (triples, 3)."""

    def combines(self, refine: bool) -> bool:
        """Whether answers are ranked by all evidence by default."""

    def ranking_weights(self, combine: bool | RankingWeights, refined: bool) -> RankingWeights | None:
        """How evidence is weighed; None if the vector alone ranks."""

    def trust(
        self, newcomers: Newcomers, which: IntArray, *, refine: bool, combine: bool = False, chosen: bool = False
    ) -> TrustTable:
        """How far to trust the vectors of some newcomers."""
