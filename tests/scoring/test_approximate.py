"""An index names candidates; what they score does not depend on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import SMALL, random_triples
from ookg.errors import InputError
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.model import Model
from ookg.models import RotatE, TransE, TransH
from ookg.models.embedding import Embedding
from ookg.models.geometry import Geometry
from ookg.scoring.approximate import ApproximateIndex, Measured, clustered, number_of_lists
from ookg.scoring.nearest import gaps_to_all, gaps_to_some

MEASURED = Measured(100, 0.99, 0.97, 10.0, 2.0)


def embedding_of(geometry: Geometry, entities: int = 2500, dtype: torch.dtype = torch.float32) -> Embedding:
    generator = torch.Generator().manual_seed(0)
    tables = (torch.randn(rows, width, generator=generator) for rows, width in (
        (entities, geometry.entity_width), (5, geometry.relation_width)
    ))  # fmt: skip
    first, second = tables
    return Embedding(geometry, first.to(dtype), second.to(torch.float64 if dtype == torch.float64 else torch.float32))


def by_hand(embedding: Embedding, lists: int, probes: int) -> ApproximateIndex:
    """Each entity in the list of the nearest of the first entities; without faiss."""
    centres = embedding.entities[:lists].to(embedding.dtype)
    list_of = gaps_to_all(replace(embedding, entities=centres), embedding.entities.to(embedding.dtype)).argmin(axis=1)
    members = np.argsort(list_of, kind="stable")
    offsets = np.searchsorted(list_of[members], np.arange(lists + 1))
    return ApproximateIndex(embedding, centres.float(), offsets, members, probes, MEASURED)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "geometry", [TransE(8), TransE(300, norm=2), TransE(8, norm=2, squared=True), RotatE(6), RotatE(200, norm=2)]
)
def test_gaps_to_some_are_those_to_all(geometry: Geometry, dtype: torch.dtype) -> None:
    embedding = embedding_of(geometry, dtype=dtype)
    point = torch.randn(1, geometry.entity_width, generator=torch.Generator().manual_seed(1), dtype=embedding.dtype)
    entities = np.array([0, 7, 2499, 7, 1024])
    np.testing.assert_array_equal(gaps_to_some(embedding, point, entities), gaps_to_all(embedding, point)[0][entities])


def test_candidates_are_the_members_of_the_nearest_lists() -> None:
    table = torch.tensor([[0.0], [10.0], [1.0], [11.0], [30.0]])
    embedding = Embedding(TransE(1), table, torch.zeros(1, 1))
    index = ApproximateIndex(embedding, torch.tensor([[0.5], [10.5], [30.0]]), np.array([0, 2, 4, 5]),
                             np.array([0, 2, 1, 3, 4]), 2)  # fmt: skip
    assert index.candidates(torch.tensor([[9.0]])).tolist() == [0, 1, 2, 3]
    assert index.candidates(torch.tensor([[25.0]])).tolist() == [1, 3, 4]
    assert index.nearest_lists(torch.tensor([[25.0]]), 3).tolist() == [2, 1, 0]
    assert index.list_of.tolist() == [0, 1, 0, 1, 2]
    assert replace(index, probes=3).candidates(torch.tensor([[9.0]])).tolist() == [0, 1, 2, 3, 4]
    assert index.share == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "changed",
    [
        {"probes": 0},
        {"probes": 4},
        {"offsets": np.array([0, 2, 4, 6])},
        {"offsets": np.array([0, 4, 2, 5])},
        {"members": np.array([0, 2, 1, 3, 3])},
        {"members": np.array([0, 2, 1, 3])},
        {"centres": torch.zeros(3, 2)},
    ],
)
def test_an_index_that_cannot_be_is_refused(changed: dict[str, object]) -> None:
    embedding = Embedding(TransE(1), torch.arange(5.0)[:, None], torch.zeros(1, 1))
    sound = ApproximateIndex(embedding, torch.zeros(3, 1), np.array([0, 2, 4, 5]), np.array([0, 2, 1, 3, 4]), 2)
    with pytest.raises(ValueError, match="lists"):
        replace(sound, **changed)  # type: ignore[arg-type]


def test_as_many_lists_as_suit_the_entities() -> None:
    assert [number_of_lists(size) for size in (1, 7, 80, 10_000, 1_000_000)] == [1, 1, 10, 400, 4000]


def test_faiss_puts_each_entity_into_one_list() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed; pip install faiss-cpu")
    seen: list[int] = []
    index = clustered(embedding_of(RotatE(4), 500), seed=3, report=seen.append)
    assert len(index.centres) == 62
    assert seen == [500]
    again = clustered(index.embedding, seed=3)
    np.testing.assert_array_equal(index.members, again.members)
    # Each is in the list whose centre is nearest.
    gaps = torch.cdist(index.embedding.entities, index.centres)
    assert (gaps.argmin(dim=1).numpy() == index.list_of).mean() > 0.99


def test_a_model_that_projects_has_no_index() -> None:
    with pytest.raises(InputError, match="TransH sees the entities anew through each relation"):
        clustered(embedding_of(TransH(4), 50))


# Answers by an index.


@pytest.fixture(scope="module")
def large() -> Model:
    """As far as a small model goes: 300 entities."""
    import ookg

    return ookg.train(random_triples(3, entities=300, size=1500), SMALL.changed({"steps": 200}), device="cpu")


GIVEN = [("new", "r0", "e1"), ("new", "r1", "e7"), ("e3", "r2", "new"), ("other", "r1", "e7")]


def answers(
    model: Model, index: ApproximateIndex | None, question: Question, **options: object
) -> list[tuple[str, float]]:
    chosen = AnswerOptions(combine=False, approximate=index, **options)  # type: ignore[arg-type]
    prediction = model.extend(GIVEN).predict_all([question], chosen)[0]
    return [(one.entity, one.score) for one in prediction.answers]


@pytest.mark.parametrize("question", [Question("r1", head="e5"), Question("r2", tail="e9"), Question("r0", head="new")])
@pytest.mark.parametrize("options", [{}, {"drop_known": False}, {"new_answers": False}, {"top": 3}])
def test_all_lists_give_the_exact_answers(large: Model, question: Question, options: dict[str, object]) -> None:
    index = by_hand(large.embedding, 12, 12)
    assert answers(large, index, question, **options) == answers(large, None, question, **options)


def test_few_lists_miss_answers_and_change_no_score(large: Model) -> None:
    index, missed = by_hand(large.embedding, 12, 2), 0
    for number in range(20):
        question = Question("r1", head=f"e{number}")
        exact = dict(answers(large, None, question, top=300))
        some = answers(large, index, question, top=5)
        assert all(exact[label] == score for label, score in some)
        missed += len({label for label, _ in answers(large, None, question, top=5)} - dict(some).keys())
    assert 0 < missed < 80


def test_newcomers_are_answers_whatever_the_index_names(large: Model) -> None:
    question, index = Question("r1", tail="e7"), by_hand(large.embedding, 12, 1)
    exact = answers(large, None, question, drop_known=False, top=1)
    assert exact[0][0] == "other"  # its one triple makes its vector the best there is
    assert answers(large, index, question, drop_known=False)[0] == exact[0]
    assert "other" not in dict(answers(large, index, question, drop_known=False, new_answers=False))


def test_what_is_approximate_says_so(large: Model) -> None:
    index, extended = by_hand(large.embedding, 12, 6), large.extend(GIVEN)
    known, new = Question("r1", head="e5"), Question("r1", head="new")

    def recall(question: Question, **options: object) -> float | None:
        chosen = AnswerOptions(approximate=index, **options)  # type: ignore[arg-type]
        return extended.predict_all([question], chosen)[0].recall

    assert recall(known) == 0.97
    assert recall(known, combine=False) == 0.97
    assert recall(new, combine=False) == 0.97
    # What needs the scores of all entities has them.
    assert recall(new, combine=True) is None
    assert recall(known, combine=True) is None
    assert recall(known, explain=True) is None
    assert recall(known, top=11) is None
    both = extended.predict_all([known, new], AnswerOptions(combine=False, approximate=index))
    assert [one.question for one in both] == [known, new]
    assert extended.likely("e5", options=AnswerOptions(approximate=index)) == extended.likely("e5")


def test_of_known_entities_evidence_is_left_out_where_an_index_answers(large: Model) -> None:
    extended, index = large.extend(), by_hand(large.embedding, 12, 6)
    served = extended.predict(head="e5", relation="r1", approximate=index)
    exact = extended.predict(head="e5", relation="r1")
    assert (served.recall, served.way) == (0.97, "trained vector")
    assert (exact.recall, exact.way) == (None, "trained vector with links, likeness")
    # Its list is too short for ten answers: they are those that evidence ranks.
    lonely = ApproximateIndex(large.embedding, large.embedding.entities[:2], np.array([0, 3, 300]), np.arange(300), 1)
    answered = [
        (extended.predict(head=f"e{number}", relation="r0", approximate=lonely), f"e{number}") for number in range(60)
    ]
    exactly = [(prediction, label) for prediction, label in answered if prediction.recall is None and prediction.way]
    assert any(prediction.way == "trained vector with links, likeness" for prediction, _ in exactly)
    for prediction, label in exactly:
        if prediction.way == "trained vector with links, likeness":
            assert prediction == extended.predict(head=label, relation="r0")


def test_an_index_of_other_vectors_is_not_used(large: Model) -> None:
    moved = replace(large.embedding, entities=large.embedding.entities.clone())
    index = replace(by_hand(large.embedding, 12, 1), embedding=moved)
    question = Question("r1", head="e5")
    prediction = large.extend().predict_all([question], AnswerOptions(approximate=index))[0]
    assert prediction.recall is None
    assert prediction == large.extend().predict_all([question])[0]


def test_a_question_with_too_few_candidates_is_answered_exactly(large: Model) -> None:
    lonely = ApproximateIndex(
        large.embedding,
        large.embedding.entities[:2].clone(),
        np.array([0, 3, 300]),
        np.arange(300),
        1,
        MEASURED,
    )
    lists = {}
    for number in range(60):
        question = Question("r0", head=f"e{number}")
        prediction = large.extend().predict_all([question], AnswerOptions(combine=False, approximate=lonely))[0]
        lists[prediction.recall] = prediction
        assert len(prediction.answers) == 10
    assert set(lists) == {None, 0.97}


def test_removed_triples_leave_the_index_in_use(large: Model) -> None:
    index, extended = by_hand(large.embedding, 12, 12), large.extend()
    head, relation, tail = large.known_triples[0].tolist()
    triple = (large.entities.label(head), large.relations.label(relation), large.entities.label(tail))
    question = Question(triple[1], head=triple[0])
    options = AnswerOptions(combine=False, approximate=index)
    extended.remove([triple])
    assert extended.predict_all([question], options)[0].recall == 0.97
    assert (
        extended.predict_all([question], options)[0].answers
        == extended.predict_all([question], AnswerOptions(combine=False))[0].answers
    )
