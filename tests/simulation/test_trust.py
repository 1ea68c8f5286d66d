"""Evidence and expectations of new vectors: worked out by hand, bounded in memory, honest on what was not fitted."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from ookg.errors import InputError
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.prior import Residuals
from ookg.newcomers.reducer import Uniform
from ookg.simulation import trust
from ookg.simulation.trust import (
    Calibration,
    Outcomes,
    Trust,
    calibration_error,
    spreads,
    trust_of,
    trust_table,
    uncertainties,
)
from ookg.types import FloatArray

# Four entities and a relation that moves by (1, 0).
EMBEDDING = Embedding(
    TransE(2), torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0], [5.0, 5.0]]), torch.tensor([[1.0, 0.0]])
)

NOTHING = np.empty((0, 3), dtype=np.int64)


def newcomers(given: list[tuple[int, int, int]], embedding: Embedding = EMBEDDING) -> Newcomers:
    return find_newcomers(embedding, None, NOTHING, np.array(given), Uniform())


def outcomes(seed: int, size: int, useful: bool = True) -> Outcomes:
    """Entities whose answers are the better, the more triples and the less uncertainty they have; or by chance."""
    random = np.random.default_rng(seed)
    triples, uncertainty = random.integers(1, 60, size), random.random(size)
    logit = -1 + 0.9 * np.log(triples) - 3 * uncertainty if useful else np.zeros(size)
    hits: FloatArray = (random.random(size) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    return Outcomes(triples, uncertainty, hits, hits * random.random(size))


def test_the_spread_is_the_mean_gap_to_the_mean_over_that_of_known_entities() -> None:
    # The newcomer 4 as the head of (4, 0) and (0, 6): candidates (3, 0) and (-1, 6), mean (1, 3), gaps 2 + 3 each.
    found = spreads(newcomers([(4, 0, 1), (4, 0, 2)]))
    assert found.tolist() == pytest.approx([5.0 / EMBEDDING.mean_gap])


def test_candidates_that_agree_have_no_spread_and_one_candidate_has_none_to_tell() -> None:
    # 4 is 1's tail, (5, 0); 5 is tied to 0 as its tail and to 0 moved by two relations' worth: (1, 0) and (1, 0).
    twin = Embedding(TransE(2), torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    found = trust_of(newcomers([(0, 0, 2), (2, 0, 1), (0, 0, 3)], twin))
    assert found == [Trust(2, 0.0, None, None, None), Trust(1, None, None, None, None)]


def test_an_entity_without_a_usable_triple_is_trusted_for_nothing() -> None:
    calibration = Calibration.fit(outcomes(0, 200), outcomes(1, 200))
    found = trust_of(newcomers([(4, 0, 1), (5, -1, 1)]), calibration, residuals=Residuals.of(EMBEDDING, NOTHING))
    assert found[1] == Trust(0, None, 1.0, None, None)
    assert found[0].expected_hits_at_10 is not None


def test_the_uncertainty_by_hand() -> None:
    # v₀ = (5.1875, 7.6875). The training triple 0 -> 1 is off by (-3, 0), so that s² = (9 + 10 v₀) / 11.
    residuals = Residuals.of(EMBEDDING, np.array([[0, 0, 1]]))
    variance = np.array([5.1875, 7.6875])
    residual = (np.array([9.0, 0.0]) + 10 * variance) / 11
    found = newcomers([(4, 0, 1), (4, 0, 2), (0, 0, 5), (6, 0, 4), (6, -1, 0)])
    # The candidates of 4 are (3, 0) and (-1, 6), each (2, 3) from their mean.
    scale = (1 + 2 * (np.array([4.0, 9.0]) / residual).mean()) / 2
    known = [2 / residual / scale, 1 / residual, 0 * residual]  # of 4 to known entities, of 5, of 6
    peers = [1 / (residual + variance) / scale, 0 * residual, 1 / (residual + variance)]
    expected = [
        np.sqrt((1 / (1 / variance + own + peer)).mean() / variance.mean())
        for own, peer in zip(known, peers, strict=True)
    ]
    assert uncertainties(found, residuals).tolist() == pytest.approx(expected, rel=1e-5)
    assert [one.uncertainty for one in trust_of(found, residuals=residuals)] == pytest.approx(expected, rel=1e-5)
    assert [one.uncertainty for one in trust_of(found)] == [None, None, None]


def test_triples_that_agree_lower_the_uncertainty_and_none_is_one() -> None:
    random = np.random.default_rng(1)
    table = torch.from_numpy(random.normal(size=(30, 6)).astype(np.float32))
    embedding = Embedding(TransE(6), table, table[:4])
    triples = np.stack([random.integers(0, 30, 90), random.integers(0, 4, 90), random.integers(0, 30, 90)], axis=1)
    residuals, given, before = Residuals.of(embedding, triples), [(31, -1, 0)], 1.0
    assert uncertainties(newcomers(given, embedding), residuals).tolist() == [1.0, 1.0]
    for number in range(4):  # the tail of entity 0 over each relation; all say the same if that has not moved
        given.append((0, number, 30))
    table[:4] = 0.0
    for size in range(2, 6):
        found = uncertainties(newcomers(given[:size], embedding), residuals)[-2]
        assert 0 < found < before
        before = found
    apart = uncertainties(newcomers([*given[:4], (9, 3, 30)], embedding), residuals)[0]
    assert before < apart < 1  # a triple that says something else


def test_a_calibration_of_before_goes_by_the_spread() -> None:
    fitted = Calibration.fit(outcomes(0, 400), outcomes(1, 400))
    values = fitted.to_dict()
    assert values["measure"] == "uncertainty"
    del values["measure"], values["largest"]
    before = Calibration.from_dict(values | {"most_spread": 0.5})
    assert before.measure == "spread"
    assert Calibration.from_dict(before.to_dict()) == before
    given = newcomers([(4, 0, 1), (4, 0, 2)])
    found = trust_of(given, before)[0]
    features = before.features(np.array([2]), spreads(given))
    assert found.expected_mrr == before.mrr.of(features)[0]
    with pytest.raises(InputError, match="give the model's residuals"):
        trust_of(given, fitted)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    table = torch.from_numpy(random.normal(size=(50, 8)).astype(np.float32))
    embedding = Embedding(TransE(8), table, table[:3])
    given = np.stack([random.integers(50, 70, 300), random.integers(0, 3, 300), random.integers(0, 50, 300)], axis=1)
    residuals = Residuals.of(embedding, given - np.array([50, 0, 0]))
    whole = trust_table(newcomers(given.tolist(), embedding), residuals=residuals)
    monkeypatch.setattr(trust, "CHUNK_NUMBERS", 8 * 7)
    parts = trust_table(newcomers(given.tolist(), embedding), residuals=residuals)
    assert np.allclose(whole.spread, parts.spread, rtol=1e-5)
    assert whole.uncertainty.tolist() == parts.uncertainty.tolist()
    some = trust_table(newcomers(given.tolist(), embedding), which=np.array([5, 2]), residuals=residuals)
    assert some.uncertainty.tolist() == whole.uncertainty[[5, 2]].tolist()
    assert np.allclose(some.spread, whole.spread[[5, 2]], rtol=1e-5)
    assert (some.triples == whole.triples[[5, 2]]).all()


def test_expectations_hold_on_entities_they_were_not_fitted_to() -> None:
    found = Calibration.fit(outcomes(0, 2000), outcomes(1, 2000))
    for expectation in (found.hits_at_10, found.mrr):
        assert expectation.gain > 0.1
        assert expectation.error < 0.06
    few, many = found.features(np.array([2, 50]), np.array([0.9, 0.1]))
    assert found.hits_at_10.of(few[None])[0] < 0.25
    assert found.hits_at_10.of(many[None])[0] > 0.75


def test_where_the_evidence_tells_nothing_a_constant_is_expected() -> None:
    found = Calibration.fit(outcomes(0, 60, useful=False), outcomes(5, 60, useful=False))
    seen = found.hits_at_10.of(found.features(np.array([1, 5, 50]), np.array([np.nan, 0.2, 0.9])))
    assert found.hits_at_10.gain == 0
    assert len(set(seen.tolist())) == 1


def test_more_than_was_ever_seen_counts_as_the_most_that_was() -> None:
    found = Calibration.fit(outcomes(0, 500), outcomes(1, 500))
    seen, beyond = found.features(np.array([found.most_triples, 10**6]), np.array([found.largest, 99.0]))
    assert seen.tolist() == beyond.tolist()


def test_the_calibration_error_is_worked_out_by_hand() -> None:
    # Two groups of 20: 0.2 is expected and 0.5 comes out, 0.8 is expected and 0.9 comes out.
    expected = np.repeat([0.2, 0.8], 20)
    outcome = np.concatenate([np.tile([0.0, 1.0], 10), np.repeat([1.0, 0.0], [18, 2])])
    assert calibration_error(expected, outcome) == pytest.approx(0.2)


def test_a_calibration_survives_json_and_a_damaged_one_is_refused() -> None:
    found = Calibration.fit(outcomes(0, 100), outcomes(1, 100))
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Calibration.from_dict(values) == found
    for damage in (
        {"mrr": None},
        {"measure": "mood"},
        {"largest": None},
        {"most_triples": "many"},
        {"hits_at_10": values["mrr"] | {"weights": [1.0]}},
    ):
        with pytest.raises(InputError, match="audit the model again"):
            Calibration.from_dict(values | damage)


def test_no_entities_are_no_calibration() -> None:
    with pytest.raises(InputError, match="hide more"):
        Calibration.fit(outcomes(0, 0), outcomes(1, 10))
