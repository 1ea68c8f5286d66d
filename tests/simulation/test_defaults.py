from __future__ import annotations

from dataclasses import replace

import pytest

import ookg
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, RankingWeights
from ookg.newcomers.reducer import Correlation, Degree, Uniform
from ookg.newcomers.refinement import RefineSettings
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.contenders import NewcomerSetup
from ookg.simulation.defaults import REDUNDANT_SHARE, NewcomerDefaults
from ookg.simulation.ways import DEFAULT_WAYS, Way, Ways

GRAPH = [(f"e{number}", "next", f"e{(number + 1) % 9}") for number in range(9)]
CHOICE = NewcomerChoice(
    power=2.0, refine=RefineSettings(steps=7), best="combined", ranking={"refined": RankingWeights(1, 2, 3)}
)


@pytest.fixture(scope="module")
def model() -> ookg.Model:
    return ookg.train(GRAPH, ookg.TrainingSettings(dim=4, steps=5, batch=8, negatives=2, margin=5.0))


def test_model_and_simulation_take_what_is_stored(model: ookg.Model) -> None:
    chosen = model.with_choice(CHOICE)
    assert chosen.default_weights(Correlation()) == Correlation(2.0)
    assert chosen.default_weights(Degree()) == Degree()
    assert chosen.refinement(True) == CHOICE.refine
    assert chosen.ranking_weights(True, True) == RankingWeights(1, 2, 3)
    assert chosen.combines(True)
    setup = NewcomerSetup(2.0, RefineSettings(steps=7), RankingWeights(1, 2, 3), DEFAULT_WAYS)
    assert NewcomerSetup.of(chosen.checkpoint) == setup
    ways = Ways([Way(1, False, RankingWeights.alone()), Way(4, True, RankingWeights.alone(vector=2.0, new=-1.0))])
    chosen = model.with_choice(replace(CHOICE, ways=ways))
    assert chosen.ways == NewcomerSetup.of(chosen.checkpoint).ways == ways
    assert NewcomerChoice.from_dict(chosen.choice.to_dict()).ways == ways


def test_and_the_defaults_where_nothing_is(model: ookg.Model) -> None:
    assert model.default_weights(Correlation()) == Correlation()
    assert model.refinement(False) is None
    assert model.refinement(True) == NewcomerSetup.of(model.checkpoint).refine
    assert model.ranking_weights(True, True) == RankingWeights()
    assert model.ranking_weights(True, False) == CLOSED_FORM_WEIGHTS
    assert NewcomerSetup.of(model.checkpoint, refine=False) == NewcomerSetup(
        Correlation().power, None, CLOSED_FORM_WEIGHTS, DEFAULT_WAYS.without_refining()
    )
    assert model.ways == DEFAULT_WAYS
    defaults = NewcomerDefaults.of(model.checkpoint)
    assert defaults.combines(True, lambda: REDUNDANT_SHARE)
    assert not defaults.combines(True, lambda: REDUNDANT_SHARE / 2)
    assert not defaults.combines(False, lambda: pytest.fail("counted in vain"))


def test_without_training_triples_weights_are_uniform(model: ookg.Model) -> None:
    bare = NewcomerDefaults.of(replace(model.checkpoint, graph=None))
    assert bare.weights(Correlation()) == Uniform()
    assert not bare.combines(True, lambda: 1.0)
    assert bare.ways is None
