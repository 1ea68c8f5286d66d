"""Ways are chosen by what helps: evidence where it decides, the vector alone where evidence says nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ookg.models import RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.queries import both_ends
from ookg.simulation.choosing import FEWEST_QUESTIONS, LEAST_TO_FIT, Tried, choose_known, choose_ways
from ookg.simulation.hiding import HidingSettings, hide
from ookg.simulation.simulated import Simulation
from ookg.simulation.ways import DEFAULT_KNOWN, KNOWN_RANKINGS, Ways
from ookg.types import IntArray

FILMS, STUDIOS, LANGUAGES, PEOPLE = 160, 20, 5, 60
SIDE = 13
STEPS = [(1, 0), (0, 1), (3, 0), (0, 4), (5, 2)]
FIT = RefineSettings(steps=4, margin=4.0, negatives=8)


def films() -> IntArray:
    """Each film is of a studio, and has the studio's language and five people that have nothing to do with either."""
    rng = np.random.default_rng(0)
    studio, language, person = FILMS, FILMS + STUDIOS, FILMS + STUDIOS + LANGUAGES
    rows = []
    for film in range(FILMS):
        house = film % STUDIOS
        rows += [(film, 0, studio + house), (film, 1, language + house % LANGUAGES)]
        rows += [(film, 2, person + other) for other in rng.choice(PEOPLE, 5, replace=False)]
    return np.array(rows)


def film_simulation() -> Simulation:
    """Films are hidden; the vectors are random and know nothing."""
    triples = films()
    size = int(triples.max()) + 1
    hidden = hide(triples, size, 3, HidingSettings(sample=60, new="head", seed=0))
    generator = torch.Generator().manual_seed(0)
    tables = (torch.randn(rows, 6, generator=generator) for rows in (hidden.num_known, 3))
    return Simulation.of(hidden, Embedding(TransE(6), *tables), None, is_exact=True)


def grid_simulation() -> Simulation:
    """Points of a grid and steps on it. The vectors are the points, a little off; no step implies another."""
    points = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2)
    rows = [
        (place, relation, int((y + up) * SIDE + x + right))
        for place, (x, y) in enumerate(points.tolist())
        for relation, (right, up) in enumerate(STEPS)
        if x + right < SIDE and y + up < SIDE
    ]
    hidden = hide(np.array(rows), len(points), len(STEPS), HidingSettings(sample=50, seed=0))
    noise = torch.randn(hidden.num_known, 2, generator=torch.Generator().manual_seed(0))
    entities = torch.from_numpy(points[hidden.entities[: hidden.num_known]]).float() + 0.25 * noise
    embedding = Embedding(TransE(2), entities, torch.tensor(STEPS).float())
    return Simulation.of(hidden, embedding, None, is_exact=True)


@pytest.fixture(scope="module")
def by_films() -> Simulation:
    return film_simulation()


def test_company_counts_where_it_decides(by_films: Simulation) -> None:
    tried: list[Tried] = []
    ways = choose_ways([by_films], [None], (1, 2), note=tried.append)
    assert ways is not None
    assert [(way.triples, way.refine) for way in ways] == [(1, False), (2, False)]
    assert [one.triples for one in tried] == [1, 2]
    for one, way in zip(tried, ways, strict=True):
        assert one.ranking == way.ranking
        assert way.ranking.company > 0
        assert one.mrr > 1.5 * one.alone  # checked on entities that the weights were not fitted to
        assert one.questions >= FEWEST_QUESTIONS


def test_the_vector_ranks_alone_where_evidence_says_nothing() -> None:
    simulation, tried = grid_simulation(), list[Tried]()
    ways = choose_ways([simulation], [None], (1, 3), note=tried.append)
    assert ways is not None
    for way, one in zip(ways, tried, strict=True):
        assert way.ranking.of_sources() == []
        assert way.ranking.vector > 0
        assert one.mrr >= one.alone > 0.3


def test_the_same_seed_chooses_the_same(by_films: Simulation) -> None:
    one, same = (choose_ways([by_films], [None], (1,), seed=3) for _ in range(2))
    assert one == same
    assert one is not None


def test_fitted_vectors_are_tried_if_every_model_can_have_them(by_films: Simulation) -> None:
    tried: list[Tried] = []
    choose_ways([by_films], [FIT], (1, LEAST_TO_FIT), note=tried.append)
    with_few, *with_more = [(one.triples, one.refine) for one in tried]
    assert with_few == (1, False)  # with so few, nothing is fitted
    assert with_more == [(LEAST_TO_FIT, False), (LEAST_TO_FIT, True)]
    together: list[Tried] = []
    ways = choose_ways([by_films, by_films], [FIT, None], (LEAST_TO_FIT,), note=together.append)
    assert [one.refine for one in together] == [False]
    assert isinstance(ways, Ways)
    assert ways.refine_from is None


