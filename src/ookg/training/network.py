"""A small graph neural network that reads answers off the graph around a newcomer, and how it is trained.

The links of the asked entity put a state onto each of its neighbours, and two steps of messages carry the states on:
over a link to a neighbour's neighbours, and once more. What arrives at an entity says how likely it is the answer.
Every directed relation has its own weights for each asked relation, and no entity has any: so the network can be asked
about an entity that came a second ago, and about a graph that has grown since it was trained (Zhu et al., 2021, NBFNet,
is the model for it).

It is trained on known entities as if they were new: of one entity a few links are given, another one is asked, and
nothing of it is left in the graph: no message passes it, and neither the degrees of its neighbours nor the counts of
answers have it in them. Otherwise the network learns how a graph looks from which half of an entity is gone. That its
neighbours lack a link they should have shows nevertheless (docs/network.md, tuning).

Directed relations are numbers as `link_code` has them: 2·r from the head of a triple over r to its tail, 2·r + 1 the
other way. So they stay the same when relations are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, layer_norm, linear, relu

from ookg.errors import InputError
from ookg.graph.index import GraphIndex
from ookg.graph.linked import known_links
from ookg.types import Array

FORM = 1  # counted up when parameters are read otherwise: those of before are of no use then
WIDTH = 32  # of states and of asked relations
HIDDEN = 64  # units of the readout
DROPOUT = 0.1  # the share of a state's changes that is left out in training
# No real training needs as much; what is more is a slip.
MOST_STEPS, MOST_QUESTIONS, MOST_SEED = 1_000_000_000, 1_000_000, 2**63 - 1


@dataclass(frozen=True)
class NetworkSettings:
    """How a network is trained.

    steps: of the part that reads the graph; with 0 there is none
    batch: questions per step; negatives: other entities per question, half of them answers to the same relation
        (on a GPU every entity counts instead)
    most_links: the most links that a question is given, as newcomers come with so many; None: up to all there are
    encoder_steps, encoder_batch: steps of the encoder beside it, and questions per step; with 0 steps there is none
    """

    steps: int = 4000
    batch: int = 32
    negatives: int = 128
    most_links: int | None = None
    learning_rate: float = 5e-3
    seed: int = 0
    encoder_steps: int = 0
    encoder_batch: int = 64

    def __post_init__(self) -> None:
        whole = {
            "steps": (0, MOST_STEPS),
            "batch": (1, MOST_QUESTIONS),
            "negatives": (2, MOST_QUESTIONS),
            "most_links": (1, MOST_QUESTIONS),
            "seed": (0, MOST_SEED),
            "encoder_steps": (0, MOST_STEPS),
            "encoder_batch": (1, MOST_QUESTIONS),
        }
        for name, (least, most) in whole.items():
            value = getattr(self, name)
            if name == "most_links" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InputError(f"`{name}` {value!r}; it must be a whole number from {least} to {most}")
        if not self.steps and not self.encoder_steps:
            raise InputError("`steps` 0 and `encoder_steps` 0 leave nothing to train; give at least one of them more")
        rate = self.learning_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise InputError(f"`learning_rate` {rate!r}; it must be a number from 0 to 1")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the form of the network; without an encoder they are those of before there was one."""
        values = asdict(self) | {"form": FORM}
        left_out = () if self.encoder_steps else ("encoder_steps", "encoder_batch")
        return {name: value for name, value in values.items() if name not in left_out}


def network_settings(given: NetworkSettings | None) -> NetworkSettings:
    """What was given, or the defaults; anything else is refused."""
    if not isinstance(given, NetworkSettings | None):
        raise InputError(f"settings {given!r}; give an `ookg.NetworkSettings`")
    return given or NetworkSettings()


