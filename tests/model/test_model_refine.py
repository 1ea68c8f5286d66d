"""A model that fits new vectors to their triples, and ranks by all evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL
from ookg.errors import InputError
from ookg.evaluation.evaluate import LinkPredictionResult, TripletClassificationResult
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, RankingWeights
from ookg.graph.known import KnownGraph
from ookg.graph.triples import Triples, as_triples
from ookg.model.model import Model
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import Correlation, Degree, Uniform
from ookg.newcomers.refinement import RefineSettings, default_refinement
from ookg.simulation.choice import NEWCOMER_METHODS, NewcomerChoice
from ookg.storage.checkpoint import Checkpoint

GIVEN = [
    ("x", "r0", "e1"),
    ("e2", "r1", "x"),
    ("x", "r2", "e4"),
    ("x", "r3", "e5"),
    ("y", "r2", "e3"),
    ("e6", "r0", "y"),
]
FEW = RefineSettings(margin=6.0, steps=60, lr=0.03, negatives=16)
VALID = [("e1", "r0", "e2", "1"), ("e3", "r0", "e4", "0"), ("e5", "r1", "e6", "1"), ("e7", "r1", "e8", "0")]


def bare(model: Model) -> Model:
    """The model as if it had come without its training triples."""
    return Model(replace(model.checkpoint, graph=None))


# Settings at the scale of a model.


def random_embedding(scale: float = 1.0, size: int = 50) -> Embedding:
    generator = torch.Generator().manual_seed(0)
    entities = scale * torch.randn(size, 20, generator=generator)
    return Embedding(TransE(20), entities, torch.randn(2, 20, generator=generator))


def test_refinement_by_the_training_margin() -> None:
    found = default_refinement(random_embedding(), 24.0)
    assert found.margin == 36.0
    assert found.lr == pytest.approx(0.4 * 26 / 20)
    assert found == RefineSettings(margin=found.margin, lr=found.lr)
    rotate = Embedding(RotatE(10), torch.randn(3, 20), torch.randn(2, 10))
    assert default_refinement(rotate, 8.0).lr == pytest.approx(0.4)  # by d, not by the width of a vector


@pytest.mark.parametrize("margin", [None, 0.0, float("nan")])
def test_refinement_without_a_training_margin_is_at_the_vectors_scale(margin: float | None) -> None:
    small, large = (default_refinement(random_embedding(scale), margin) for scale in (1.0, 10.0))
    assert large.margin == pytest.approx(10 * small.margin, rel=1e-4)
    # Gaps of 20 coordinates with the standard deviation √2 are about 20 · 2/√π.
    assert small.margin == pytest.approx(1.5 * 20 * 2 / np.sqrt(np.pi) / 1.35, rel=0.1)
    assert small.lr == pytest.approx(0.4 * (small.margin / 1.5 + 2) / 20)
    assert small == default_refinement(random_embedding(), margin)
    assert 0 < default_refinement(random_embedding(size=1), margin).margin < 1e-5


def test_which_settings_a_model_takes(model: Model) -> None:
    assert model.refinement(False) is None
    assert model.refinement(FEW) is FEW
    found = model.refinement(True)
    assert found is not None
    assert found.margin == pytest.approx(1.5 * 4.0)  # of the training's margin
    tuned = Model(replace(model.checkpoint, newcomers=NewcomerChoice(refine=FEW).to_dict()))
    assert tuned.refinement(True) == FEW
    unknown = Model(replace(model.checkpoint, settings={})).refinement(True)
    assert unknown is not None
    assert unknown.margin != found.margin


def test_which_ranking_weights_a_model_takes(model: Model) -> None:
    chosen = RankingWeights(1.0, 2.0, 3.0)
    assert model.ranking_weights(False, refined=True) is None
    assert model.ranking_weights(chosen, refined=True) is chosen
    assert model.ranking_weights(True, refined=True) == RankingWeights()
    assert model.ranking_weights(True, refined=False) == CLOSED_FORM_WEIGHTS
    tuned = Model(replace(model.checkpoint, newcomers=NewcomerChoice(ranking={"refined": chosen}).to_dict()))
    assert tuned.ranking_weights(True, refined=True) == chosen
    assert tuned.ranking_weights(True, refined=False) == CLOSED_FORM_WEIGHTS


# Fitting.


def test_known_vectors_do_not_move_by_a_bit(model: Model) -> None:
    before = model.entity_vectors.clone(), model.relation_vectors.clone()
    model.embed(GIVEN, refine=FEW)
    model.embed([*GIVEN, ("x", "likes", "y"), ("e1", "likes", "e2")], refine=FEW)
    model.predict(GIVEN, head="x", relation="r1", refine=FEW, combine=True)
    model.classify([("x", "r0", "e1")], valid=VALID, given=GIVEN, refine=FEW)
    assert torch.equal(before[0], model.entity_vectors)
    assert torch.equal(before[1], model.relation_vectors)


@pytest.mark.parametrize("geometry", [TransE(16), TransE(16, 2), RotatE(8)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_refined_vectors_are_nearer_to_their_own_triples(geometry: Geometry, seed: int) -> None:
    """Forty far-apart entities; what a newcomer's triples say is roughly the same, but for one that is far off."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    entities = 3 * torch.randn(40, geometry.entity_width, generator=generator)
    relations = torch.randn(4, geometry.relation_width, generator=generator)
    new = 3 * torch.randn(1, geometry.entity_width, generator=generator)
    near = geometry.solve_tail(new, relations) + 0.3 * torch.randn(4, geometry.entity_width, generator=generator)
    entities[:4] = near  # entity n is where (new, relation n, ?) should be, about
    labels = as_triples([(f"e{n}", f"r{n % 4}", f"e{(n + 7) % 40}") for n in range(40)])
    order = [int(label[1:]) for label in labels.entities.labels.to_pylist()]
    relation_order = [int(label[1:]) for label in labels.relations.labels.to_pylist()]
    embedding = Embedding(geometry, entities[order].contiguous(), relations[relation_order].contiguous())
    graph = KnownGraph(labels.ids, 40, 4)
    model = Model(Checkpoint(embedding, labels.entities, labels.relations, graph, {}, {}))
    given = [("new", f"r{n}", f"e{n}") for n in range(4)] + [("new", "r0", f"e{rng.integers(4, 40)}")]
    # All of them are farther than the margin, and others much farther: nothing but the triples pulls.
    settings = RefineSettings(margin=0.1, steps=200, lr=0.1, negatives=16)

    def distance(refine: bool | RefineSettings) -> float:
        claims = model.classify(given, valid=[("e0", "r0", "e7", "1")], given=given, weights=Uniform(), refine=refine)
        return -float(np.mean([claim.score for claim in claims.claims if claim.score is not None]))

    assert distance(settings) < 0.95 * distance(False)


