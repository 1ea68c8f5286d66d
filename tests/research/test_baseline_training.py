from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ookg.datasets.encoded import EncodedDataset, Task
from ookg.errors import InputError
from ookg.kernels.randomness import below, draws
from ookg.research.baselines import BASELINES, BaselineSettings, TrainedBaseline, published_settings, train_baseline
from ookg.research.baselines import scorer as scorer_module
from ookg.research.baselines import transitions as transitions_module
from ookg.research.baselines.aggregators import Lstm
from ookg.research.baselines.encoder import Encoder
from ookg.research.baselines.neighbors import Neighbors
from ookg.research.baselines.objective import batch_loss, objective
from ookg.research.baselines.rows import projections, rows
from ookg.research.baselines.sampling import Batches, EntityPools, predicted_sides, side_odds
from ookg.research.baselines.training import PlainAdam, Step
from ookg.research.baselines.transitions import Convolution, RelationLinear
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import Queries, test_queries
from ookg.scoring.ranking import RankSummary
from ookg.scoring.thresholds import Thresholds

test_queries.__test__ = False  # type: ignore[attr-defined]

TASKS: tuple[Task, ...] = ("link-prediction", "triplet-classification")
GROUPS, MEMBERS = 4, 12


def small_settings(method: str, task: Task = "link-prediction", **values: Any) -> BaselineSettings:
    return published_settings(method, task).changed({"dim": 6, "batch": 16, "epochs": 2, "validate_every": 1} | values)


def random_dataset(task: Task = "link-prediction") -> EncodedDataset:
    """24 known entities over 3 trained relations; new ones 24, 25, and 26 which has an untrained relation only."""
    rng = np.random.default_rng(0)
    drawn = np.stack([rng.integers(0, 24, 90), rng.integers(0, 3, 90), rng.integers(0, 24, 90)], axis=1)
    chain = np.stack([np.arange(24), np.zeros(24, np.int64), (np.arange(24) + 1) % 24], axis=1)
    drawn = np.unique(drawn, axis=0)
    drawn = drawn[rng.permutation(len(drawn))]
    valid, train = drawn[:20], np.concatenate([drawn[20:], chain])
    train = train[np.sort(np.unique(train, axis=0, return_index=True)[1])]
    labelled = task == "triplet-classification"
    return EncodedDataset(
        name="random",
        task=task,
        num_known=24,
        num_entities=27,
        num_trained=3,
        num_relations=4,
        train=train,
        valid=valid,
        aux=np.array([[24, 0, 3], [24, 1, 5], [7, 2, 25], [26, 3, 1], [24, 0, 3], [25, 0, 26]]),
        test=np.array([[24, 2, 4], [25, 0, 9], [26, 0, 2]]),
        valid_truth=np.arange(20) % 2 == 0 if labelled else None,
        test_truth=np.ones(3, dtype=np.bool_) if labelled else None,
    )


def patterned_dataset(task: Task) -> EncodedDataset:
    """Who points to hub A of a group by relation 0 points to its hub B by relation 1: the new entities must, too."""
    size, known = GROUPS * MEMBERS, GROUPS * (MEMBERS + 2)
    member, group = np.arange(size), np.arange(size) % GROUPS
    first = np.stack([member, np.zeros(size, np.int64), size + group], axis=1)
    second = np.stack([member, np.ones(size, np.int64), size + GROUPS + group], axis=1)
    held = member < 2 * GROUPS
    wrong = second.copy()
    wrong[:, 2] = size + GROUPS + (group + 1) % GROUPS
    new, new_group = known + np.arange(2 * GROUPS), np.arange(2 * GROUPS) % GROUPS
    aux = np.stack([new, np.zeros(len(new), np.int64), size + new_group], axis=1)
    test = np.stack([new, np.ones(len(new), np.int64), size + GROUPS + new_group], axis=1)
    test_wrong = test.copy()
    test_wrong[:, 2] = size + GROUPS + (new_group + 1) % GROUPS
    labelled = task == "triplet-classification"
    return EncodedDataset(
        name="patterned",
        task=task,
        num_known=known,
        num_entities=known + len(new),
        num_trained=2,
        num_relations=2,
        train=np.concatenate([first, second[~held]]),
        valid=np.concatenate([second[held], wrong[held]]) if labelled else second[held],
        aux=aux,
        test=np.concatenate([test, test_wrong]) if labelled else test,
        valid_truth=np.repeat([True, False], held.sum()) if labelled else None,
        test_truth=np.repeat([True, False], len(new)) if labelled else None,
    )


# ---------------------------------------------------------------------------------------------------------------------
# The networks, against loops over entities and neighbours


