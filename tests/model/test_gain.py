from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError
from ookg.model import gain
from ookg.model.gain import held_out, measured_gain
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.training.continuing import Continued, Growth, Moved, UpdateSettings

NOTHING = np.empty((0, 3), dtype=np.int64)


def line_of(size: int) -> Embedding:
    """Entities on a line, one apart; relation 0 goes one step up."""
    return Embedding(TransE(1), torch.arange(size).float()[:, None], torch.ones(1, 1))


def test_what_is_new_keeps_a_triple() -> None:
    added = np.array([(5, 0, 1), (5, 0, 2), (2, 0, 6), (3, 1, 4), (3, 1, 2), (0, 0, 2), (1, 0, 3)])
    growth = Growth(NOTHING, added, 7, 2)
    for seed in range(20):
        held = held_out(line_of(5), growth, 0.5, seed)
        rest = np.delete(added, held, axis=0)
        assert len(held) <= 4
        assert {5, 6} <= set(rest[:, [0, 2]].ravel().tolist())
        assert 1 in rest[:, 1]


def test_shares_that_make_no_sense_are_refused() -> None:
    growth = Growth(NOTHING, np.array([(5, 0, 1)]), 6, 1)
    for share in (0.0, 0.6, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"above 0 and at most 0\.5"):
            held_out(line_of(5), growth, share, 0)
    with pytest.raises(InputError, match="none of 1 added triples can be held out"):
        held_out(line_of(5), growth, 0.5, 0)


def test_ranks_before_and_after_worked_out_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held out is (0, 0, 3). Before: 3 is third from 0 + 1, and 0 from 3 - 1 too; after: 3 stands where 1 did."""
    growth = Growth(NOTHING, np.array([(0, 0, 3)]), 5, 1)
    before, after = line_of(5), line_of(5)
    after.entities[:, 0] = torch.tensor([0.0, 9.0, 8.0, 1.0, 7.0])
    monkeypatch.setattr(gain, "held_out", lambda *_: np.array([0]))

    def continued(embedding: Embedding, rest: Growth, trained: object, update: UpdateSettings, *_: object) -> Continued:
        assert not len(rest.added)  # it does not see what is asked
        return Continued(before if update.steps == 0 else after, 0, 0.0, Moved(0.0, 0.0))

    monkeypatch.setattr(gain, "continue_training", continued)
    found = measured_gain(before, growth, SMALL, UpdateSettings(steps=3), 0.5)
    # Gaps from 1: 1 0 1 2 3, so that 3 is fourth; from 2: 2 1 0 1 2, so that 0 shares the last two places.
    assert found.before == pytest.approx((1 / 4 + 1 / 4.5) / 2)
    assert (found.triples, found.after) == (1, 1.0)


def test_an_update_says_what_it_gained(tmp_path: Path) -> None:
    ookg.train(random_triples(0), SMALL, out=tmp_path / "model", device="cpu")
    living = ookg.open(tmp_path / "model")
    living.add([(f"n{number % 3}", "r0", f"e{number}") for number in range(12)])
    updated = living.update(UpdateSettings(steps=5), validate=0.25)
    assert updated.gained is not None
    assert updated.gained.triples == 3
    assert 0 < updated.gained.before <= 1
    assert 0 < updated.gained.after <= 1
    assert updated.added == 12  # the version has learned all of them
    assert living.update(UpdateSettings(steps=1)).gained is None