def test_the_seed_makes_the_vectors(model: Model) -> None:
    first, again, other = (model.embed(GIVEN, refine=settings) for settings in (FEW, FEW, replace(FEW, seed=1)))
    closed = model.embed(GIVEN)
    assert first.entities == closed.entities == ["x", "y"]
    assert torch.equal(first.vectors, again.vectors)
    assert not torch.equal(first.vectors, other.vectors)
    assert not torch.allclose(first.vectors, closed.vectors, atol=1e-3)
    assert first.neighbors.tolist() == closed.neighbors.tolist() == [4, 2]


def test_fitting_tells_its_steps(model: Model) -> None:
    told: list[int] = []

    def report(done: int, figure: Callable[[], str] | None = None) -> None:
        told.append(done)

    model.embed(GIVEN, refine=replace(FEW, steps=5), report=report)
    assert told == [1, 2, 3, 4, 5]


def test_what_has_no_vector_gets_none(model: Model) -> None:
    found = model.embed([*GIVEN, ("lost", "unheard", "e1")], refine=FEW)
    assert found.without_vector == ["lost"]
    assert found.entities == ["x", "y"]
    assert torch.isfinite(found.vectors).all()
    assert model.embed([], refine=FEW).vectors.shape == (0, model.entity_vectors.shape[1])


