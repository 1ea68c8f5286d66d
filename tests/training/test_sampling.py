from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ookg.kernels import randomness
from ookg.training.sampling import Sampler, TrueAnswers, subsampling_weights
from ookg.training.settings import TrainingSettings


def sampler(triples: list[list[int]], entities: int, relations: int, **values: object) -> Sampler:
    return Sampler(torch.tensor(triples), entities, relations, TrainingSettings().changed(values))


def test_splitmix_equals_its_published_sequence() -> None:
    # The first outputs of SplitMix64 from state 0.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert randomness.mix(0) == expected[0]
    found = randomness.draws(0, torch.arange(3)).tolist()
    assert [value % 2**64 for value in found] == expected


def test_tensor_and_scalar_randomness_agree() -> None:
    start = randomness.stream(7, 1, 2)
    found = randomness.draws(start, torch.arange(100)).tolist()
    for counter, value in enumerate(found):
        state = (start + counter * randomness.GOLDEN) % 2**64
        assert value % 2**64 == randomness.mix(state)


def test_draws_are_uniform() -> None:
    ids = randomness.below(randomness.draws(randomness.stream(3), torch.arange(200_000)), 7)
    counts = torch.bincount(ids, minlength=7)
    assert len(counts) == 7
    assert (counts - 200_000 / 7).abs().max() < 5 * math.sqrt(200_000 / 7)


def test_streams_differ_by_each_name() -> None:
    starts = {randomness.stream(seed, a, b) for seed in range(5) for a in range(5) for b in range(5)}
    assert len(starts) == 125


def test_each_side_sees_every_triple_once_an_epoch() -> None:
    triples = [[i, 0, (i + 1) % 12] for i in range(12)]
    found = sampler(triples, 12, 1, batch=4, negatives=1)
    for side in (0, 1):
        epochs = [torch.cat([found.rows(2 * number + side) for number in range(3 * e, 3 * e + 3)]) for e in (0, 1)]
        assert all(sorted(epoch.tolist()) == list(range(12)) for epoch in epochs)
        assert epochs[0].tolist() != epochs[1].tolist()
    assert found.rows(0).tolist() != found.rows(1).tolist()


def test_the_last_batch_is_filled_up_and_a_large_batch_is_cut() -> None:
    triples = [[i, 0, i] for i in range(10)]
    found = sampler(triples, 10, 1, batch=4, negatives=1)
    assert found.batches_per_epoch == 3
    assert found.rows(4)[2:].tolist() == found.rows(0)[:2].tolist()
    assert len(sampler(triples, 10, 1, batch=1000, negatives=1)(0).triples) == 10


def test_steps_alternate_tails_then_heads() -> None:
    found = sampler([[0, 0, 1], [1, 0, 2]], 50, 1, batch=2, negatives=8)
    assert [found(step).corrupts_head for step in range(4)] == [False, True, False, True]


def test_negatives_are_false_and_cover_all_ids() -> None:
    triples = [[0, 0, t] for t in range(6)] + [[h, 1, 7] for h in range(5)]
    known = {tuple(row) for row in triples}
    found = sampler(triples, 8 + 2, 2, batch=11, negatives=40)
    seen = set()
    for step in range(6):
        batch = found(step)
        for (h, r, t), ids, usable in zip(
            batch.triples.tolist(), batch.negatives.tolist(), batch.usable.tolist(), strict=True
        ):
            assert all(usable)
            for e in ids:
                assert ((e, r, t) if batch.corrupts_head else (h, r, e)) not in known
                seen.add(e)
    assert seen == set(range(10))  # the two that no triple has, too


def test_where_everything_is_true_no_negative_is_usable() -> None:
    found = sampler([[0, 0, t] for t in range(3)], 3, 1, batch=3, negatives=5)
    assert not found(0).usable.any()  # every tail is a right one
    assert found(1).usable.any()  # but heads 1 and 2 are false


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    triples = [[i, 0, i + 1] for i in range(30)]
    first, second = (sampler(triples, 31, 1, batch=8, negatives=4, seed=5) for _ in range(2))
    first(0)
    for step in (9, 2):
        assert torch.equal(first(step).negatives, second(step).negatives)
        assert torch.equal(first(step).triples, second(step).triples)
    other = sampler(triples, 31, 1, batch=8, negatives=4, seed=6)
    assert not torch.equal(first(2).negatives, other(2).negatives)


def test_subsampling_weights_by_hand() -> None:
    # (h, r) and (r, t) counts: a pair's first occurrence counts 4, each further one 1.
    triples = torch.tensor([[0, 0, 1], [0, 0, 2], [3, 0, 2], [3, 1, 2]])
    expected = [1 / math.sqrt(5 + 4), 1 / math.sqrt(5 + 5), 1 / math.sqrt(4 + 5), 1 / math.sqrt(4 + 4)]
    assert subsampling_weights(triples).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("step", [0, 1])
def test_triples_share_negatives_in_chunks(step: int) -> None:
    triples = [[head, relation, (head * 7 + relation) % 9] for head in range(9) for relation in range(2)]
    shared = sampler(triples, 9, 2, batch=7, negatives=5, negatives_shared=3)
    own = sampler(triples, 9, 2, batch=7, negatives=5)
    batch, other = shared(step), own(step)
    assert torch.equal(batch.triples, other.triples)
    for row in range(7):
        assert torch.equal(batch.negatives[row], batch.negatives[row - row % 3])
        head, relation, tail = batch.triples[row].tolist()
        for negative, usable in zip(batch.negatives[row].tolist(), batch.usable[row].tolist(), strict=True):
            triple = [negative, relation, tail] if step else [head, relation, negative]
            assert usable == (triple not in triples)
    assert not torch.equal(batch.negatives[0], batch.negatives[3])
    assert not batch.usable.all()


def test_true_triples_are_known_where_one_number_for_each_would_overflow() -> None:
    entities, relations = 2_000_000, 3_000_000
    assert entities * relations * entities > 1 << 63
    triples = torch.tensor([[entities - 1, relations - 1, tail] for tail in (0, 5, entities - 1)] + [[3, 7, 5]])
    head, relation, tail = triples.unbind(dim=1)
    tails = TrueAnswers.of(head, relation, tail, entities)
    assert tails.hold(head, relation, tail).all()
    assert not tails.hold(head, relation, tail + 1 - 2 * (tail == entities - 1).long()).any()
    assert not tails.hold(head, relation - 1, tail).any()
    assert not tails.hold(torch.zeros_like(head), relation, tail).any()


def test_true_answers_against_a_set() -> None:
    rng = np.random.default_rng(0)
    triples = np.unique(rng.integers(0, (6, 3, 6), (60, 3)), axis=0)
    everything = torch.cartesian_prod(torch.arange(6), torch.arange(3), torch.arange(6))
    expected = [tuple(row) in {tuple(one) for one in triples.tolist()} for row in everything.tolist()]
    built = sampler(triples.tolist(), 6, 3)
    head, relation, tail = everything.unbind(dim=1)
    assert built.tails.hold(head, relation, tail).tolist() == expected
    assert built.heads.hold(tail, relation, head).tolist() == expected
    assert 0 < sum(expected) < len(expected)