def slow_transition(encoder: Encoder, relation: int, entity: int) -> Tensor:
    layer: Any = encoder.transition
    e = encoder.entities[entity]
    kind = encoder.settings.transition
    if kind == "projection":
        w = layer.normals[relation] / layer.normals[relation].norm()
        projected: Tensor = e - (w @ e) * w
        return projected
    if kind == "linear":
        deviation = torch.sqrt(layer.running_variance[relation] + 1e-5)
        z: Tensor = (e @ layer.matrices[relation] - layer.running_mean[relation]) / deviation
        return torch.relu(z * layer.scale[relation] + layer.shift[relation])
    r = layer.relations[relation]
    if kind == "dense":
        hidden = layer.of_entity.weight @ e + layer.of_relation.weight @ r + layer.of_entity.bias
        found: Tensor = layer.second.weight @ torch.relu(hidden) + layer.second.bias
        return found
    padded = functional.pad(torch.stack([e, r]), (1, 1))  # (2, d + 2)
    hidden = torch.stack(
        [
            (layer.first.weight * padded[:, i : i + 3]).sum(dim=(1, 2)) + layer.first.bias
            for i in range(encoder.settings.dim)
        ],
        dim=1,
    )
    padded = functional.pad(torch.relu(hidden), (1, 1))
    outputs = [(layer.second.weight[0] * padded[:, i : i + 3]).sum() for i in range(encoder.settings.dim)]
    convolved: Tensor = torch.stack(outputs) + layer.second.bias
    return convolved


def slow_aggregate(encoder: Encoder, found: list[Tensor], pairs: list[tuple[int, int]], query: int) -> Tensor:
    layer: Any = encoder.aggregator
    method = encoder.settings.method
    if method in ("GNN-MEAN", "ConvLayer"):
        return sum(found, torch.zeros(encoder.settings.dim)) / len(found)
    if method == "GNN-LSTM":
        hidden = cell = torch.zeros(encoder.settings.dim)
        outputs = []
        for vector in found:
            gates = layer.lstm.weight_ih_l0 @ vector + layer.lstm.bias_ih_l0
            gates = gates + layer.lstm.weight_hh_l0 @ hidden + layer.lstm.bias_hh_l0
            i, f, g, o = gates.chunk(4)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs).mean(dim=0)
    if method == "FCLEntity":
        logits = [
            torch.tanh(layer.of_transition.weight @ v + layer.of_transition.bias) @ layer.readout[:, 0] for v in found
        ]
        weights = torch.softmax(torch.stack(logits), dim=0)
    else:
        both = torch.cat([layer.of_query.weight, layer.of_transition.weight], dim=1)  # W, (d, 2d)
        z = layer.queries[query]
        logits = [torch.tanh(both @ torch.cat([z, v])) @ layer.readout[:, 0] for v in found]
        weights = torch.softmax(torch.stack(logits), dim=0)
        for n, (relation, _) in enumerate(pairs):
            rivals = [float(layer.implies[other, relation]) for other, _ in pairs if other != relation]
            weights[n] = weights[n] + layer.implies[relation, query] / (1 + max(rivals, default=0.0))
    return sum((w * v for w, v in zip(weights, found, strict=True)), torch.zeros(encoder.settings.dim))


def slow_vector(encoder: Encoder, entity: int, query: int) -> Tensor:
    neighbors = encoder.table.of_entities(torch.tensor([entity]))
    real = neighbors.real[0]
    pairs = list(zip(neighbors.relation[0][real].tolist(), neighbors.entity[0][real].tolist(), strict=True))
    found = [slow_transition(encoder, relation, neighbor) for relation, neighbor in pairs]
    return slow_aggregate(encoder, found, pairs, query)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_convolutions_equal_the_librarys(dim: int) -> None:
    layer = Convolution(dim, 4)
    inputs = torch.randn(7, 2, dim, generator=torch.Generator().manual_seed(0))
    found = layer.convolved(inputs.flatten(1), layer.first)
    torch.testing.assert_close(found.view(7, -1, dim), layer.first(inputs))