def test_refined_newcomers_have_one_vector_for_every_query(model: Model) -> None:
    closed = model.given(GIVEN, Correlation()).newcomers
    refined = closed.refined_by(FEW)
    both = np.array([0, 1])
    queries = np.array([0, 1])
    assert refined.refined is not None
    assert closed.refined is None
    assert torch.equal(refined.vectors(both, queries), refined.vectors(both, queries[::-1].copy()))
    assert not torch.equal(closed.vectors(both, queries), closed.vectors(both, queries[::-1].copy()))
    # Weights that look at the query have no single start: it is that of uniform ones.
    uniform = model.given(GIVEN, Uniform()).newcomers.refined_by(FEW)
    assert torch.equal(refined.vectors(both), uniform.vectors(both))
    degree = model.given(GIVEN, Degree()).newcomers.refined_by(replace(FEW, steps=1, lr=1e-6))
    closed_degree = model.given(GIVEN, Degree()).newcomers.vectors(both)
    torch.testing.assert_close(degree.vectors(both), closed_degree, rtol=0, atol=1e-5)
    roomy = refined.with_room_for(4)
    assert torch.equal(roomy.vectors(both), refined.vectors(both))
    assert torch.isnan(roomy.vectors(np.array([2, 3]))).all()


def test_refine_is_refused_where_it_means_nothing(model: Model, graph: Triples) -> None:
    with pytest.raises(InputError, match="a query relation with refine"):
        model.embed(GIVEN, query_relation="r1", refine=FEW)
    projected = ookg.train(graph, SMALL.changed({"model": "transh", "steps": 2}), device="cpu")
    for refine in (True, FEW):
        with pytest.raises(InputError, match="refine is for TransE and RotatE, and this is TransH; leave it out"):
            projected.embed(GIVEN, refine=refine)
    with pytest.raises(InputError, match="this is TransH"):
        projected.predict(GIVEN, head="x", relation="r0", refine=True)
    with pytest.raises(InputError, match="this is TransH"):
        projected.classify([("x", "r0", "e1")], valid=VALID, given=GIVEN, refine=True)
    assert projected.predict(GIVEN, head="x", relation="r0", combine=True).answers


# Ranking by all evidence.


@pytest.fixture
def countries() -> Model:
    """Twelve towns in four countries, each stated both ways; the vectors are noise."""
    pairs = [(f"town{n}", f"country{n % 4}") for n in range(12)]
    rows = [(town, "located_in", country) for town, country in pairs]
    rows += [(country, "contains", town) for town, country in pairs]
    triples = as_triples([*rows, ("town0", "near", "town1"), ("lake", "near", "town2")])
    generator = torch.Generator().manual_seed(0)
    tables = (torch.randn(size, 6, generator=generator) for size in (len(triples.entities), len(triples.relations)))
    embedding = Embedding(TransE(6), *tables)
    graph = KnownGraph(triples.ids, len(triples.entities), len(triples.relations))
    return Model(Checkpoint(embedding, triples.entities, triples.relations, graph, {}, {}))


@pytest.mark.parametrize("refine", [False, FEW])
@pytest.mark.parametrize(
    ("link", "asked"),
    [
        (("lake", "located_in", "New"), {"head": "New", "relation": "contains"}),
        (("New", "contains", "lake"), {"tail": "New", "relation": "located_in"}),
        (("New", "located_in", "lake"), {"tail": "New", "relation": "contains"}),
    ],
)
def test_a_direct_link_is_ranked_first(
    countries: Model, link: tuple[str, str, str], asked: dict[str, Any], refine: bool | RefineSettings
) -> None:
    given = [link, ("New", "near", "town3")]
    found = countries.predict(given, **asked, refine=refine, combine=True, weights=Uniform()).answers
    assert (found[0].entity, found[0].rank) == ("lake", 1)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] - scores[1] > 1
    if not refine:
        plain = countries.predict(given, **asked, combine=False, weights=Uniform()).answers
        assert plain[0].entity != "lake"


