"""One score from all evidence: where the vector points, and what the graph says beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.encoder import Encoder
from ookg.evidence.links import Links
from ookg.evidence.network import AnswerNetwork, Network
from ookg.evidence.registry import HUBNESS, LEARNED, NEW, SOURCES, VECTOR
from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.evidence.weights import CLOSED_FORM_WEIGHTS, RankingWeights
from ookg.graph.grown import MANY, GrownGraph, Triple
from ookg.graph.index import GraphIndex
from ookg.graph.linked import all_triples, graph_alone
from ookg.kernels.threads import one_torch_thread
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import SCORES_AT_ONCE, Scorer, VectorsOfNew
from ookg.storage.counts import Counts
from ookg.types import BoolArray, FloatArray, IntArray

__all__ = [
    "CLOSED_FORM_WEIGHTS",
    "CombinedScorer",
    "GraphEvidence",
    "RankingWeights",
    "Speaks",
    "Standing",
    "answer_scores",
    "combined_scores",
    "reasons",
    "spread_of_known",
    "standard_scores",
    "standardised",
]


LOOKED_AT = 1024  # known answers that a new one is compared with, where a source does not judge it


@dataclass(frozen=True, eq=False)
class GraphEvidence:
    """What known and given triples say beside the vectors: a source by its name, counted when it is first asked for.

    It is never changed: `with_given`, `plus` and `minus` make another one.

    graph: the triples that it speaks about; count_known: counts a source on the known ones among them
    counted: the sources so far, on all; network: what the sources ask that are its parts, if there is one
    new_vectors: the vectors of new entities, for the encoder of a network
    """

    graph: GrownGraph
    count_known: Callable[[type[Source]], Source]
    counted: dict[str, Source] = field(default_factory=dict)
    network: AnswerNetwork | None = None
    new_vectors: VectorsOfNew | None = None

    @classmethod
    def count(
        cls,
        known: IntArray,
        given: IntArray,
        num_relations: int,
        index: GraphIndex | None = None,
        network: AnswerNetwork | None = None,
    ) -> GraphEvidence:
        """That of known and given triples, (triples, 3). Relations beyond the first `num_relations` do not count.

        index: of these triples, if it is there already; network: trained on the known ones
        """
        triples = _inside(np.concatenate([known, given]) if len(given) else known, num_relations)
        graph = graph_alone(triples, num_relations, index)

        def counted(kind: type[Source]) -> Source:
            if not kind.known_alone or not len(given):
                return kind.count(triples, graph)
            alone = _inside(known, num_relations)
            source = kind.count(alone, graph_alone(alone, num_relations))
            return source.with_given(_inside(given, num_relations), graph)

        return cls(graph, counted, network=network)

    @classmethod
    def of_version(
        cls,
        triples: Callable[[], IntArray],
        index: GraphIndex,
        counts: Counts | None,
        network: AnswerNetwork | None = None,
    ) -> GraphEvidence:
        """That of the known triples of a model; what takes long to count is kept with it, if it is stored.

        triples: reads them; index: of the same; counts: where they are kept, None if nowhere
        """
        nothing = np.empty((0, 3), dtype=np.int64)
        graph = graph_alone(nothing, index.num_relations, index)

        def counted(kind: type[Source]) -> Source:
            if counts is None or not kind.is_kept:
                return kind.count(nothing if kind.reads_graph else triples(), graph)
            arrays = counts.kept(kind.name, lambda: kind.count(triples(), graph).to_arrays())
            return kind.from_arrays(arrays, graph)

        return cls(graph, counted, network=network)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of what can speak: all sources, but for the parts of a network that are not there."""
        there = () if self.network is None else self.network.parts
        return tuple(name for name in SOURCES if name not in LEARNED or name in there)

    def with_given(self, given: IntArray, num_relations: int) -> GraphEvidence:
        """With given triples counted in at once, the same as counting all together; as many relations count."""
        given = _inside(given, num_relations)
        after = graph_alone(np.concatenate([all_triples(self.graph), given]), num_relations)
        return GraphEvidence(after, lambda kind: self[kind.name].with_given(given, after), network=self.network)

    def beside(self, graph: GrownGraph) -> GraphEvidence:
        """With the given triples of a graph, which come and go; known triples are those of this one."""
        return GraphEvidence(graph, lambda kind: self[kind.name], network=self.network)

    def plus(self, triple: Triple, after: GrownGraph) -> GraphEvidence:
        """With one more given triple; after: the graph that has it."""
        counted = {name: source.plus(triple, after) for name, source in list(self.counted.items())}
        return replace(self, graph=after, counted=counted)

    def minus(self, triple: Triple, after: GrownGraph) -> GraphEvidence:
        """Without a given triple; after: the graph that is without it."""
        counted = {name: source.minus(triple, after) for name, source in list(self.counted.items())}
        return replace(self, graph=after, counted=counted)

    def __getitem__(self, name: str) -> Source:
        """A source."""
        if name not in self.counted:  # two threads may both count it, and count the same
            source = self.count_known(SOURCES[name])
            if self.network is not None and isinstance(source, Network):
                source = replace(source, network=self.network.messages)
            if self.network is not None and isinstance(source, Encoder):
                source = replace(source, encoder=self.network.encoder, embedding=self.network.embedding)
            self.counted[name] = _with_each_given(source, self.graph)
        counted = self.counted[name]
        return replace(counted, new_vectors=self.new_vectors) if isinstance(counted, Encoder) else counted

    def with_new(self, vectors: VectorsOfNew) -> GraphEvidence:
        """The same for new entities with these vectors."""
        return self if self.network is None else replace(self, new_vectors=vectors)

    @cached_property
    def redundancy(self) -> float:
        """The share of the known triples that another link between the same two entities all but states."""
        links = self[Links.name]
        return links.redundancy() if isinstance(links, Links) else 0.0

    def of_claims(self, claims: IntArray, names: Iterable[str]) -> FloatArray:
        """(claims, features) what some sources say about claims, one after the other."""
        return np.concatenate([self[name].of_claims(claims) for name in names], axis=1)

    def of_question(self, asked: Asked, weights: RankingWeights) -> dict[str, Spoken]:
        """What the sources that count say about the answers to one question."""
        return {name: self[name].of_question(asked) for name, _ in weights.of_sources()}


