"""The tour: train on the film graph, add films it does not know, ask about them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import as_file, files

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ookg.graph.triples import Triples, read_triples
from ookg.model.model import Model, Prediction
from ookg.model.train import train
from ookg.training.settings import TrainingSettings

SETTINGS = TrainingSettings(dim=48, steps=600, batch=512, negatives=32, margin=6.0, lr=0.02)
SHOWN = 3


@dataclass(frozen=True)
class NewFilm:
    """A film that the graph does not have, what is known of it, and what to ask."""

    title: str
    triples: tuple[tuple[str, str], ...]
    questions: tuple[str, ...]

    @property
    def given(self) -> list[tuple[str, str, str]]:
        """Its triples."""
        return [(self.title, relation, tail) for relation, tail in self.triples]


TENET = NewFilm(
    "TENET",
    (("directed_by", "Christopher Nolan"), ("genre", "action"), ("starring", "John David Washington")),
    ("language", "country"),
)
OTHERS = (
    NewFilm(
        "Parasite",
        (("directed_by", "Bong Joon-ho"), ("genre", "thriller"), ("starring", "Song Kang-ho")),
        ("language", "country"),
    ),
    NewFilm("Ponyo", (("directed_by", "Hayao Miyazaki"), ("genre", "fantasy")), ("language", "genre")),
    NewFilm("Volver", (("directed_by", "Pedro Almodóvar"), ("starring", "Penélope Cruz")), ("language", "country")),
)


def film_graph() -> Triples:
    """The triples of the film graph."""
    with as_file(files("ookg.demo") / "films.tsv") as path:
        return read_triples(path)


def train_on_films(seed: int = 0, progress: bool = False) -> Model:
    """The demo's model."""
    return train(film_graph(), SETTINGS.changed({"seed": seed}), device="cpu", progress=progress)


def tour(seed: int, console: Console) -> None:
    """Show all of it on the console."""
    graph = film_graph()
    sizes = f"{len(graph):,} triples about {len(graph.entities):,} films, people, genres, languages and countries"
    console.print(Text.assemble(("1  A graph. ", "bold"), sizes))
    console.print(Text.assemble(("2  Train on it, ", "bold"), f"once: TransE, {SETTINGS.dim} numbers for each entity."))
    model = train_on_films(seed, progress=True)
    console.print(
        Text.assemble(
            ("3  A film arrives ", "bold"), "that the graph has never seen. No retraining, no known vector changes.\n"
        )
    )
    model.embed(TENET.given)  # loads what the first call needs, so that the times below are those of a call
    for film in (TENET, *OTHERS):
        console.print(_card(model, film))
    console.print(
        Text.assemble(
            ("Next: ", "bold"),
            "ookg train your-graph.tsv --out model   then   ookg predict model --given new.tsv --help",
        )
    )


def _card(model: Model, film: NewFilm) -> Panel:
    begun = time.perf_counter()
    model.embed(film.given)
    took = time.perf_counter() - begun
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column()
    lines.add_row("given", Text(",  ".join(f"{relation} {tail}" for relation, tail in film.triples), "cyan"))
    predictions = [model.predict(film.given, head=film.title, relation=name, top=SHOWN) for name in film.questions]
    for question, found in zip(film.questions, predictions, strict=True):
        lines.add_row(f"{question}?", _answers(found))
    lines.add_row("why", Text(_why(film.questions[0], predictions[0]), "dim"))
    title = Text.assemble((film.title, "bold"), f": vector in {took * 1000:.1f} ms")
    return Panel(lines, title=title, title_align="left", box=box.ROUNDED)


def _answers(found: Prediction) -> Text:
    line = Text()
    for answer in found.answers:
        line.append(f"{answer.entity} ({answer.score:.1f})   ", "bold green" if answer.rank == 1 else "dim")
    return line


def _why(question: str, found: Prediction) -> str:
    """What speaks most for the first answer: what the graph says, or else the triples that made the vector."""
    if found.answers[0].reasons:
        return found.answers[0].reasons[0].text()
    shares = [f"{reason.weight:.0%} {reason.relation} {reason.entity}" for reason in found.explanation]
    return f"{question} follows from " + ", ".join(shares)
