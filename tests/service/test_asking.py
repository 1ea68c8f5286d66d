"""Questions that wait are answered together, and none is the worse for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ookg
from ookg.errors import InputError, UnknownName
from ookg.extension.answers import Prediction
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.living import LivingModel
from ookg.service.asking import MOST_AT_ONCE, Asker

LANGUAGE = Question("language", head="Inception")
GENRE = Question("genre", head="Memento")
OPTIONS = AnswerOptions(top=3)


class Watched:
    """A model that notes how it is asked, and waits until it may answer."""

    def __init__(self, model: LivingModel) -> None:
        self.model, self.passes = model, list[list[Question]]()
        self.may_answer = threading.Event()
        self.asked = threading.Event()

    def follow(self) -> bool:
        return self.model.follow()

    def predict_all(self, questions: list[Question], options: AnswerOptions) -> list[Prediction]:
        self.passes.append(list(questions))
        self.asked.set()
        assert self.may_answer.wait(60)
        return self.model.predict_all(questions, options)


@pytest.fixture
def watched(films: Path) -> Watched:
    return Watched(ookg.open(films))


@pytest.fixture
def asker(watched: Watched) -> Iterator[Asker]:
    asker = Asker(lambda: watched, "questions")  # type: ignore[arg-type, return-value]
    yield asker
    watched.may_answer.set()
    asker.stop()


def ask_while_busy(asker: Asker, watched: Watched, *requests: tuple[list[Question], AnswerOptions]) -> list[Any]:
    """Let requests gather while the first of them is being answered."""

    async def run() -> list[Any]:
        first = asyncio.ensure_future(asker.ask(*requests[0]))
        await asyncio.to_thread(watched.asked.wait, 60)
        others = [asyncio.ensure_future(asker.ask(*request)) for request in requests[1:]]
        await asyncio.sleep(0)
        watched.may_answer.set()
        return list(await asyncio.gather(first, *others, return_exceptions=True))

    return asyncio.run(run())


def test_a_lone_question_is_answered_as_ever(asker: Asker, watched: Watched) -> None:
    watched.may_answer.set()
    (answer,) = asyncio.run(asker.ask([LANGUAGE], OPTIONS))
    assert answer.answers == watched.model.predict(head="Inception", relation="language", options=OPTIONS).answers


def test_questions_that_wait_are_answered_in_one_pass(asker: Asker, watched: Watched) -> None:
    answers = ask_while_busy(asker, watched, ([LANGUAGE], OPTIONS), ([GENRE], OPTIONS), ([LANGUAGE, GENRE], OPTIONS))
    assert watched.passes == [[LANGUAGE], [GENRE, LANGUAGE, GENRE]]
    expected = [watched.model.predict_all([one], OPTIONS)[0].answers for one in (LANGUAGE, GENRE)]
    assert [[one.answers for one in answer] for answer in answers] == [[expected[0]], [expected[1]], expected]


def test_other_options_are_another_pass(asker: Asker, watched: Watched) -> None:
    ask_while_busy(asker, watched, ([LANGUAGE], OPTIONS), ([GENRE], OPTIONS), ([GENRE], AnswerOptions(top=1)))
    assert watched.passes == [[LANGUAGE], [GENRE], [GENRE]]


def test_a_question_that_cannot_be_answered_is_nobody_elses_fault(asker: Asker, watched: Watched) -> None:
    wrong = Question("language", head="nobody")
    answers = ask_while_busy(asker, watched, ([LANGUAGE], OPTIONS), ([GENRE], OPTIONS), ([wrong], OPTIONS))
    assert isinstance(answers[2], UnknownName)
    assert answers[1][0].answers == watched.model.predict_all([GENRE], OPTIONS)[0].answers


def test_a_pass_has_a_size(asker: Asker, watched: Watched) -> None:
    ask_while_busy(asker, watched, *[([GENRE], OPTIONS)] * (MOST_AT_ONCE + 6))
    assert [len(one) for one in watched.passes] == [1, MOST_AT_ONCE, 5]


def test_an_error_of_the_model_reaches_whoever_asked(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, watched: Watched
) -> None:
    def fail(*_: object) -> list[Prediction]:
        raise MemoryError("too much")

    monkeypatch.setattr(watched, "predict_all", fail)
    with pytest.raises(MemoryError):
        asyncio.run(asker.ask([GENRE], OPTIONS))


def test_whoever_has_gone_is_not_answered(asker: Asker, watched: Watched) -> None:
    async def run() -> None:
        first = asyncio.ensure_future(asker.ask([LANGUAGE], OPTIONS))
        await asyncio.to_thread(watched.asked.wait, 60)
        gone = asyncio.ensure_future(asker.ask([GENRE], OPTIONS))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        watched.may_answer.set()
        await first
        await asker.ask([GENRE], AnswerOptions(top=2))

    asyncio.run(run())
    assert watched.passes == [[LANGUAGE], [GENRE]]


def test_a_question_sees_what_was_written_before_it(directory: Path) -> None:
    model, writer = ookg.open(directory), ookg.open(directory)
    asker = Asker(lambda: model, "questions")
    with pytest.raises(InputError):
        asyncio.run(asker.ask([Question("language", head="A")], OPTIONS))
    for number in range(5):
        name = f"A{number}"
        writer.add([(name, "genre", "action")])
        assert asyncio.run(asker.ask([Question("language", head=name)], OPTIONS))[0].answers
    asker.stop()
