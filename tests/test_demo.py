from __future__ import annotations

import io

import pytest
from rich.console import Console

from ookg.demo import tour
from ookg.model.model import Model


@pytest.fixture(scope="module", params=range(5))
def films(request: pytest.FixtureRequest) -> Model:
    return tour.train_on_films(request.param)


def test_the_newcomers_are_new_and_their_people_known(films: Model) -> None:
    for film in (tour.TENET, *tour.OTHERS):
        assert film.title not in films.entities
        assert all(tail in films.entities for _, tail in film.triples)


@pytest.mark.parametrize(
    ("film", "language"),
    [(tour.TENET, "English"), *zip(tour.OTHERS, ("Korean", "Japanese", "Spanish"), strict=True)],
    ids=lambda value: getattr(value, "title", value),
)
def test_the_language_is_right(films: Model, film: tour.NewFilm, language: str) -> None:
    found = films.predict(film.given, head=film.title, relation="language", top=1)
    assert found.answers[0].entity == language
    assert sum(reason.weight for reason in found.explanation) == pytest.approx(1)
    assert {reason.entity for reason in found.explanation} == {tail for _, tail in film.triples}


def test_the_tour_shows_answers_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    output = io.StringIO()
    tour.tour(0, Console(file=output, width=100))
    text = " ".join(output.getvalue().replace("│", " ").split())  # lines that go on as one
    for part in (
        "TENET",
        "English",
        "10 of 10 with directed_by Christopher Nolan have language English",
        "Parasite",
        "Ponyo",
        "Volver",
    ):
        assert part in text
    assert "600 of 600 steps" in capsys.readouterr().err