@dataclass(frozen=True, eq=False)
class NetworkGraph:
    """Known triples as the network reads them, on a device.

    starts: (entities + 1,) where each entity's rows begin; link, other: (rows,) by what it is linked, and to what
    kind_starts, kind, kind_count: the same with equal links of an entity together: how many it has of each
    """

    num_entities: int
    num_links: int
    starts: Tensor
    link: Tensor
    other: Tensor
    kind_starts: Tensor
    kind: Tensor
    kind_count: Tensor

    @classmethod
    def of(cls, index: GraphIndex, device: torch.device | str = "cpu") -> NetworkGraph:
        """From the known triples by entity."""
        size, num_links = index.num_entities, 2 * index.num_relations
        rows = known_links(index)
        order = np.argsort(rows.owner * max(1, num_links) + rows.link, kind="stable")
        owner, link, other = rows.owner[order], rows.link[order], rows.other[order]
        kinds, counts = np.unique(owner * max(1, num_links) + link, return_counts=True)
        arrays = (
            np.asarray(index.offsets).astype(np.int64),
            link,
            other,
            np.searchsorted(kinds, np.arange(size + 1) * num_links),
            kinds % max(1, num_links),
            counts.astype(np.float32),
        )
        return cls(size, num_links, *(torch.from_numpy(array).to(device) for array in arrays))

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.link.device

    def degree(self, entities: Tensor) -> Tensor:
        """How many rows each entity has."""
        return self.starts[entities + 1] - self.starts[entities]

    def rows_of(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """All rows of some entities, and for each row the place of its entity among them."""
        return _spans(self.starts, entities)

    def kinds_of(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """The same for kinds of links."""
        return _spans(self.kind_starts, entities)


def _spans(starts: Tensor, entities: Tensor) -> tuple[Tensor, Tensor]:
    first = starts[entities]
    counts = starts[entities + 1] - first
    place = torch.repeat_interleave(torch.arange(len(entities), device=starts.device), counts)
    ends = counts.cumsum(0)
    return torch.arange(len(place), device=starts.device) + (first - ends + counts)[place], place


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions about known entities as if they were new. All are numbers on one device.

    entity, asked: (questions,) nothing is seen of the entity but what is given; the link that is asked
    of: (links,) the question that each given link belongs to; link, neighbour: (links,) what is given
    """

    entity: Tensor
    asked: Tensor
    of: Tensor
    link: Tensor
    neighbour: Tensor


@dataclass(frozen=True, eq=False)
class _Reached:
    """What the first step of messages has reached.

    place: (questions · entities,) of each entity's state, -1 for those with the state of an entity that nothing reached
    state, start: (reached, width) after and before the step
    missing: (questions · entities,) links of an entity that are hidden; answers: those that answer the asked one
    """

    place: Tensor
    state: Tensor
    start: Tensor
    missing: Tensor
    answers: Tensor


def fill_parameters(module: nn.Module, arrays: Mapping[str, Array], kind: str) -> None:
    """Give a module parameters from arrays, to be asked; of tables their first rows and columns, as many as it has.

    What does not fit raises a ValueError. kind: what the module is, with its article
    """
    state = module.state_dict()
    if set(arrays) != set(state):
        raise ValueError(f"it has not the parameters of {kind}")
    for name, table in state.items():
        part = torch.from_numpy(np.array(arrays[name], dtype=np.float32))
        part = part[tuple(map(slice, table.shape))] if part.ndim == table.ndim else part
        if part.shape != table.shape:
            raise ValueError(f"{name!r} has the shape {tuple(part.shape)} instead of {tuple(table.shape)}")
        if not torch.isfinite(part).all():
            raise ValueError(f"{name!r} is not finite")
        table.copy_(part)
    module.requires_grad_(False).eval()


class RelationNetwork(nn.Module):
    """The weights of the network, and how it scores answers. See the top of the file."""

    def __init__(self, num_links: int, seed: int = 0) -> None:
        super().__init__()
        self.num_links = num_links
        random = torch.Generator().manual_seed(seed)

        def normal(*shape: int, mean: float = 0.0, std: float) -> nn.Parameter:
            return nn.Parameter(mean + std * torch.randn(*shape, generator=random))

        self.asked = normal(num_links, WIDTH, std=1.0)
        # What a link starts, and carries in each step: for an asked relation with the vector q, by_asked @ q + alone.
        names = ("start", "first", "second")
        self.by_asked = nn.ParameterDict(
            {name: normal(num_links * WIDTH, WIDTH, std=0.1 / WIDTH**0.5) for name in names}
        )
        self.alone = nn.ParameterDict(
            {
                name: normal(
                    num_links * WIDTH, mean=0.0 if name == "start" else 1.0, std=0.6 if name == "start" else 0.3
                )
                for name in names
            }
        )
        self.mix = nn.ParameterList([normal(WIDTH, 3 * WIDTH, std=(3 * WIDTH) ** -0.5) for _ in range(2)])
        self.shift = nn.ParameterList([nn.Parameter(torch.zeros(WIDTH)) for _ in range(2)])
        self.scale = nn.ParameterList([nn.Parameter(torch.ones(WIDTH)) for _ in range(2)])
        self.offset = nn.ParameterList([nn.Parameter(torch.zeros(WIDTH)) for _ in range(2)])
        # Of the state, the vector of the asked relation, and three facts. Earlier networks have another column: a fact
        # that is 0 for all known answers.
        self.readout = normal(HIDDEN, 2 * WIDTH + 3, std=(2 * WIDTH) ** -0.5)
        self.readout_bias = nn.Parameter(torch.zeros(HIDDEN))
        self.out = normal(1, HIDDEN, std=HIDDEN**-0.5)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], num_relations: int) -> RelationNetwork:
        """From the arrays of `to_arrays`, to be asked; only the first relations count. Others raise a ValueError."""
        network = cls(2 * num_relations)
        fill_parameters(network, arrays, "a network")
        return network

    def to_arrays(self) -> dict[str, Array]:
        """All parameters."""
        return {name: table.detach().cpu().numpy() for name, table in self.state_dict().items()}

    @property
    def num_relations(self) -> int:
        """How many relations it knows: the first ones."""
        return self.num_links // 2

    def weights(self, name: str, asked: Tensor) -> Tensor:
        """(questions · links, width) what each link does for each question."""
        return linear(asked, self.by_asked[name], self.alone[name]).view(-1, WIDTH)

    def layer(self, step: int, state: Tensor, arrived: Tensor, degree: Tensor) -> Tensor:
        """The states after a step; degree: (entities, 1) of the links that messages can come by."""
        seen = torch.cat([state, torch.asinh(arrived), arrived / degree], dim=1)
        mixed = layer_norm(
            linear(seen, self.mix[step], self.shift[step]), (WIDTH,), self.scale[step], self.offset[step]
        )
        return state + dropout(relu(mixed), DROPOUT, self.training)

    def untouched(self) -> Tensor:
        """(1, width) the state of an entity that nothing has reached, after the first step."""
        nothing = torch.zeros(1, WIDTH, device=self.out.device)
        return self.layer(0, nothing, nothing, torch.ones(1, 1, device=self.out.device))

    def _first_step(self, graph: NetworkGraph, questions: Questions, asked: Tensor) -> _Reached:
        """What the links reach."""
        size, links, device = graph.num_entities, self.num_links, graph.device
        number = len(questions.asked)
        total = number * size
        begins = self.weights("start", asked)[questions.of * links + questions.link]
        carried = self.weights("first", asked)
        row, given = graph.rows_of(questions.neighbour)
        keys = questions.of[given] * size + graph.other[row]
        hidden = torch.arange(number, device=device) * size + questions.entity
        is_hidden = torch.zeros(total, dtype=torch.bool, device=device)
        is_hidden[hidden] = True
        kept = ~is_hidden[keys]
        row, given, keys = row[kept], given[kept], keys[kept]
        own = questions.of * size + questions.neighbour
        reached = torch.unique(torch.cat([own, keys, hidden]))
        place = torch.full((total,), -1, dtype=torch.int64, device=device)
        place[reached] = torch.arange(len(reached), device=device)
        nothing = torch.zeros(len(reached), WIDTH, device=device)
        start = nothing.index_add(0, place[own], begins)
        carries = carried.index_select(0, questions.of[given] * links + graph.link[row])
        arrived = start.index_add(0, place[keys], begins.index_select(0, given) * carries)
        missing, answers = (torch.zeros(total, device=device) for _ in range(2))
        row, of = graph.rows_of(questions.entity)
        far = of * size + graph.other[row]
        missing.index_add_(0, far, torch.ones(len(far), device=device))
        answers.index_add_(0, far, (graph.link[row] == questions.asked[of]).float())
        degree = (graph.degree(reached % size) - missing[reached]).clamp_min(1)[:, None]
        seen = (~is_hidden[reached])[:, None]
        state = self.layer(0, start * seen, arrived * seen, degree) * seen
        return _Reached(place, state, start * seen, missing, answers)

    def forward(
        self, graph: NetworkGraph, questions: Questions, entities: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """(answers,) logits.

        entities: for which questions, and which known entities; None: all entities for each question in turn
        """
        size, device = graph.num_entities, graph.device
        asked = self.asked[questions.asked]
        reached = self._first_step(graph, questions, asked)
        second, untouched = self.weights("second", asked), self.untouched()
        if entities is None:
            of = torch.arange(len(questions.asked), device=device).repeat_interleave(size)
            entities = of, torch.arange(size, device=device).repeat(len(questions.asked))
            arrived = self._pushed(graph, reached, second, untouched, len(of))
        else:
            arrived = self._pulled(graph, reached, second, untouched, entities)
        of, answer = entities
        keys = of * size + answer
        kind, where = graph.kinds_of(answer)
        # Links from entities that nothing has reached all carry the same.
        usual = (second * untouched).index_select(0, of[where] * self.num_links + (graph.kind[kind] ^ 1))
        arrived = arrived.index_add(0, where, usual * graph.kind_count[kind][:, None])
        place = reached.place[keys]
        is_reached = (place >= 0)[:, None]
        start = torch.where(is_reached, reached.start[place], 0.0)
        state = torch.where(is_reached, reached.state[place], untouched)
        degree = (graph.degree(answer) - reached.missing[keys]).clamp_min(1)[:, None]
        state = self.layer(1, state, arrived + start, degree)
        seen = torch.zeros(len(keys), device=device)
        seen.index_add_(0, where, graph.kind_count[kind] * ((graph.kind[kind] ^ 1) == questions.asked[of[where]]))
        seen = (seen - reached.answers[keys]).clamp_min(0).log1p()
        linked = (start != 0).any(dim=1).float()
        facts = torch.stack([seen, linked, 0.1 * degree[:, 0].log()], dim=1)
        return self.read_out(state, asked[of], facts)

    def _pulled(
        self, graph: NetworkGraph, reached: _Reached, second: Tensor, untouched: Tensor, entities: tuple[Tensor, Tensor]
    ) -> Tensor:
        """(answers, width) what comes to some answers from what was reached, beyond what usually comes."""
        of, answer = entities
        row, where = graph.rows_of(answer)
        place = reached.place[of[where] * graph.num_entities + graph.other[row]]
        comes = place >= 0
        row, where, place = row[comes], where[comes], place[comes]
        carries = second.index_select(0, of[where] * self.num_links + (graph.link[row] ^ 1))
        arrived = torch.zeros(len(answer), WIDTH, device=graph.device)
        return arrived.index_add(0, where, (reached.state - untouched).index_select(0, place) * carries)

    def _pushed(self, graph: NetworkGraph, reached: _Reached, second: Tensor, untouched: Tensor, total: int) -> Tensor:
        """The same for all entities of each question."""
        keys = torch.nonzero(reached.place >= 0)[:, 0]
        of = keys // graph.num_entities
        row, where = graph.rows_of(keys % graph.num_entities)
        carries = second.index_select(0, of[where] * self.num_links + graph.link[row])
        more = (reached.state - untouched).index_select(0, reached.place[keys[where]])
        arrived = torch.zeros(total, WIDTH, device=graph.device)
        return arrived.index_add(0, of[where] * graph.num_entities + graph.other[row], more * carries)

    def read_out(self, state: Tensor, asked: Tensor, facts: Tensor) -> Tensor:
        """(answers,) logits. facts: (answers, 3) log(1 + how often it was this answer), whether the asked entity is
        linked to it, and a tenth of the logarithm of its degree
        """
        units = linear(torch.cat([state, asked, facts], dim=1), self.readout, self.readout_bias)
        return linear(relu(units), self.out)[:, 0]