def _inside(triples: IntArray, num_relations: int) -> IntArray:
    """The triples whose relations are among the first ones."""
    inside = (triples[:, 1] >= 0) & (triples[:, 1] < num_relations)
    return triples if inside.all() else triples[inside]


def _with_each_given(source: Source, graph: GrownGraph) -> Source:
    """A source of known triples with the given ones of a graph: many at once, or one by one."""
    given = graph.all_given
    if len(given) >= MANY:
        return source.with_given(given.triples, graph)
    for place, (head, relation, tail) in enumerate(given.triples.tolist()):
        triple, is_last = (head, relation, tail), place + 1 == len(given)
        source = source.plus(triple, graph if is_last else source.graph.plus(triple, place))
    return source


def standardised(scores: Tensor, num_known: int) -> Tensor:
    """(queries, entities) scores minus their mean over the known entities, over their standard deviation."""
    return _standardised_in_place(scores.clone(), num_known)


@one_torch_thread()
def _standardised_in_place(scores: Tensor, num_known: int) -> Tensor:
    spread = spread_of_known(scores, num_known)
    return scores.sub_(scores[:, :num_known].mean(dim=1, keepdim=True)).div_(spread)


@one_torch_thread()
def spread_of_known(scores: Tensor, num_known: int) -> Tensor:
    """(queries, 1) the standard deviation of the scores of known entities."""
    known = scores[:, :num_known]
    spread = known.std(dim=1, keepdim=True, correction=0) if num_known > 1 else torch.ones_like(known[:, :1])
    return spread.clamp_min_(torch.finfo(scores.dtype).tiny)


def combined_scores(
    vectors: Iterable[Tensor],
    num_known: int,
    weights: RankingWeights,
    evidence: Callable[[str, torch.device], Tensor],
    hubness: Callable[[int], Tensor],
) -> Tensor:
    """(queries, answers) w_vector · mean of standardised scores + (Σ w_source · evidence), in the order of the weights.

    New answers, from `num_known` on, get w_new - w_hubness · mean of standardised hubness on top. Sources that do not
    judge them come last, and give them what they give known ones that stand like them by all that came before.

    This is the one place that says how a score is made, of one question as of many. The order is part of it: another
    order changes the last bits.

    vectors: (queries, answers) the scores of each model, one after the other; overwritten
    evidence: (queries, answers) that of a source, by its name, in a new tensor on a device
    hubness: (queries or 1, new answers) how much nearer than usual these lie to everything under a model, by its number
    """
    total, models, nearer = torch.empty(0), 0, torch.zeros(1)
    for scores in vectors:
        if weights[HUBNESS] != 0 and scores.shape[1] > num_known:
            nearer = nearer.to(scores.device) + hubness(models).to(scores) / spread_of_known(scores, num_known)
        position = _standardised_in_place(scores, num_known)
        total = position if not models else total.add_(position)
        models += 1
    total *= weights[VECTOR] / models
    added: Tensor | None = None
    last = [one for one in weights.of_sources() if not SOURCES[one[0]].judges_new]
    for name, weight in weights.of_sources():
        if (name, weight) in last:
            continue
        part = evidence(name, total.device)
        added = part.mul_(weight) if added is None else added.add_(part, alpha=weight)
    if added is not None:
        total.add_(added)
    if weights[NEW] != 0:
        total[:, num_known:] += weights[NEW]
    if weights[HUBNESS] != 0 and total.shape[1] > num_known:
        total[:, num_known:].sub_(nearer, alpha=weights[HUBNESS] / models)
    parts = [(evidence(name, total.device), weight) for name, weight in last]
    for part, _ in parts:
        if part.shape[1] > num_known:
            part[:, num_known:] = _as_known_ones(part[:, :num_known], total, num_known)
    for part, weight in parts:
        total.add_(part, alpha=weight)
    return total