def test_combine_is_on_with_refine_if_it_can_be(countries: Model) -> None:
    given = [("lake", "located_in", "Newland"), ("Newland", "near", "town3")]
    asked: dict[str, Any] = {"head": "Newland", "relation": "contains", "top": 50}
    refined = countries.predict(given, **asked, refine=FEW)
    assert refined == countries.predict(given, **asked, refine=FEW, combine=True)
    assert refined != countries.predict(given, **asked, refine=FEW, combine=False)
    closed = countries.predict(given, **asked, refine=False)
    assert closed == countries.predict(given, **asked, combine=False)
    assert all(answer.score < 0 for answer in closed.answers)  # -D(h, r, t)
    assert bare(countries).predict(given, **asked, refine=FEW).answers == [
        replace(answer, is_known=False)
        for answer in countries.predict(given, **asked, refine=FEW, combine=False).answers
    ]


def test_known_entities_and_new_answers_have_evidence_too(countries: Model) -> None:
    given = [("Newtown", "located_in", "country1"), ("Newtown", "near", "town5")]
    found = countries.predict(given, head="country1", relation="contains", combine=True)
    assert (found.answers[0].entity, found.answers[0].is_new) == ("Newtown", True)
    stated = {"town1", "town5", "town9"}
    assert not stated & {answer.entity for answer in found.answers}
    marked = countries.predict(given, head="country1", relation="contains", combine=True, known_answers="mark")
    assert {answer.entity for answer in marked.answers[:4]} == stated | {"Newtown"}


def test_combine_needs_the_training_triples(model: Model) -> None:
    for combine in (True, RankingWeights()):
        with pytest.raises(InputError, match=r"combine needs the training triples.*import it with its triples"):
            bare(model).predict(GIVEN, head="x", relation="r0", combine=combine)
    assert bare(model).predict(GIVEN, head="x", relation="r0", refine=FEW).answers


# Evaluation.