def test_with_too_few_questions_nothing_is_chosen(by_films: Simulation) -> None:
    assert choose_ways([by_films], [None], (50, 99)) is None  # no film has as many triples
    ways = choose_ways([by_films], [None], (1, 50))
    assert ways is not None
    assert [way.triples for way in ways] == [1]


def random_vectors(entities: int, relations: int, seed: int = 0) -> Embedding:
    """They know nothing."""
    generator = torch.Generator().manual_seed(seed)
    return Embedding(TransE(6), *(torch.randn(rows, 6, generator=generator) for rows in (entities, relations)))


def test_for_known_entities_company_counts_where_it_decides() -> None:
    """The language of a film is that of its studio's others, and no link states it."""
    triples = films()
    languages = np.flatnonzero(triples[:, 1] == 1)
    held_out = languages[::3]
    embedding = random_vectors(1 + int(triples.max()), 3)
    tried = choose_known([embedding], np.delete(triples, held_out, axis=0), both_ends(triples[held_out]), 3)
    assert tried is not None
    assert tried.questions == 2 * len(held_out)
    assert tried.ranking == KNOWN_RANKINGS[1]
    assert tried.mrr > 1.3 * tried.alone
    again = choose_known([embedding], np.delete(triples, held_out, axis=0), both_ends(triples[held_out]), 3)
    assert again == tried


def test_for_known_entities_links_count_where_one_relation_states_another() -> None:
    # Each entity is in one pair at either end: a question has no other answer that likeness could go by.
    size = 600
    head, tail = np.arange(size), np.random.default_rng(0).permutation(size)
    triples = np.concatenate([
        np.stack([head, np.full(size, 0), tail], axis=1), np.stack([tail, np.full(size, 1), head], axis=1)
    ])  # fmt: skip
    held_out = np.arange(0, size, 10)
    tried = choose_known(
        [random_vectors(size, 2)], np.delete(triples, held_out, axis=0), both_ends(triples[held_out]), 2
    )
    assert tried is not None
    assert tried.ranking == DEFAULT_KNOWN
    assert tried.mrr > 0.95
    assert tried.alone < 0.1


def test_for_known_entities_the_default_stays_where_evidence_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = grid_simulation()
    held_out = np.arange(0, len(simulation.hidden.known), 7)
    known = np.delete(simulation.hidden.known, held_out, axis=0)
    asked = simulation.hidden.known[held_out]
    tried = choose_known([simulation.embedding], known, both_ends(asked), len(STEPS))
    assert tried is not None
    assert tried.ranking == DEFAULT_KNOWN
    assert tried.mrr == pytest.approx(tried.alone, abs=0.02)
    few = choose_known([simulation.embedding], known, both_ends(asked[: FEWEST_QUESTIONS // 2 - 1]), len(STEPS))
    assert few is None
    monkeypatch.setattr("ookg.simulation.choosing.MOST_TRIPLES", len(known) - 1)
    assert choose_known([simulation.embedding], known, both_ends(asked), len(STEPS)) is None


def test_for_known_entities_the_vector_ranks_alone_where_evidence_misleads() -> None:
    """A relation goes where another one leads, but never for the entities whose answers are held out."""
    entities = np.arange(200)
    same = np.stack([entities, np.zeros(200, dtype=np.int64), (entities + 7) % 200], axis=1)
    half = same[:100] + np.array([0, 1, 0])
    others = np.stack([entities[100:], np.ones(100, dtype=np.int64), (entities[100:] + 1) % 200], axis=1)
    angle = torch.from_numpy(2 * np.pi * entities / 200)[:, None]
    circle = torch.cat([angle.cos(), angle.sin()], dim=1).float()
    generator = torch.Generator().manual_seed(0)
    noise = 0.002 * torch.randn(200, 2, generator=generator)
    embedding = Embedding(RotatE(1), circle + noise, torch.tensor([[7 * 2 * np.pi / 200], [2 * np.pi / 200]]).float())
    tried = choose_known([embedding], np.concatenate([same, half]), both_ends(others), 2)
    assert tried is not None
    assert not tried.ranking.has_evidence
    assert tried.mrr == tried.alone > 0.6
