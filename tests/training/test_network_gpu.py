"""The GPU's way to train a network: its logits and its loss are those of the CPU's, and it learns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ookg.graph.index import GraphIndex
from ookg.training.network import NetworkGraph, NetworkSettings, Questions, RelationNetwork
from ookg.training.network_gpu import Batch, DenseGraph, DenseNetwork, MessageSum, train_on_gpu
from ookg.training.network_training import Drawn, Episodes, _Episode, _loss, train_network

ENTITIES, RELATIONS = 40, 3


def graph(seed: int = 0) -> NetworkGraph:
    drawn = np.random.default_rng(seed).integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(150, 3))
    triples = np.unique(drawn[drawn[:, 0] != drawn[:, 2]], axis=0)
    return NetworkGraph.of(GraphIndex.of(triples, ENTITIES, RELATIONS))


def network(seed: int = 0) -> RelationNetwork:
    """Parameters that make a difference everywhere."""
    random, made = torch.Generator().manual_seed(seed), RelationNetwork(2 * RELATIONS, seed)
    for one in made.parameters():
        one.data += 0.2 * torch.randn(one.shape, generator=random)
    return made.requires_grad_(False).eval()


@pytest.mark.parametrize("most_links", [None, 3])
def test_logits_and_loss_are_those_of_the_network(most_links: int | None) -> None:
    settings = NetworkSettings(batch=12, most_links=most_links, seed=3)
    known, asking = graph(), network()
    episodes = Episodes(known, settings)
    drawn = episodes.drawn()
    batch = Batch.unpacked(torch.from_numpy(Batch.packed(drawn, episodes, settings)), settings)
    dense = DenseNetwork(asking, DenseGraph(known, "cpu"), torch.float32, compiles=False)
    arrays = drawn.entity, drawn.asked, drawn.of, episodes.link[drawn.given], episodes.other[drawn.given]
    questions, numbers = Questions(*map(torch.from_numpy, arrays)), np.arange(settings.batch)
    expected = asking(known, questions).view(settings.batch, ENTITIES)
    is_candidate = torch.ones(settings.batch, ENTITIES, dtype=torch.bool)
    is_candidate[numbers, drawn.entity] = False
    logits = dense.logits(batch)
    torch.testing.assert_close(logits[is_candidate], expected[is_candidate], rtol=1e-4, atol=1e-4)
    # The loss of a CPU is the same if each entity is a candidate that stands for itself.
    is_candidate[drawn.true_of, drawn.true] = False
    is_candidate[numbers, drawn.answer] = True
    of, entities = is_candidate.nonzero().T
    right = torch.searchsorted(of * ENTITIES + entities, torch.from_numpy(numbers * ENTITIES + drawn.answer))
    plain = _loss(asking, known, _Episode(questions, (of, entities), torch.zeros(len(of)), right))
    torch.testing.assert_close(dense.loss(batch), plain, rtol=1e-4, atol=1e-4)


def test_the_gradient_is_that_of_the_plain_sum() -> None:
    random = torch.Generator().manual_seed(0)
    known = graph()
    state = torch.randn(ENTITIES, 8, generator=random, dtype=torch.float32, requires_grad=True)
    carried = torch.randn(2 * RELATIONS, 8, generator=random, requires_grad=True)
    dense = DenseGraph(known, "cpu")
    weights = torch.randn(ENTITIES, 8, generator=random)
    from ookg.training.network_gpu import _Arrived

    arrived = _Arrived.apply(state, carried, dense)  # type: ignore[no-untyped-call]
    own = torch.autograd.grad((arrived * weights).sum(), (state, carried))
    source = torch.repeat_interleave(torch.arange(ENTITIES), known.starts[1:] - known.starts[:-1])
    plain = torch.zeros(ENTITIES, 8).index_add(0, known.other, state[source] * carried[known.link])
    for one, other in zip(own, torch.autograd.grad((plain * weights).sum(), (state, carried)), strict=True):
        torch.testing.assert_close(one, other)


def test_what_a_question_has_no_room_for_is_cut_off() -> None:
    settings = NetworkSettings(batch=4, most_links=2, seed=0)
    known = graph()
    episodes = Episodes(known, settings)
    drawn = episodes.drawn()
    whole = Batch.packed(drawn, episodes, settings)
    assert len(whole) == sum(Batch.lengths(settings))
    assert np.bincount(drawn.of, minlength=4).max() <= 2


def planted() -> GraphIndex:
    """Who works for a company lives in its town. Relations: 0 works for, 1 lies in, 2 lives in.

    The last entity has no triple.
    """
    people, companies, towns = 120, 12, 4
    triples = [(people + c, 1, people + companies + c % towns) for c in range(companies)]
    for person in range(people):
        company = person % companies
        triples += [(person, 0, people + company), (person, 2, people + companies + company % towns)]
    return GraphIndex.of(np.array(triples), people + companies + towns + 1, 3)


@pytest.mark.parametrize("train", [train_on_gpu, None])
def test_both_ways_learn_a_rule(train: Callable[..., RelationNetwork] | None) -> None:
    index = planted()
    settings = NetworkSettings(steps=150, batch=16, negatives=32, seed=1)
    known = NetworkGraph.of(index)
    trained = train(known, settings, "cpu") if train else train_network(index, settings)
    # A newcomer, the last entity, works for company 7, which lies in town 3.
    arrays = [index.num_entities - 1], [4], [0], [0], [120 + 7]
    logits = trained(known, Questions(*map(torch.tensor, arrays)))
    assert int(logits.argmax()) == 120 + 12 + 3


def test_an_error_while_questions_are_drawn_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, calls = Episodes.drawn, []

    def failing(self: Episodes) -> Drawn:
        calls.append(1)
        if len(calls) > 5:
            raise MemoryError("no room")
        return drawn(self)

    monkeypatch.setattr(Episodes, "drawn", failing)
    with pytest.raises(MemoryError, match="no room"):
        train_on_gpu(graph(), NetworkSettings(steps=50, batch=4), "cpu")


def test_the_kernel_sums_as_plain_pytorch_does(interpreted: Callable[[str], str]) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")
    assert "4 sums equal" in interpreted(__file__)


def check_kernel() -> None:
    """Run by the interpreter: groups of no, one and several pieces, columns that do and do not fill a tile."""
    from ookg.kernels.gpu_messages import summed

    random, equal = torch.Generator().manual_seed(0), 0
    for columns, pairs in ((5, 30), (16, 400), (40, 3), (64, 700)):
        row = torch.randint(0, 6, (pairs,), generator=random) // 2 * 2  # every other row gets nothing
        left_of, right_of = torch.randint(0, 9, (2, pairs), generator=random)
        left, right = torch.randn(2, 9, columns, generator=random)
        sums = MessageSum(row, left_of, right_of, 6)
        out = torch.zeros(6, columns)
        arrays = sums.starts, sums.ends, sums.rows, sums.alone, sums.left_of, sums.right_of
        summed[(len(sums.rows), -(-columns // 32))](left, right, out, *arrays, WIDTH=columns, TILE=32)
        torch.testing.assert_close(out, sums(left, right), rtol=1e-4, atol=1e-4)
        equal += 1
    print(f"{equal} sums equal")


if __name__ == "__main__":
    check_kernel()