def write_set(folder: Path, labelled: bool) -> Path:
    """Ten people and ten cities; who lives somewhere is at home there. Of the new ones, one of both is given."""
    rows = [(f"p{n}", relation, f"c{n * 3 % 10}") for n in range(10) for relation in ("lives_in", "at_home_in")]
    rows += [(f"p{n}", "knows", f"p{(n + 1) % 10}") for n in range(10)]
    aux = [
        (f"new{n}", relation, end) for n in range(5) for relation, end in (("lives_in", f"c{n}"), ("knows", f"p{n}"))
    ]
    test = [(f"new{n}", "at_home_in", f"c{n}") for n in range(5)]
    parts: dict[str, list[tuple[str, ...]]] = {
        "train": list(rows),
        "valid": list(rows[:6]),
        "aux": list(aux),
        "test": list(test),
    }
    if labelled:
        for name in ("valid", "test"):
            false = [(head, relation, "c9" if tail != "c9" else "c8", "0") for head, relation, tail in parts[name]]
            parts[name] = [*((*row, "1") for row in parts[name]), *false]
    folder.mkdir()
    for name, lines in parts.items():
        (folder / f"{name}.txt").write_text("".join("\t".join(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("sets") / "links", labelled=False)


@pytest.fixture(scope="module")
def people(links: Path) -> Model:
    """Its vectors are noise."""
    checkpoint = ookg.train(links / "train.txt", SMALL.changed({"steps": 1}), device="cpu").checkpoint
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(20, 8, generator=generator), 2 * torch.randn(3, 8, generator=generator)
    return Model(replace(checkpoint, embedding=Embedding(TransE(8), *tables)))


def ranks(model: Model, folder: Path, **options: Any) -> LinkPredictionResult:
    found = ookg.evaluate(model, folder, **options)
    assert isinstance(found, LinkPredictionResult)
    return found


def test_evaluate_with_evidence(people: Model, links: Path) -> None:
    plain = ranks(people, links).summary
    assert plain.mrr < 1
    assert ranks(people, links, combine=True).summary.mrr == 1  # every answer is linked directly
    assert ranks(people, links, refine=FEW, combine=RankingWeights(links=50.0)).summary.mrr == 1
    together = ranks(people, links, refine=FEW)
    assert together == ranks(people, links, refine=FEW, combine=True)
    assert together.summary.mrr > ranks(people, links, refine=FEW, combine=False).summary.mrr
    assert ranks(people, links, combine=False).summary == plain
    only_vectors = RankingWeights(vector=1.0, links=0.0, habits=0.0)
    assert ranks(people, links, combine=only_vectors).summary == plain
    refined = ranks(people, links, refine=FEW, combine=False)
    assert refined.summary == ranks(people, links, refine=FEW, combine=only_vectors).summary
    assert refined.summary != plain
    assert (refined.unscored, refined.unreachable) == (0, 0)


def test_evaluated_answers_are_the_predicted_ones(people: Model, links: Path) -> None:
    given = links / "aux.txt"
    for options in ({"combine": True}, {"refine": FEW, "combine": False}, {"refine": FEW}):
        places = []
        for number in range(5):
            asked: dict[str, Any] = {"head": f"new{number}", "relation": "at_home_in", **options}
            found = people.predict(given, top=50, new_answers=False, known_answers="mark", **asked)
            places.append(next(answer.rank for answer in found.answers if answer.entity == f"c{number}"))
        assert ranks(people, links, **options).summary.mrr == pytest.approx(np.mean(1 / np.array(places)))


def test_evaluate_shows_progress_without_other_results(
    people: Model, links: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ranks(people, links, refine=FEW, progress=True)
    assert "fitting new entities" in capsys.readouterr().err
    assert shown.summary == ranks(people, links, refine=FEW).summary


def test_evaluate_claims_with_fitted_vectors(people: Model, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "claims", labelled=True)
    closed, refined, again = (ookg.evaluate(people, folder, refine=refine) for refine in (False, FEW, FEW))
    for found in (closed, refined):
        assert isinstance(found, TripletClassificationResult)
        assert (found.claims, found.unscored) == (10, 0)
    assert refined == again
    claims, valid = folder / "test.txt", folder / "valid.txt"
    expected = people.classify(claims, valid=valid, given=folder / "aux.txt", refine=FEW)
    assert isinstance(refined, TripletClassificationResult)
    assert refined.accuracy == expected.accuracy


def test_evaluate_with_evidence_needs_the_training_triples(people: Model, links: Path) -> None:
    with pytest.raises(InputError, match="combine needs the training triples"):
        ookg.evaluate(bare(people), links, combine=True)
    found = ranks(bare(people), links, refine=FEW, combine=False)
    assert found.summary.queries == 5


def test_fitted_vectors_are_combined_where_relations_imply_one_another() -> None:
    random = np.random.default_rng(0)
    pairs = {tuple(sorted(pair)) for pair in random.integers(0, 30, size=(80, 2)).tolist() if pair[0] != pair[1]}
    settings = ookg.TrainingSettings(dim=4, steps=5, batch=32, negatives=4)
    plain = ookg.train([(f"e{a}", "in", f"e{b}") for a, b in pairs], settings)
    inverse = ookg.train(
        [row for a, b in pairs for row in ((f"e{a}", "in", f"e{b}"), (f"e{b}", "contains", f"e{a}"))], settings
    )
    assert [model.combines(refine=True) for model in (plain, inverse)] == [False, True]
    assert not inverse.combines(refine=False)
    for best in NEWCOMER_METHODS:
        tuned = Model(replace(plain.checkpoint, newcomers=NewcomerChoice(best=best).to_dict()))
        assert tuned.combines(refine=True) == (best == "combined")


def test_an_answer_names_the_link_that_speaks_for_it() -> None:
    rows = [
        row
        for country in range(6)
        for town in range(8)
        for row in (
            (f"c{country}", "contains", f"t{country}_{town}"),
            (f"t{country}_{town}", "located_in", f"c{country}"),
        )
    ]
    model = ookg.train(rows, ookg.TrainingSettings(dim=8, steps=50, batch=64, negatives=8))
    given = [(f"t{number}_0", "located_in", "newland") for number in range(3)]
    found = model.predict(given, head="newland", relation="contains", refine=True, top=4)
    assert {answer.entity for answer in found.answers[:3]} == {"t0_0", "t1_0", "t2_0"}
    for answer in found.answers[:3]:
        assert answer.link is not None
        assert (answer.link.relation, answer.link.direction) == ("located_in", "in")
        assert answer.link.confidence == pytest.approx(48 / (51 + 5))  # of 51 located towns, 48 are contained
    assert found.answers[3].link is None
    alone = model.predict(given, head="newland", relation="contains", refine=True, combine=False)
    assert all(answer.link is None for answer in alone.answers)
