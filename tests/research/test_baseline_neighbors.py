from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.research.baselines import neighbors as neighbors_module
from ookg.research.baselines.aggregators import LogicAttention
from ookg.research.baselines.neighbors import NeighborTable, implication
from ookg.research.baselines.settings import OwnRelation

# Known entities 0 to 3, new ones 4 to 6; relations 0 and 1 are trained, 2 is not: directed relations are 0 to 3.
TINY = EncodedDataset(
    name="tiny",
    task="link-prediction",
    num_known=4,
    num_entities=7,
    num_trained=2,
    num_relations=3,
    train=np.array([[0, 0, 1], [2, 1, 0], [0, 1, 3], [0, 0, 0], [2, 0, 1], [3, 0, 2]]),
    valid=np.array([[0, 0, 2]]),
    aux=np.array([[4, 0, 1], [3, 1, 4], [4, 2, 0], [4, 0, 1], [5, 2, 1], [6, 0, 5], [5, 1, 5], [2, 0, 6]]),
    test=np.array([[4, 1, 2]]),
)


def listed(table: NeighborTable, entity: int) -> list[tuple[int, int]]:
    found = table.of_entities(torch.tensor([entity]))
    real = found.real[0]
    return list(zip(found.relation[0][real].tolist(), found.entity[0][real].tolist(), strict=True))


def test_neighbors_by_hand() -> None:
    table = NeighborTable.of(TINY, 8)
    assert listed(table, 0) == [(0, 1), (3, 2), (1, 3)]  # file order; the self-loop is left out
    assert listed(table, 1) == [(2, 0), (2, 2)]
    assert listed(table, 2) == [(1, 0), (0, 1), (2, 3)]  # nothing of aux: known entities stay as trained
    assert listed(table, 3) == [(3, 0), (0, 2)]
    assert listed(table, 4) == [(0, 1), (3, 3)]  # the duplicate and the untrained relation do not count
    assert listed(table, 5) == []
    assert listed(table, 6) == [(2, 2)]  # not (0, 5): two new entities
    assert table.count.tolist() == [3, 2, 3, 2, 2, 0, 1]


def test_only_the_first_neighbors_count() -> None:
    table = NeighborTable.of(TINY, 2)
    assert table.width == 2
    assert listed(table, 0) == [(0, 1), (3, 2)]
    assert listed(table, 2) == [(1, 0), (0, 1)]


def test_padding_stays_within_the_tables() -> None:
    table = NeighborTable.of(TINY, 8)
    assert int(table.entity.max()) < TINY.num_known
    assert int(table.relation.max()) < 2 * TINY.num_trained
    assert int(table.entity.min()) >= 0


def test_hiding_a_neighbor_moves_the_later_ones_up() -> None:
    table = NeighborTable.of(TINY, 8).with_discounts(implication(TINY))
    ids = torch.tensor([0, 0, 0, 6, 2])
    found = table.without(ids, torch.tensor([3, 0, 3, 2, -1]), torch.tensor([2, 2, 2, 2, -1]))
    kept = [
        list(zip(relation[real].tolist(), entity[real].tolist(), strict=True))
        for relation, entity, real in zip(found.relation, found.entity, found.real, strict=True)
    ]
    assert kept[0] == [(0, 1), (1, 3)]
    assert kept[1] == [(0, 1), (3, 2), (1, 3)]  # (0, 2) is no neighbour of entity 0: nothing is hidden
    assert kept[2] == kept[0]
    assert kept[3] == []
    assert kept[4] == [(1, 0), (0, 1), (2, 3)]
    assert table.discount is not None
    assert found.discount is not None
    assert found.discount[0, :2].tolist() == table.discount[0, [0, 2]].tolist()  # they move with their neighbours


def test_implication_by_hand() -> None:
    # Heads of 0: 0, 2, 3; of 1: 0, 2. Tails of 0: 0, 1, 2 (the self-loop counts here); of 1: 0, 3.
    counted = torch.tensor(
        [
            [1, 2 / 3, 2 / 3, 2 / 3],
            [1, 1, 1, 1 / 2],
            [2 / 3, 2 / 3, 1, 1 / 3],
            [1, 1 / 2, 1 / 2, 1],
        ]
    )
    torch.testing.assert_close(implication(TINY, "certain"), counted)
    # The mean of a row of four, its own entry counted as 0: (0 + 2/3 + 2/3 + 2/3) / 4, ...
    own = torch.tensor([1 / 2, 5 / 8, 5 / 12, 1 / 2])
    torch.testing.assert_close(implication(TINY, "mean"), counted - torch.eye(4) + torch.diag(own))
    assert torch.equal(implication(TINY), implication(TINY, "mean"))