@one_torch_thread()
def _as_known_ones(part: Tensor, scores: Tensor, num_known: int) -> Tensor:
    """(queries, new answers) for each the mean evidence of known answers that rank like it by the scores so far.

    These are those from half of its rank to twice as far down. part: (queries, known answers) the evidence
    """
    looked_at = min(LOOKED_AT, num_known)
    known = scores[:, :num_known].topk(looked_at, dim=1)
    sums = torch.nn.functional.pad(part.gather(1, known.indices).double().cumsum(dim=1), (1, 0))
    above = torch.searchsorted(-known.values, -scores[:, num_known:].contiguous())  # known ones with a higher score
    end = (2 * above + 2).clamp_max_(looked_at)
    first = torch.minimum(above // 2, end - 1)
    return ((sums.gather(1, end) - sums.gather(1, first)) / (end - first)).to(part)


def answer_scores(
    vectors: Sequence[Tensor],
    num_known: int,
    weights: RankingWeights,
    spoken: Mapping[str, Spoken],
    hubness: Callable[[int], Tensor],
) -> Tensor:
    """(answers,) the combined scores of the answers to one question.

    vectors: (answers,) of each model, overwritten; hubness: (new answers,) under each, by its number
    """
    size, rows = len(vectors[0]), (scores[None] for scores in vectors)
    return combined_scores(
        rows, num_known, weights, lambda name, _: spoken[name].row(size), lambda model: hubness(model)[None]
    )[0]


@dataclass(frozen=True)
class Speaks:
    """What speaks for an answer by one source, and how much that adds to its score."""

    why: Why
    worth: float


def reasons(spoken: Mapping[str, Spoken], weights: RankingWeights, answers: IntArray) -> list[list[Speaks]]:
    """For each answer what speaks for it, in the order of the sources; those that say nothing are left out."""
    lists: list[list[Speaks]] = [[] for _ in answers]
    for name, said in spoken.items():
        links = said.why(answers)
        if not any(links):
            continue
        for speaks, why, value in zip(lists, links, said.of(answers).tolist(), strict=True):
            if why is not None:
                speaks.append(Speaks(why, weights[name] * value))
    return lists


def weights_of_new(weights: RankingWeights, answers: IntArray, num_known: int) -> FloatArray:
    """(answers,) what each gets for being new."""
    return np.where(answers >= num_known, weights[NEW], 0.0)


class CombinedScorer(Scorer):
    """Vectors of one model, or the mean over several, together with the evidence of the graph."""

    def __init__(self, vectors: Sequence[Scorer], evidence: GraphEvidence, weights: RankingWeights) -> None:
        if not vectors:
            raise InputError("no scorer to combine; give at least one")
        self.vectors, self.evidence, self.weights = tuple(vectors), evidence.with_new(vectors[0].new_vectors), weights
        self.num_known, self.num_relations = vectors[0].num_known, vectors[0].num_relations

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether every model can score it."""
        answerable: BoolArray = np.logical_and.reduce([scorer.answerable(queries) for scorer in self.vectors])
        return answerable

    def answer_scores(self, queries: Queries) -> Tensor:
        """The weighted sum for each known entity."""
        vectors = (scorer.answer_scores(queries) for scorer in self.vectors)
        return self._combined(vectors, queries, self.num_known)

    def is_answer(self, entities: IntArray) -> BoolArray:
        """Whether every model can score it."""
        is_answer: BoolArray = np.logical_and.reduce([scorer.is_answer(entities) for scorer in self.vectors])
        return is_answer

    def may_be_itself(self, queries: Queries) -> BoolArray:
        """Whether every model allows it."""
        allowed: BoolArray = np.logical_and.reduce([scorer.may_be_itself(queries) for scorer in self.vectors])
        return allowed

    def all_answer_scores(self, queries: Queries, num_entities: int) -> Tensor:
        """The weighted sum for each known and new entity, standardised over the known ones."""
        vectors = (scorer.all_answer_scores(queries, num_entities) for scorer in self.vectors)
        return self._combined(vectors, queries, num_entities)

    def _combined(self, vectors: Iterable[Tensor], queries: Queries, num_answers: int) -> Tensor:
        def evidence(name: str, device: torch.device) -> Tensor:
            return self.evidence[name].of_answers(queries, num_answers, device)

        def hubness(model: int) -> Tensor:
            return self.vectors[model].hubness(queries, num_answers)

        return combined_scores(vectors, self.num_known, self.weights, evidence, hubness)

    def scores(self, triples: IntArray) -> FloatArray:
        """The score of each triple's tail as the answer to (head, relation, ?)."""
        scores, nearer = np.zeros((2, len(triples)))
        for scorer in self.vectors:
            standing = standard_scores(scorer, triples, asks_tail=True)
            scores += standing.position / len(self.vectors)
            if self.weights[HUBNESS] != 0:
                nearer += _tail_hubness(scorer, triples) / standing.spread / len(self.vectors)
        scores = self.weights[VECTOR] * scores - self.weights[HUBNESS] * nearer
        for name, weight in self.weights.of_sources():
            source = self.evidence[name]
            scores = scores + weight * source.as_answers(source.of_claims(triples), asks_tail=True)
        return scores + weights_of_new(self.weights, triples[:, 2], self.num_known)


def _tail_hubness(scorer: Scorer, triples: IntArray) -> FloatArray:
    """(triples,) how much nearer than usual each tail lies to everything; 0 for a known one."""
    hubness = np.zeros(len(triples))
    head, relation, tail = triples.T
    is_new = tail >= scorer.num_known
    for one in np.unique(relation[is_new]).tolist():
        rows = np.flatnonzero(is_new & (relation == one))
        query = Queries(head[rows[:1]], relation[rows[:1]], tail[rows[:1]], np.ones(1, dtype=np.bool_))
        of_new = scorer.hubness(query, int(tail.max()) + 1)[0].double().cpu().numpy()
        hubness[rows] = of_new[tail[rows] - scorer.num_known]
    return hubness


@dataclass(frozen=True)
class Standing:
    """How a triple's end stands among all known entities at that end.

    position: (triples,) its score, standardised; share_better: (triples,) the share of known entities that score higher
    spread: (triples,) the standard deviation of their scores
    """

    position: FloatArray
    share_better: FloatArray
    spread: FloatArray


def standard_scores(scorer: Scorer, triples: IntArray, *, asks_tail: bool) -> Standing:
    """The standing of each triple's tail (or head); NaN where the triple cannot be scored."""
    own = scorer.scores(triples)
    position, better, spreads = np.full((3, len(triples)), np.nan)
    near, far = (0, 2) if asks_tail else (2, 0)
    rows = np.flatnonzero(~np.isnan(own))
    size = max(1, SCORES_AT_ONCE // max(1, scorer.num_known))
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        asked = triples[chunk]
        queries = Queries(asked[:, near], asked[:, 1], asked[:, far], np.full(len(chunk), asks_tail))
        scores = scorer.answer_scores(queries)
        # The same number as its rival's, where the end is known: two ways to sum up a distance round differently.
        end = torch.from_numpy(asked[:, far].copy()).to(scores.device)[:, None]
        is_known = end < scorer.num_known
        mine = torch.from_numpy(own[chunk]).to(scores)[:, None]
        mine = torch.where(is_known, scores.gather(1, torch.where(is_known, end, 0)), mine)
        with one_torch_thread():
            mean, spread = scores.mean(dim=1, keepdim=True), scores.std(dim=1, keepdim=True, correction=0)
            better[chunk] = (scores > mine).float().mean(dim=1).double().cpu().numpy()
        spread.clamp_min_(torch.finfo(scores.dtype).tiny)
        position[chunk] = ((mine - mean) / spread)[:, 0].double().cpu().numpy()
        spreads[chunk] = spread[:, 0].double().cpu().numpy()
    return Standing(position, better, spreads)
