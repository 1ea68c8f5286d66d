"""Short paths against powers of dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.evidence import paths
from ookg.evidence.paths import LONG_PATH_SCALE, Paths
from ookg.types import FloatArray, IntArray

ENTITIES = 12


def random_triples(seed: int) -> IntArray:
    """Sparse, with duplicates, both directions and a self-loop; the last entity is alone."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.integers(0, high, 14) for high in (ENTITIES - 1, 3, ENTITIES - 1)], axis=1)
    found[0, 2] = found[0, 0]
    return np.concatenate([found, found[:3], found[3:5, ::-1]])


def dense_features(triples: IntArray, claims: IntArray) -> FloatArray:
    joined = np.zeros((ENTITIES, ENTITIES))
    for head, _, tail in triples.tolist():
        joined[head, tail] = joined[tail, head] = 1
    degree = joined.sum(axis=1)
    leave = np.diag(1 / np.maximum(degree, 1))
    common, two, three = joined @ joined, joined @ leave @ joined, joined @ leave @ joined @ leave @ joined
    head, _, tail = claims.T
    at = (head, tail)
    columns = [np.log1p(common[at]), two[at], np.log1p(LONG_PATH_SCALE * three[at]), three[at] > 0]
    return np.stack([*columns, np.log1p(degree[head]), np.log1p(degree[tail])], axis=1)


def all_claims() -> IntArray:
    head, tail = (part.ravel() for part in np.indices((ENTITIES, ENTITIES)))
    return np.stack([head, np.zeros_like(head), tail], axis=1)


@pytest.mark.parametrize("seed", range(4))
def test_features_are_matrix_powers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    triples, claims = random_triples(seed), all_claims()
    expected = dense_features(triples, claims)
    found = Paths.count(triples, ENTITIES).of_claims(claims)
    assert found.shape == (len(claims), len(Paths.NAMES))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert {0.0, 1.0} == set(found[:, 3].tolist())
    monkeypatch.setattr(paths, "REACHED_AT_ONCE", 5)
    np.testing.assert_allclose(Paths.count(triples, ENTITIES).of_claims(claims), expected, rtol=1e-12, atol=1e-15)


def test_a_chain_by_hand() -> None:
    chain = np.array([[0, 0, 1], [2, 1, 1], [2, 0, 3]])  # 0 - 1 - 2 - 3, and 4 alone
    found = Paths.count(chain, 5).of_claims(np.array([[0, 0, 2], [0, 0, 3], [0, 0, 4]]))
    apart = [np.log(2), 0.5, 0, 0, np.log(2), np.log(3)]  # one neighbour in common, which leads to two
    by_three = [0, 0, np.log1p(LONG_PATH_SCALE / 4), 1, np.log(2), np.log(2)]
    np.testing.assert_allclose(found, [apart, by_three, [0, 0, 0, 0, np.log(2), 0]])


def test_paths_of_nothing() -> None:
    nothing = np.empty((0, 3), dtype=np.int64)
    assert Paths.count(nothing, 3).of_claims(np.array([[0, 0, 1], [2, 0, 2]])).tolist() == [[0.0] * 6] * 2
    assert Paths.count(random_triples(0), ENTITIES).of_claims(nothing).shape == (0, 6)
