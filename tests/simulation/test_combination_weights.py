"""Fitted weights of the combination: bounded in memory, never negative, taken where they hold for other entities."""

from __future__ import annotations

from time import monotonic
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.evidence.combined import RankingWeights, standardised
from ookg.evidence.fitting import fit_ranking
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation import contenders
from ookg.simulation.choosing import is_better
from ookg.simulation.contenders import Contenders
from ookg.simulation.hiding import Hidden, HidingSettings
from ookg.simulation.simulated import Simulation
from ookg.simulation.tuning import TuningSettings, _Search
from ookg.types import FloatArray

KNOWN = 60
NOW = RankingWeights(vector=1.0, links=0.0, habits=0.0)


def planted(relations: int, *, second_is_rare: bool) -> Simulation:
    """Two new entities, asked about every relation but the last; vectors say nothing.

    Relation r has the tail r five times. That is the right answer for the first entity, and for the second too, unless
    its right answers are entities that have never been a tail.
    """
    first, second = KNOWN, KNOWN + 1
    number = np.arange(relations)
    known = [(30 + (r + step) % 30, r, r % 20) for r in range(relations + 1) for step in range(5)]
    known += [(entity, relations, (entity + 1) % KNOWN) for entity in range(KNOWN)]
    given = np.array([(entity, relations, 25) for entity in (first, second)])
    answers = {first: number % 20, second: 20 + number % 10 if second_is_rare else number % 20}
    questions = np.concatenate(
        [np.stack([np.full(relations, entity), number, found], axis=1) for entity, found in answers.items()]
    )
    true = np.concatenate([np.array(known), given, questions])
    hidden = Hidden(np.arange(KNOWN + 2), KNOWN, relations + 1, np.array(known), given, questions, true, 2)
    random = torch.Generator().manual_seed(0)
    table = torch.randn(KNOWN, 4, generator=random), torch.randn(relations + 1, 4, generator=random)
    return Simulation.of(hidden, Embedding(TransE(4), *table), None, is_exact=True)


def search(simulation: Simulation) -> _Search:
    return _Search(simulation, TuningSettings(HidingSettings(sample=2)), monotonic())


def test_weights_that_do_not_hold_for_other_entities_are_not_taken() -> None:
    simulation = planted(30, second_is_rare=True)
    ways = Contenders(simulation, 4.0)
    fitted = ways.fitted_weights(ways.closed, simulation.queries)
    # On the entities they were fitted to they are far better: half of the answers come first.
    before, found = (1 / simulation.ranks(ways.combined(ways.closed, weights)) for weights in (NOW, fitted))
    assert is_better(found, before)
    tried = search(simulation)
    assert tried.ranking(4.0, None, {"closed form": NOW}) == {"closed form": NOW}
    now, crossed = tried.trials
    assert now.values == NOW.to_dict()
    assert crossed.values == fitted.to_dict()
    assert crossed.mrr < now.mrr


def test_weights_that_hold_for_other_entities_are_taken_as_fitted_to_all() -> None:
    simulation = planted(30, second_is_rare=False)
    ways = Contenders(simulation, 4.0)
    fitted = ways.fitted_weights(ways.closed, simulation.queries)
    assert fitted.habits > 1
    assert search(simulation).ranking(4.0, None, {"closed form": NOW}) == {"closed form": fitted}
    # Nothing is gained over these, so they stay although a fit to other questions gives others.
    near = RankingWeights(fitted.vector, fitted.links, fitted.habits * 1.01)
    assert search(simulation).ranking(4.0, None, {"closed form": near}) == {"closed form": near}


def test_few_questions_are_not_fitted_to() -> None:
    tried = search(planted(24, second_is_rare=False))
    assert len(tried.simulation.queries) == 48
    assert tried.ranking(4.0, None, {"closed form": NOW}) == {"closed form": NOW}
    assert tried.trials == []


def test_no_weight_is_negative() -> None:
    simulation = planted(30, second_is_rare=True)
    rare = simulation.queries.select(simulation.query_newcomer == 1)
    ways = Contenders(simulation)
    found = ways.fitted_weights(ways.closed, rare)
    assert found.habits == 0
    assert min(found.to_dict().values()) >= 0


