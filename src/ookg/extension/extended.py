"""The object that stays: it holds one state after another, and asks the current one.

New entities that triples tie to each other, or that share a new relation, form a *group*. A triple that comes or goes
prepares, and fits, the groups that it touches and nothing else. All that a question reads hangs on one `State` that is
never changed: a writer makes a new one and puts it in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
from torch import Tensor

from ookg.errors import InputError
from ookg.evaluation.verdicts import Classification
from ookg.evidence.source import Asked
from ookg.extension import claims as judging
from ookg.extension import reasons
from ookg.extension.answers import AnswerReason, LikelyAnswers, Neighbors, Prediction, Predictions, Reason
from ookg.extension.around import Around
from ookg.extension.groups import Preparation, as_tuples
from ookg.extension.known import KnownModel
from ookg.extension.likely import End, likely_answers
from ookg.extension.lookup import entity_id, relation_id
from ookg.extension.questions import AnswerKeywords, AnswerOptions, Question, Ranking, answer_options, answered
from ookg.extension.state import State, corrected, with_evidence, with_triples, without_triples
from ookg.extension.vectors import entity_vector, nearest, single_vectors
from ookg.graph.grown import row_keys
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.simulation.claim_thresholds import thresholds_in_words
from ookg.simulation.hiding import NewEnd
from ookg.simulation.judge import FittedJudge
from ookg.simulation.trust import Trust
from ookg.system.display import counted
from ookg.types import FloatArray, IntArray

NO_SINGLE_VECTOR = "correlation weights depend on the relation that is asked for, so there is no single vector"


class ExtendedModel:
    """A model and given triples about what is new to it. Made by `Model.extend`; the model itself never changes.

    Any number of threads may ask while one adds or removes: each question is answered from one state.
    """

    def __init__(self, model: KnownModel, preparation: Preparation) -> None:
        self.model, self.preparation = model, preparation
        self._writing = threading.Lock()
        self._read: list[str] = []  # what reading the given triples left out
        self._state = State.nothing_given(model, preparation)

    # What is known and new.

    @property
    def entities(self) -> Vocabulary:
        """The labels of known and new entities, by id; those that no triple has any more keep theirs."""
        return self._state.entities

    @property
    def relations(self) -> Vocabulary:
        """The labels of trained and new relations, by id; those that no triple has any more keep theirs."""
        return self._state.relations

    @property
    def triples(self) -> list[tuple[str, str, str]]:
        """The given triples, first come first."""
        state = self._state
        return [state.labels(triple) for triple in as_tuples(state.graph.all_given.triples)]

    @property
    def new_entities(self) -> list[str]:
        """The labels of the new entities, first come first."""
        state = self._state
        return state.entities.select(state.new_entities)

    @property
    def new_relations(self) -> list[str]:
        """The labels of the new relations, first come first."""
        state = self._state
        return state.relations.select(state.new_relations)

    def has_entity(self, label: str) -> bool:
        """Whether an entity is known, or a given triple has it."""
        number = self._state.entities.find(label)
        return number is not None and self._state.has_entity(number)

    def has_relation(self, label: str) -> bool:
        """Whether a relation is trained, or a given triple has it."""
        number = self._state.relations.find(label)
        return number is not None and self._state.has_relation(number)

    def check(self, entity: str | None = None, *, relation: str | None = None) -> None:
        """Refuse an entity or a relation that no question can be about, with the reason."""
        if entity is not None:
            entity_id(self._state, entity)
        if relation is not None:
            relation_id(self._state, relation)

    def around(self, label: str) -> Around:
        """All triples of an entity, known and given."""
        return Around(self._state, label)

    @property
    def notes(self) -> list[str]:
        """What the given triples have that makes no vector, and the relations that they give one, in words."""
        return [*self._read, *reasons.notes(self._state)]

    def __len__(self) -> int:
        return len(self._state.graph)

    def __repr__(self) -> str:
        state = self._state
        given = counted(len(state.graph), "given triple")
        new = counted(len(state.new_entities), "new entity", "new entities")
        return f"<ookg.ExtendedModel of {self.model!r}: {given}, {new}>"

    # Coming and going.

    def add(self, triples: TripleSource) -> int:
        """Add triples; those that are given already stay as they are. Returns how many were added.

        A triple of training that was removed is one of training again.
        """
        rows = as_triples(triples).beside(self._state.entities, self._state.relations)
        if rows.truth is not None and not rows.truth.all():
            raise InputError(f"{rows.source}: it holds triples labelled false; what is given must be true")
        with self._writing:
            state = self._state
            entities = state.entities.extended(rows.entities.labels)
            relations = state.relations.extended(rows.relations.labels)
            ids = rows.encoded(entities, relations)
            judging.refuse_given_vectors(state, ids, rows.source)
            if len(ids) > 1:
                ids = ids[np.sort(np.unique(row_keys(ids), return_index=True)[1])]
            comes_back = np.zeros(len(ids), dtype=np.bool_)
            if state.removed:
                comes_back[:] = [triple in state.removed for triple in as_tuples(ids)]
            back = as_tuples(ids[comes_back])
            fresh = ids[~state.graph.has(ids) & ~comes_back]
            state = corrected(state, self.model, [], back)
            self._state = with_triples(replace(state, entities=entities, relations=relations), fresh)
            self._read += rows.notes
        return len(fresh) + len(back)

    def remove(self, triples: TripleSource) -> int:
        """Take given triples back, or triples of training out. Returns how many there were.

        The numbers are those that were there without the given ones. Of training, known vectors stay as they are; as
        an answer that is known and as evidence a triple counts no more.
        """
        rows = as_triples(triples)
        with self._writing:
            state = self._state
            ids = rows.encoded(state.entities, state.relations)
            is_given, is_known = state.graph.has(ids), state.graph.index.has(ids)
            for row, is_there in zip(rows, is_given | is_known, strict=True):
                if not is_there:
                    raise InputError(f"triple {' '.join(row)!r} is neither given nor of training; nothing is removed")
            given, known = (list(dict.fromkeys(as_tuples(ids[part]))) for part in (is_given, is_known & ~is_given))
            self._state = corrected(without_triples(state, given), self.model, known)
        return len(given) + len(known)

    # Vectors, how far to trust them, and why.

    def vector(self, entity: str, query_relation: str | None = None) -> Tensor:
        """The vector of a known or new entity, (entity_width,); correlation weights need the relation asked for."""
        state = self._state
        number = entity_id(state, entity)
        relation = -1 if query_relation is None else relation_id(state, query_relation)
        if number >= state.num_known and relation < 0 and not self.preparation.is_single:
            remedy = "give a query relation, or extend with uniform or degree weights"
            raise InputError(f"{NO_SINGLE_VECTOR}; {remedy}")
        return entity_vector(state, number, relation)[0]

    @property
    def vectors(self) -> dict[str, Tensor]:
        """The vectors of all new entities that have one, by label; refined ones, or of weights that need no query."""
        if not self.preparation.is_single:
            raise InputError(f"{NO_SINGLE_VECTOR}; take uniform or degree weights, or fit the vectors (refine)")
        return single_vectors(self._state)

    def neighbors(self, entity: str, top: int = 10) -> Neighbors:
        """The known and new entities whose vectors are nearest to that of an entity, the nearest first."""
        if top < 1:
            raise InputError(f"top {top}; ask for 1 or more neighbours")
        if not self.preparation.is_single:
            raise InputError(f"{NO_SINGLE_VECTOR}; take uniform or degree weights, or fit the vectors (refine)")
        state = self._state
        return nearest(state, entity_id(state, entity), top)

    def trust(self, entity: str, *, combine: bool | None = None) -> Trust | None:
        """How far to trust a new entity's vector; None for a known one.

        combine: used together with all evidence, or not; by default as answers are ranked if nothing is said
        """
        state = self._state
        return reasons.trust_in(state, entity_id(state, entity), combine=combine)

    def explain(self, entity: str, relation: str) -> list[Reason]:
        """The triples that made a new entity's vector as a question over a relation sees it, heaviest first."""
        state = self._state
        return reasons.explanation(state, entity_id(state, entity), relation_id(state, relation))

    def what_speaks(self, question: Question, answers: Sequence[str]) -> list[tuple[AnswerReason, ...]]:
        """For each answer to a question what the graph says for it, whether that counts for its rank or not."""
        state = self._with_evidence(self._state)
        asked = Asked(entity_id(state, question.asked), relation_id(state, question.relation), question.asks_tail)
        ids = state.entities.ids(list(answers))
        said = iter(reasons.what_speaks(state, asked, ids[ids >= 0]))
        return [next(said) if number >= 0 else () for number in ids.tolist()]

    # Questions and claims.

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> Prediction:
        """The best tails for (head, relation), or heads for (relation, tail).

        options: also by keyword, such as top=3, known_answers="mark" or explain=True, here and in what follows
        """
        return self.predict_all([Question(relation, head, tail)], options, **keywords)[0]

    def predict_all(
        self, questions: Sequence[Question], options: AnswerOptions | None = None, **keywords: Unpack[AnswerKeywords]
    ) -> Predictions:
        """The answers to many questions, all from one state; they pass over the entities together."""
        questions = questions if isinstance(questions, Question) else list(questions)
        if isinstance(questions, Question) or not all(isinstance(one, Question) for one in questions):
            raise InputError(f"questions {questions!r}; give a list such as [ookg.Question(relation, head=label)]")
        state, options = self._state, answer_options(options, **keywords)
        ranking = Ranking.of(state, options)
        if ranking.needs_evidence or options.explain:
            state = self._with_evidence(state)
        return Predictions(answered(state, questions, options, ranking), state.find_names)

    def likely(
        self,
        entity: str,
        end: End = "both",
        options: AnswerOptions | None = None,
        **keywords: Unpack[AnswerKeywords],
    ) -> LikelyAnswers:
        """Everything likely about an entity over all relations that fit it, the likeliest first.

        A directed relation fits that entities with its relations have. end: where the entity stands, or both
        """
        state = self._state
        options = replace(answer_options(options, **keywords), approximate=None)  # their order needs all scores
        ranking = Ranking.of(state, options)
        if ranking.needs_evidence or options.explain:
            state = self._with_evidence(state)
        return likely_answers(state, entity, options, ranking, end)

    def scores(self, triples: IntArray) -> FloatArray:
        """-D(h, r, t) of triples of ids, (triples,); NaN where an end or the relation has no vector."""
        return judging.scores_of(self._state, triples)

    def classify(
        self, claims: TripleSource, *, valid: TripleSource | None = None, judge: FittedJudge | None = None
    ) -> Classification:
        """True or false for each claim: its score against its relation's threshold, found on labelled `valid` triples.

        Without these, the thresholds are those that are stored with the model, or those of training triples and false
        ones made from them. Thresholds for claims about newcomers are found on known entities of the labelled triples
        that are made new again.
        judge: judges claims about newcomers by all evidence instead
        A claim whose ends or relation have no vector gets no verdict.
        """
        claims = as_triples(claims, keep_duplicates=True)
        labelled = None if valid is None else as_triples(valid, keep_duplicates=True)
        limits = self.limits(labelled, None if judge else self.new_end(claims), vectors=self._has_given_vectors(claims))
        judged = self.verdicts(claims, limits, judge)
        read = [*self._read, *reasons.notes(self._state), *claims.notes]
        read += [thresholds_in_words(limits.fitted)] if labelled is None else labelled.notes
        return replace(judged, notes=[*read, *judged.notes])

    def _has_given_vectors(self, claims: Triples) -> bool:
        state = self._state
        return bool(judging.has_given_vectors(state, claims.encoded(state.entities, state.relations)).any())

    def new_end(self, claims: Triples) -> NewEnd | None:
        """The end that is new in most claims about newcomers that have vectors; None where no claim is about one."""
        state = self._state
        return judging.new_end_of(state, claims.encoded(state.entities, state.relations))

    def limits(self, valid: Triples | None, new: NewEnd | None, *, vectors: bool = False) -> judging.Limits:
        """What claims are held against, to be found once for many; new: the end of claims that is new, if any is.

        vectors: whether claims are about entities that came with vectors and no triples
        """
        return judging.limits_of(self._state, valid, new, vectors=vectors)

    def verdicts(self, claims: Triples, limits: judging.Limits, judge: FittedJudge | None = None) -> Classification:
        """Verdicts on claims by limits that were found before; notes are about the claims alone."""
        state = self._state
        if judge is not None:
            state = self._with_evidence(state)
        return judging.verdicts_on(state, claims, limits, judge)

    def _with_evidence(self, state: State) -> State:
        """The state with evidence, which is counted once and then kept up."""
        if state.evidence is not None:
            return state
        with self._writing:
            current = self._state
            self._state = with_evidence(current)
            if current is state:
                return self._state
        return with_evidence(state)