def test_a_relation_that_train_does_not_have_implies_nothing() -> None:
    dataset = replace(TINY, num_trained=3)  # directed relations 2 and 5 occur nowhere in train
    for own_relation in get_args(OwnRelation):
        assert implication(dataset, own_relation)[[2, 5]].tolist() == [[0.0] * 6] * 2


@pytest.mark.parametrize("at_once", [1, 1 << 24])
def test_logic_weights_by_hand(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors_module, "PAIRS_AT_ONCE", at_once)
    implies = implication(TINY)
    table = NeighborTable.of(TINY, 8).with_discounts(implies)
    # Entity 4 has relations 0 and 3, asked for 1. 0: P(0 implies 1) = 2/3, P(3 implies 0) = 1, so 2/3 / 2.
    # 3: P(3 implies 1) = 1/2, P(0 implies 3) = 2/3, so 1/2 / (5/3).
    weights = LogicAttention(2, implies).logic(table.of_entities(torch.tensor([4])), torch.tensor([1]))
    torch.testing.assert_close(weights[0], torch.tensor([1 / 3, 0.3, 0.0]))
    # Asked for 0, which it has: P(0 implies 0) = 1/2, the mean of its row, over 2. 3: P(3 implies 0) = 1, over 5/3.
    weights = LogicAttention(2, implies).logic(table.of_entities(torch.tensor([4])), torch.tensor([0]))
    torch.testing.assert_close(weights[0], torch.tensor([0.25, 0.6, 0.0]))
    # Entity 6 has relation 2 alone: nothing discounts it.
    weights = LogicAttention(2, implies).logic(table.of_entities(torch.tensor([6])), torch.tensor([0]))
    torch.testing.assert_close(weights[0], torch.tensor([2 / 3, 0.0, 0.0]))


def test_discounts_do_not_depend_on_the_own_relation() -> None:
    table = NeighborTable.of(TINY, 8)
    certain, mean = (table.with_discounts(implication(TINY, own)).discount for own in get_args(OwnRelation))
    assert certain is not None
    assert mean is not None
    assert torch.equal(certain, mean)


def test_whole_discounts_count_the_relations_of_neighbors_without_room() -> None:
    implies = implication(TINY)
    kept = NeighborTable.of(TINY, 1).with_discounts(implies)
    found = NeighborTable.of(TINY, 1).with_whole_discounts(implies, TINY)
    assert kept.discount is not None
    assert found.discount is not None
    assert kept.discount.tolist() == [[1.0]] * 7
    # The first neighbour of entity 0 is over relation 0, and it also has 3 and 1: P(3 implies 0) = P(1 implies 0) = 1.
    # Entity 2: 1, and P(0 implies 1) = P(2 implies 1) = 2/3. Entity 1 has relation 2 alone, 6 too.
    expected = torch.tensor([2, 1, 5 / 3, 5 / 3, 2, 1])
    torch.testing.assert_close(found.discount[[0, 1, 2, 3, 4, 6], 0], expected)


def test_discounts_are_the_same_where_all_neighbors_have_room() -> None:
    implies, table = implication(TINY), NeighborTable.of(TINY, 8)
    kept, whole = table.with_discounts(implies).discount, table.with_whole_discounts(implies, TINY).discount
    assert kept is not None
    assert whole is not None
    real = table.of_entities(torch.arange(7)).real
    assert torch.equal(kept[real], whole[real])


def test_no_aux_is_no_neighbors() -> None:
    table = NeighborTable.of(replace(TINY, aux=np.empty((0, 3), dtype=np.int64)), 8)
    assert table.count.tolist() == [3, 2, 3, 2, 0, 0, 0]


def test_more_relations_than_a_dense_table_holds_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"compares every relation with every other: 20,000 are too many; it takes up to"
    ):
        implication(replace(TINY, num_trained=20_000, num_relations=20_001))