def test_rivals_are_sampled_so_that_many_questions_are_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = planted(200, second_is_rare=False)
    ways = Contenders(simulation)
    seen: dict[str, Any] = {}

    def spy(features: tuple[Tensor, ...], answers: Tensor, left_out: Tensor) -> FloatArray:
        seen.update(features=features, answers=answers, left_out=left_out)
        return fit_ranking(features, answers, left_out)

    monkeypatch.setattr(contenders, "fit_ranking", spy)
    whole = ways.fitted_weights(ways.closed, simulation.queries)
    assert seen["features"][0].shape == (400, 1 + KNOWN)
    # Room for 26 questions among all 60 known entities: instead, 300 of them among 5.
    monkeypatch.setattr(contenders, "FIT_QUESTIONS", 300)
    monkeypatch.setattr(contenders, "FIT_NUMBERS", 4 * 300 * 5 + 100)
    monkeypatch.setattr(contenders, "SCORES_AT_ONCE", 7 * KNOWN)
    sampled = ways.fitted_weights(ways.closed, simulation.queries, seed=3)
    assert [feature.shape for feature in seen["features"]] == [(300, 6)] * 3
    assert not seen["left_out"][:, 0].any()
    assert seen["answers"].tolist() == [0] * 300
    assert sampled == ways.fitted_weights(ways.closed, simulation.queries, seed=3)
    assert sampled.habits == pytest.approx(whole.habits, rel=0.5)


def test_what_is_kept_are_columns_of_the_whole_features_without_other_right_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation = planted(40, second_is_rare=True)
    ways, queries, rivals = Contenders(simulation), simulation.queries, np.array([0, 3, 20, 59])
    monkeypatch.setattr(contenders, "SCORES_AT_ONCE", 7 * KNOWN)  # seven questions at once
    sizes: list[int] = []
    scores = TranslationScorer.answer_scores

    def spy(scorer: TranslationScorer, part: Queries) -> Tensor:
        sizes.append(len(part))
        return scores(scorer, part)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationScorer, "answer_scores", spy)
        found = ways._features(ways.closed, queries, rivals, ("vector", "links", "habits"))
    assert sizes == [7] * 11 + [3]
    columns = torch.from_numpy(np.concatenate([queries.answer[:, None], np.tile(rivals, (len(queries), 1))], axis=1))
    whole: tuple[Any, ...] = (
        standardised(TranslationScorer(ways.closed).answer_scores(queries), KNOWN),
        simulation.evidence["links"].of_answers(queries, KNOWN, "cpu"),
        simulation.evidence["habits"].of_answers(queries, KNOWN, "cpu"),
    )
    for kept, full in zip(found, whole, strict=True):
        assert torch.allclose(kept, full.gather(1, columns), atol=1e-6)
    true = {tuple(row) for row in simulation.hidden.true.tolist()}
    expected = [
        [False, *((entity, relation, rival) in true for rival in rivals.tolist())]
        for entity, relation in zip(queries.entity.tolist(), queries.relation.tolist(), strict=True)
    ]
    assert ways._right_answers(queries, rivals).tolist() == expected
    assert any(map(any, expected))


def test_sources_that_were_chosen_by_hand_are_fitted_too() -> None:
    simulation = planted(30, second_is_rare=False)
    ways = Contenders(simulation)
    by_default = ways.fitted_weights(ways.closed, simulation.queries)
    assert list(by_default) == ["vector", "links", "habits"]
    # The right answers are tails of relations that the heads, and so 25, have no part in: paths lead elsewhere.
    chosen = ways.fitted_weights(ways.closed, simulation.queries, now=RankingWeights(paths=1.0))
    assert chosen["paths"] == 0
    seen = ways._features(ways.closed, simulation.queries, np.arange(KNOWN), ("paths",))
    assert seen.shape == (1, 60, 1 + KNOWN)
    assert seen[:, :, 1:].max() > 0
    assert seen[:, :, 0].max() == 0