def shaken(encoder: Encoder) -> Encoder:
    """The encoder with parameters and running values that nothing is zero or one in."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, values in encoder.state_dict().items():
            noise = torch.rand(values.shape, generator=generator)
            values.add_(noise if "variance" in name else 0.5 * (noise - 0.5))
    return encoder


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", BASELINES)
def test_vectors_equal_a_slow_reference(method: str, task: Task) -> None:
    encoder = shaken(Encoder(random_dataset(task), small_settings(method, task))).eval()
    entities, query = torch.tensor([0, 5, 11, 24, 25, 5]), torch.tensor([0, 2, 5, 1, 3, 4])
    with torch.no_grad():
        fast = encoder(encoder.table.of_entities(entities), query)
        slow = torch.stack([slow_vector(encoder, e, q) for e, q in zip(entities.tolist(), query.tolist(), strict=True)])
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", BASELINES)
def test_padding_changes_nothing(method: str, task: Task) -> None:
    encoder = shaken(Encoder(random_dataset(task), small_settings(method, task)))
    few = encoder.table.of_entities(torch.tensor([3, 24, 8]))
    extra = torch.tensor([[1, 2, 0]] * 3)
    discount = None if few.discount is None else torch.cat([few.discount, extra + 1.0], dim=1)
    more = Neighbors(
        torch.cat([few.relation, extra], dim=1),
        torch.cat([torch.where(few.real, few.entity, 7), extra], dim=1),
        torch.cat([few.real, torch.zeros(3, 3, dtype=torch.bool)], dim=1),
        discount,
    )
    query = torch.tensor([0, 1, 2])
    torch.testing.assert_close(encoder(few, query), encoder(more, query))  # batch normalisation in training, too


@pytest.mark.parametrize("tile", [2, 256])
def test_batch_normalization_is_each_relations_own(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions_module, "TILE", tile)
    encoder = shaken(Encoder(random_dataset(), small_settings("GNN-MEAN", transition="linear"))).train()
    layer = encoder.transition
    assert isinstance(layer, RelationLinear)
    running = layer.running_mean.clone()
    neighbors = encoder.table.of_entities(torch.arange(24))
    found = layer(encoder.entities, neighbors)
    for relation in range(6):
        members = neighbors.real & (neighbors.relation == relation)
        z = encoder.entities[neighbors.entity[members]] @ layer.matrices[relation]
        expected = functional.batch_norm(z, None, None, layer.scale[relation], layer.shift[relation], training=True)
        torch.testing.assert_close(found[members], torch.relu(expected), rtol=1e-4, atol=1e-5)
        moved = 0.9 * running[relation] + 0.1 * z.mean(dim=0)
        torch.testing.assert_close(layer.running_mean[relation], moved, rtol=1e-4, atol=1e-5)


def test_gradients_of_rows_equal_automatic_ones() -> None:
    rng = torch.Generator().manual_seed(0)
    table, normals = (torch.randn(5, 4, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(2))
    entity, relation = torch.randint(0, 5, (2, 7, 3), generator=rng).unbind()
    torch.autograd.gradcheck(lambda t, n: projections(t, n, entity, relation), (table, normals))
    torch.autograd.gradcheck(lambda t: rows(t, entity), (table,))


@pytest.mark.parametrize("tile", [2, 256])
def test_gradients_of_the_linear_transition(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions_module, "TILE", tile)
    encoder = shaken(Encoder(random_dataset(), small_settings("GNN-MEAN", transition="linear"))).eval()
    neighbors, query = encoder.table.of_entities(torch.tensor([2, 9, 24])), torch.tensor([0, 0, 0])
    wanted = [encoder.entities, *encoder.transition.parameters()]
    fast = torch.autograd.grad(encoder(neighbors, query).square().sum(), wanted)
    slow = torch.autograd.grad(torch.stack([slow_vector(encoder, e, 0) for e in (2, 9, 24)]).square().sum(), wanted)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# The objective and the batches


def test_objectives_by_hand() -> None:
    ranking, absolute = small_settings("LAN", margin=2.0), small_settings("GNN-MEAN", objective="absolute", margin=4.0)
    true, false = torch.tensor([1.0, 1.0]), torch.tensor([2.5, 9.0])
    assert objective(ranking, true, false).tolist() == [0.5, 0.0]
    assert objective(absolute, true, false).tolist() == [2.5, 1.0]


@pytest.mark.parametrize("hide_target", [True, False])
def test_loss_of_a_batch_by_its_definition(hide_target: bool) -> None:
    dataset = random_dataset()
    encoder = shaken(Encoder(dataset, small_settings("GNN-MEAN", hide_target=hide_target))).eval()
    head, relation, tail = (int(x) for x in dataset.train[0])
    batch = torch.tensor([[head, relation, tail, 9, 1], [head, relation, tail, 9, 0]])

    def vector(entity: int, hidden: tuple[int, int] | None) -> Tensor:
        neighbors = encoder.table.of_entities(torch.tensor([entity]))
        pairs = zip(neighbors.relation[0].tolist(), neighbors.entity[0].tolist(), strict=True)
        kept = [pair for pair, real in zip(pairs, neighbors.real[0].tolist(), strict=True) if real and pair != hidden]
        return torch.stack([slow_transition(encoder, *pair) for pair in kept]).mean(dim=0)

    def distance(h: Tensor, t: Tensor) -> Tensor:
        unit = [functional.normalize(v, dim=0) for v in (h, encoder.relations[relation], t)]
        return (unit[0] + unit[1] - unit[2]).abs().sum()

    h = vector(head, (relation, tail) if hide_target else None)
    t = vector(tail, (relation + 3, head) if hide_target else None)
    f = vector(9, None)
    raw_h, raw_t, raw_f = encoder.entities[head], encoder.entities[tail], encoder.entities[9]
    expected = torch.zeros(())
    for head_, tail_, false_ in ((h, t, f), (raw_h, raw_t, raw_f)):
        true = distance(head_, tail_)
        on_tail, on_head = distance(head_, false_), distance(false_, tail_)
        expected = expected + (torch.relu(1 + true - on_tail) + torch.relu(1 + true - on_head)) / 2
    torch.testing.assert_close(batch_loss(encoder, batch), expected)


def test_a_triple_without_other_neighbors_does_not_count() -> None:
    train = np.array([[0, 0, 1], [2, 0, 3], [3, 0, 4], [4, 0, 2]])
    dataset = replace(random_dataset(), num_known=5, num_entities=5, train=train, aux=train[:0], test=train[:0])
    encoder = shaken(Encoder(dataset, small_settings("LAN", raw_term=False)))
    lonely, other = torch.tensor([[0, 0, 1, 4, 1]]), torch.tensor([[2, 0, 3, 1, 1]])
    assert batch_loss(encoder, lonely).item() == 0.0
    both = batch_loss(encoder, torch.cat([lonely, other]))
    torch.testing.assert_close(both, batch_loss(encoder, other))
    gradients = torch.autograd.grad(both, list(encoder.parameters()))
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_an_epoch_holds_each_triple_once_with_a_false_one() -> None:
    dataset = random_dataset("triplet-classification")
    batches = Batches(dataset, small_settings("LAN", "triplet-classification", batch=10), "cpu")
    epoch = batches.epoch(1)
    assert epoch.shape == (len(dataset.train) // 10, 10, 5)
    rows_ = epoch.reshape(-1, 5).numpy()
    true = {tuple(triple) for triple in dataset.train.tolist()}
    seen = [tuple(triple) for triple in rows_[:, :3].tolist()]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= true
    assert set(rows_[:, 4].tolist()) == {0, 1}
    for head, relation, tail, false, on_tail in rows_.tolist():
        assert ((head, relation, false) if on_tail else (false, relation, tail)) not in true
    assert not torch.equal(epoch, batches.epoch(2))
    assert torch.equal(epoch, batches.epoch(1))


def test_the_predicted_side_is_replaced() -> None:
    heads_new, settings = random_dataset(), small_settings("LAN")
    tails_new = replace(heads_new, test=heads_new.test[:, [2, 1, 0]])
    both = replace(heads_new, test=np.concatenate([heads_new.test, tails_new.test]))
    assert predicted_sides(heads_new, settings) == (True,)
    assert predicted_sides(tails_new, settings) == (False,)
    assert predicted_sides(both, settings) == (True, False)
    assert predicted_sides(heads_new, small_settings("LAN", "triplet-classification")) == (True, False)
    assert set(Batches(tails_new, settings, "cpu").epoch(1)[:, :, 4].reshape(-1).tolist()) == {0}


def test_each_draw_has_its_own_bound() -> None:
    bits = draws(5, torch.arange(4000))
    for bound in (1, 2, 7, (1 << 31) - 1):
        assert torch.equal(below(bits, torch.full_like(bits, bound)), below(bits, bound))
    mixed = below(bits, torch.arange(4000) % 3 + 1)
    assert [sorted(set(mixed[n::3].tolist())) for n in range(3)] == [[0], [0, 1], [0, 1, 2]]


def test_pools_of_false_entities_by_hand() -> None:
    train = np.array([[3, 0, 1], [0, 0, 1], [3, 0, 2], [2, 1, 3], [3, 0, 1]])
    dataset = replace(random_dataset(), num_known=4, num_trained=2, train=train)

    def members(false_entities: str) -> list[list[int]]:
        pools = EntityPools.of(dataset, small_settings("LAN", false_entities=false_entities))
        return [pools.entity[a : a + n].tolist() for a, n in zip(pools.start, pools.size, strict=True)]

    assert members("relation") == [[0, 3], [2], [1, 2], [3]]  # heads of 0 and 1, tails of 0 and 1
    assert members("any") == [[0, 1, 2, 3]] * 4


@pytest.mark.parametrize("task", TASKS)
def test_false_entities_of_the_relation(task: Task) -> None:
    dataset = random_dataset(task)
    dataset = replace(dataset, train=dataset.train[dataset.train[:, 0] % 3 != dataset.train[:, 2] % 5])
    batches = Batches(dataset, small_settings("LAN", task, false_entities="relation"), "cpu")
    drawn = torch.cat([batches.epoch(number) for number in range(150)]).reshape(-1, 5).tolist()
    true = {tuple(triple) for triple in dataset.train.tolist()}
    heads, tails = ({(r, e) for e, r in dataset.train[:, [end, 1]].tolist()} for end in (0, 2))
    # Of each triple and end: whatever train has at that end of the relation and makes no true triple, nothing else.
    expected = set()
    for head, relation, tail in true:
        on_head = {(head, relation, tail, e, 0) for r, e in heads if r == relation and (e, relation, tail) not in true}
        on_tail = {(head, relation, tail, e, 1) for r, e in tails if r == relation and (head, relation, e) not in true}
        expected |= on_tail if task == "link-prediction" else on_head | on_tail
    seen = {tuple(row) for row in drawn}
    assert seen <= expected
    assert len(seen) > 0.9 * len(expected)


def test_the_replaced_side_by_hand() -> None:
    # Entity 0 has the tails 1, 2 and 3 (1 by two relations), entity 3 the heads 0 and 4.
    train = np.array([[0, 0, 1], [0, 1, 1], [0, 0, 2], [0, 2, 3], [4, 0, 3]])
    dataset = replace(random_dataset("triplet-classification"), train=train)
    bernoulli = small_settings("LAN", "triplet-classification", sides="bernoulli")
    assert side_odds(dataset, bernoulli).tolist() == [[1, 3], [1, 3], [1, 3], [2, 3], [2, 1]]
    assert side_odds(dataset, bernoulli.changed({"sides": "even"})).tolist() == [[1, 1]] * 5
    for_tails = bernoulli.changed({"task": "link-prediction"})  # the test triples ask for tails
    assert side_odds(dataset, for_tails).tolist() == [[0, 1]] * 5
    batches = Batches(dataset, bernoulli.changed({"batch": 5}), "cpu")
    drawn = torch.cat([batches.epoch(number) for number in range(400)]).reshape(-1, 5)
    shares = [float(drawn[(drawn[:, :3] == torch.tensor(row)).all(dim=1), 4].float().mean()) for row in train]
    np.testing.assert_allclose(shares, [3 / 4, 3 / 4, 3 / 4, 3 / 5, 1 / 3], atol=0.08)


def test_weight_decay_is_that_of_transition_and_aggregator() -> None:
    dataset = random_dataset()
    plain = Encoder(dataset, small_settings("LAN"))
    decaying = Encoder(dataset, small_settings("LAN", weight_decay=0.5))
    batch = Batches(dataset, plain.settings, "cpu").epoch(1)[0][:1]
    before = {name: values.detach().clone() for name, values in plain.named_parameters()}
    steps = Step(plain), Step(decaying)
    for step in steps:
        step(batch)
    touched = set(batch[0, [0, 2, 3]].tolist())
    for entity in tuple(touched):
        touched |= set(plain.table.entity[entity][: int(plain.table.count[entity])].tolist())
    still = [entity for entity in range(24) if entity not in touched]
    assert len(still) > 3
    assert torch.equal(decaying.entities[still], before["entities"][still])
    assert not torch.equal(decaying.entities, before["entities"])
    others = [r for r in range(3) if r != int(batch[0, 1])]
    assert torch.equal(decaying.relations[others], before["relations"][others])
    for name, values in before.items():  # Adam's first moment is a tenth of the gradient
        without, with_decay = (
            plain_adam(step).optimizer.state[step.encoder.get_parameter(name)]["exp_avg"] / 0.1 for step in steps
        )
        decay = 0.0 if name in ("entities", "relations") else 0.5
        torch.testing.assert_close(with_decay, without + decay * values)


def test_every_parameter_is_updated_once() -> None:
    for method in BASELINES:
        encoder = Encoder(random_dataset(), small_settings(method, weight_decay=0.5))
        groups = plain_adam(Step(encoder)).optimizer.param_groups
        held = [(id(values), group["weight_decay"]) for group in groups for values in group["params"]]
        steady = ("entities", "relations", "aggregator.lstm.")
        wanted = [(id(values), 0.0 if name.startswith(steady) else 0.5) for name, values in encoder.named_parameters()]
        assert held == wanted


def plain_adam(step: Step) -> PlainAdam:
    assert isinstance(step.adam, PlainAdam)
    return step.adam


@pytest.mark.parametrize("method", BASELINES)
def test_loss_decreases(method: str) -> None:
    dataset = random_dataset()
    encoder = Encoder(dataset, small_settings(method, lr=0.02, batch=200))
    step, batch = Step(encoder), Batches(dataset, encoder.settings, "cpu").epoch(1)[0]
    losses = [float(step(batch)) for _ in range(15)]
    assert losses[-1] < 0.9 * losses[0]


# ---------------------------------------------------------------------------------------------------------------------
# Training and scoring


@pytest.mark.parametrize("method", BASELINES)
def test_a_pattern_is_learned_for_link_prediction(method: str) -> None:
    dataset = patterned_dataset("link-prediction")
    settings = published_settings(method, "link-prediction").changed(
        {"dim": 16, "batch": 40, "lr": 0.02, "epochs": 20, "validate_every": 10, "patience": 0}
    )
    baseline = train_baseline(dataset, settings)
    queries = test_queries(dataset.test, dataset.num_known)
    counts = link_prediction(baseline, queries, dataset.true_triples, dataset.num_entities)
    assert RankSummary.of(counts.ranks()).mrr > 0.3  # by chance: 0.08


@pytest.mark.parametrize("method", BASELINES)
def test_a_pattern_is_learned_for_classification(method: str) -> None:
    dataset = patterned_dataset("triplet-classification")
    settings = published_settings(method, "triplet-classification").changed(
        {"dim": 16, "batch": 40, "lr": 0.02, "epochs": 40, "validate_every": 10, "patience": 0, "margin": 20.0}
    )
    baseline = train_baseline(dataset, settings)
    assert dataset.valid_truth is not None
    assert dataset.test_truth is not None
    scores = baseline.scores(dataset.valid)
    thresholds = Thresholds.fit(scores, dataset.valid[:, 1], dataset.valid_truth, 2)
    held = baseline.scores(dataset.test) >= thresholds.of(dataset.test[:, 1])
    assert (held == dataset.test_truth).mean() > 0.8  # by chance: 0.5


@pytest.mark.parametrize("method", BASELINES)
def test_the_same_seed_gives_the_same_baseline(method: str) -> None:
    dataset = random_dataset()
    first, again, other = (train_baseline(dataset, small_settings(method, seed=seed)) for seed in (0, 0, 1))
    assert first.scores(dataset.valid).tolist() == again.scores(dataset.valid).tolist()
    assert first.validations == again.validations
    assert first.scores(dataset.valid).tolist() != other.scores(dataset.valid).tolist()


@pytest.mark.parametrize("at_once", [1, 1 << 25])
@pytest.mark.parametrize("method", BASELINES)
def test_answer_scores_are_the_scores_of_the_triples(
    method: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_module, "NUMBERS_AT_ONCE", at_once)
    baseline = TrainedBaseline(shaken(Encoder(random_dataset(), small_settings(method))))
    asks_tail = np.array([True, True, False, False])
    queries = Queries(np.array([24, 25, 24, 3]), np.array([0, 2, 0, 1]), np.zeros(4, np.int64), asks_tail)
    found = baseline.answer_scores(queries)
    assert found.shape == (4, 24)
    for n in range(4):
        entity, relation = np.full(24, queries.entity[n]), np.full(24, queries.relation[n])
        ends = (entity, np.arange(24)) if asks_tail[n] else (np.arange(24), entity)
        expected = baseline.scores(np.stack([ends[0], relation, ends[1]], axis=1))
        np.testing.assert_allclose(found[n].numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", BASELINES)
def test_scores_do_not_depend_on_chunks(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, triples = shaken(Encoder(random_dataset(), small_settings(method))), random_dataset().train
    whole = TrainedBaseline(encoder).scores(triples)
    monkeypatch.setattr(scorer_module, "NUMBERS_AT_ONCE", 3 * encoder.table.width * 6)
    np.testing.assert_allclose(TrainedBaseline(encoder).scores(triples), whole, rtol=1e-5)


@pytest.mark.parametrize("method", BASELINES)
def test_scores_by_their_definition(method: str) -> None:
    encoder = shaken(Encoder(random_dataset(), small_settings(method)))
    found = TrainedBaseline(encoder).scores(np.array([[24, 1, 6]]))
    with torch.no_grad():
        vectors = [slow_vector(encoder, 24, 1), encoder.relations[1], slow_vector(encoder, 6, 3 + 1)]
        h, r, t = (functional.normalize(vector, dim=0) for vector in vectors)
    assert found[0] == pytest.approx(-float((h + r - t).abs().sum()), rel=1e-4)


@pytest.mark.parametrize("asks_tail", [True, False])
def test_squared_distances_by_their_definition(asks_tail: bool) -> None:
    task: Task = "triplet-classification"
    encoder = shaken(Encoder(random_dataset(task), small_settings("GNN-MEAN", task)))
    baseline = TrainedBaseline(encoder)
    entity, other = np.full(24, 24), np.arange(24)
    head, tail = (entity, other) if asks_tail else (other, entity)
    with torch.no_grad():
        gaps = [
            slow_vector(encoder, h, 1) + torch.tanh(encoder.relations[1]) - slow_vector(encoder, t, 3 + 1)
            for h, t in zip(head.tolist(), tail.tolist(), strict=True)
        ]
    expected = [-float(gap.square().sum()) for gap in gaps]
    np.testing.assert_allclose(baseline.scores(np.stack([head, entity * 0 + 1, tail], axis=1)), expected, rtol=1e-4)
    queries = Queries(entity[:1], np.array([1]), other[:1], np.array([asks_tail]))
    np.testing.assert_allclose(baseline.answer_scores(queries)[0].numpy(), expected, rtol=1e-4)


@pytest.mark.parametrize("method", BASELINES)
def test_a_new_entity_is_its_given_neighbors(method: str) -> None:
    encoder = shaken(Encoder(random_dataset(), small_settings(method)))
    triples = np.array([[24, 0, 9]])
    before = TrainedBaseline(encoder).scores(triples)
    used = {3, 5} | set(encoder.table.entity[9][: int(encoder.table.count[9])].tolist())
    with torch.no_grad():
        encoder.entities[[e for e in range(24) if e not in used]] += 1.0
    assert TrainedBaseline(encoder).scores(triples).tolist() == before.tolist()
    with torch.no_grad():
        encoder.entities[5] += 1.0
    assert TrainedBaseline(encoder).scores(triples).tolist() != before.tolist()


def test_what_cannot_be_scored() -> None:
    baseline = TrainedBaseline(Encoder(random_dataset(), small_settings("LAN")))
    triples = np.array([[0, 0, 1], [26, 0, 1], [0, 3, 1], [0, -1, 1], [99, 0, 1], [-1, 0, 1]])
    assert np.isnan(baseline.scores(triples)).tolist() == [False, False, True, True, True, True]
    queries = Queries(triples[:, 0], triples[:, 1], triples[:, 2], np.ones(6, dtype=np.bool_))
    assert baseline.answerable(queries).tolist() == [True, True, False, False, False, False]
    assert len(baseline.scores(triples[:0])) == 0


def test_an_entity_without_a_neighbor_has_the_zero_vector() -> None:
    encoder = shaken(Encoder(random_dataset(), small_settings("LAN")))
    assert int(encoder.table.count[26]) == 0
    relation, inverse = torch.tensor([0]), torch.tensor([3])
    with torch.no_grad():
        tail = encoder.scaled(encoder(encoder.table.of_entities(torch.tensor([1])), inverse))
        expected = -(encoder.relation_vectors(relation) - tail).abs().sum()
    found = TrainedBaseline(encoder).scores(np.array([[26, 0, 1]]))
    assert found[0] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("method", ["GNN-MEAN", "GNN-LSTM"])
def test_learned_padding_counts_as_often_as_neighbors_are_missing(method: str) -> None:
    encoder = shaken(Encoder(random_dataset(), small_settings(method, padding="learned")))
    assert encoder.padding is not None
    entities = torch.tensor([3, 24, 26])  # known, new, and new without a neighbour
    neighbors = encoder.table.of_entities(entities)
    width = encoder.table.width
    with torch.no_grad():
        found = encoder(neighbors, torch.zeros(3, dtype=torch.int64))
        for row in range(3):
            count = int(neighbors.real[row].sum())
            sequence = [
                slow_transition(encoder, int(neighbors.relation[row, slot]), int(neighbors.entity[row, slot]))
                for slot in range(count)
            ] + [encoder.padding] * (width - count)
            steps = torch.stack(sequence)[None]
            if method == "GNN-LSTM":
                assert isinstance(encoder.aggregator, Lstm)
                steps = encoder.aggregator.lstm(steps)[0]
            torch.testing.assert_close(found[row], steps.mean(dim=1)[0], rtol=1e-4, atol=1e-5)
    trained = train_baseline(random_dataset(), small_settings(method, padding="learned", epochs=2))
    began = Encoder(random_dataset(), trained.settings).padding
    assert trained.encoder.padding is not None
    assert began is not None
    assert not torch.equal(trained.encoder.padding, began)


def test_an_end_without_another_neighbor_counts_in_training_where_padding_is_learned() -> None:
    # Entity 2 has the one neighbour 0, which is hidden as the target; 0 has another one.
    chain = np.array([[2, 0, 0], [0, 0, 1], [1, 0, 3], [3, 0, 0]])
    dataset = replace(random_dataset(), num_known=4, num_entities=4, num_trained=1, train=chain, valid=chain)
    dataset = replace(dataset, aux=np.empty((0, 3), dtype=np.int64))
    batch = torch.tensor([[2, 0, 0, 1, 1]])
    for padding, counts in (("left out", False), ("learned", True)):
        settings = small_settings("GNN-MEAN", padding=padding, raw_term=False, margin=300.0)
        loss = batch_loss(shaken(Encoder(dataset, settings)), batch)
        assert bool(loss > 200) is counts


def test_an_lstm_may_start_as_a_sum() -> None:
    encoder = Encoder(random_dataset(), small_settings("GNN-LSTM", lstm_start="sum"))
    assert isinstance(encoder.aggregator, Lstm)
    x = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(0))
    gate = torch.sigmoid(torch.tensor(2.0))
    cell, expected = torch.zeros(6), []
    for step in x[0]:
        cell = gate * cell + gate * torch.tanh(step)
        expected.append(gate * torch.tanh(cell))
    torch.testing.assert_close(encoder.aggregator.lstm(x)[0][0], torch.stack(expected))
    other = Encoder(random_dataset(), small_settings("GNN-LSTM"))
    assert isinstance(other.aggregator, Lstm)
    assert not torch.allclose(other.aggregator.lstm(x)[0][0], torch.stack(expected), atol=0.1)


def test_only_some_methods_learn_padding() -> None:
    with pytest.raises(InputError, match="padding 'learned' of LAN; it is there for GNN-LSTM and GNN-MEAN alone"):
        small_settings("LAN", padding="learned")


def test_the_best_state_is_kept_and_patience_ends_training() -> None:
    dataset = random_dataset()
    settings = small_settings("GNN-MEAN", epochs=30, validate_every=2, patience=2, lr=0.05)
    baseline = train_baseline(dataset, settings)
    best = max(figure for _, figure in baseline.validations)
    assert baseline.epochs == next(epoch for epoch, figure in baseline.validations if figure == best)
    assert baseline.validations[-1][0] <= baseline.epochs + 4
    assert [epoch for epoch, _ in baseline.validations] == [2 * n for n in range(1, len(baseline.validations) + 1)]
    shorter = train_baseline(dataset, settings.changed({"epochs": baseline.epochs}))
    assert shorter.scores(dataset.valid).tolist() == baseline.scores(dataset.valid).tolist()


def test_training_without_validation_reports_every_epoch() -> None:
    told: list[tuple[int, str]] = []

    def report(done: int, figure: Any = None) -> None:
        told.append((done, figure()))

    settings = small_settings("LAN", epochs=3, patience=0, validate_every=0)
    baseline = train_baseline(random_dataset(), settings, report=report)
    assert baseline.epochs == 3
    assert baseline.validations == []
    assert baseline.seconds > 0
    assert [done for done, _ in told] == [1, 2, 3]
    assert told[0][1].startswith("loss ")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"method": "GNN"}, "unknown baseline 'GNN'"),
        ({"task": "ranking"}, "task 'ranking'; choose"),
        ({"transition": "linear"}, "transition 'linear' of LAN; choose projection"),
        ({"dim": 0}, "dim 0; it must be 1 or more"),
        ({"dim": "many"}, "setting dim is 'many'; it must be of type int"),
        ({"margin": -1.0}, "margin -1.0; it must be a number above 0"),
        ({"weight_decay": -1.0}, "weight_decay -1.0; it must be 0 or more"),
        ({"distance": "cosine"}, "distance 'cosine'; choose"),
        ({"false_entities": "all"}, "false_entities 'all'; choose any or relation"),
        ({"sides": "odd"}, "sides 'odd'; choose even or bernoulli"),
        ({"own_relation": "one"}, "own_relation 'one'; choose certain or mean"),
        ({"sides": 2}, "setting sides is 2; it must be of type str"),
        ({"dimension": 3}, "unknown setting 'dimension'"),
        ({"validate_every": 0}, "patience without validate_every"),
        ({"seed": 1 << 63}, "it must be below 2"),
    ],
)
def test_bad_settings_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        published_settings("LAN", "link-prediction").changed(values)


def test_published_settings() -> None:
    lan = published_settings("LAN", "link-prediction")
    assert (lan.dim, lan.max_neighbors, lan.margin, lan.batch, lan.lr, lan.epochs) == (100, 64, 1.0, 1024, 1e-3, 1000)
    assert lan.to_dict()["method"] == "LAN"
    assert BaselineSettings(**lan.to_dict()) == lan
    assert (lan.false_entities, lan.sides, lan.own_relation, lan.weight_decay) == ("any", "even", "mean", 0.0)
    mean = published_settings("GNN-MEAN", "triplet-classification")
    assert (mean.dim, mean.transition, mean.objective, mean.raw_term) == (200, "linear", "absolute", False)
    assert (mean.distance, mean.margin, mean.max_neighbors, mean.epochs) == ("squared", 300.0, 64, 100)
    assert (mean.false_entities, mean.sides, mean.weight_decay) == ("relation", "bernoulli", 0.0)
    classifying = published_settings("LAN", "triplet-classification")
    assert (classifying.weight_decay, classifying.margin, classifying.epochs) == (1e-3, 300.0, 500)
    assert classifying.max_neighbors == 64
    lstm = published_settings("GNN-LSTM", "triplet-classification")
    assert lstm == replace(classifying, method="GNN-LSTM")
    assert lstm.changed({"transition": "linear"}).transition == "linear"
    with pytest.raises(InputError, match="unknown baseline 'TransE'"):
        published_settings("TransE", "link-prediction")
    with pytest.raises(InputError, match="task 'ranking'; choose"):
        published_settings("LAN", "ranking")  # type: ignore[arg-type]


def test_data_sets_that_cannot_be_trained_on_are_refused() -> None:
    dataset = random_dataset()
    with pytest.raises(InputError, match="valid has no labels"):
        train_baseline(dataset, small_settings("LAN", "triplet-classification"))
    with pytest.raises(InputError, match="no training triples"):
        train_baseline(replace(dataset, train=dataset.train[:0]), small_settings("LAN"))
    with pytest.raises(InputError, match="no valid triple over a trained relation"):
        train_baseline(replace(dataset, valid=dataset.valid[:0]), small_settings("LAN"))
