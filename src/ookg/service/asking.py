"""Questions that wait at the same time are answered in one pass over the entities."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from ookg.errors import OokgError
from ookg.extension.answers import Prediction
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.living import LivingModel

MOST_AT_ONCE = 16  # questions of one pass: with more, their scores do not stay in the cache


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Questions of one request, and where their answers go."""

    questions: Sequence[Question]
    options: AnswerOptions
    loop: asyncio.AbstractEventLoop
    answers: asyncio.Future[list[Prediction]]

    def settle(self, result: list[Prediction] | Exception) -> None:
        """Hand over the answers, or why there are none; called in another thread."""
        try:
            self.loop.call_soon_threadsafe(self._settle, result)
        except RuntimeError:  # the loop has ended: nobody waits any more
            return

    def _settle(self, result: list[Prediction] | Exception) -> None:
        if self.answers.done():  # given up meanwhile
            return
        if isinstance(result, Exception):
            self.answers.set_exception(result)
        else:
            self.answers.set_result(result)


class Asker:
    """A thread that answers whatever waits. While it computes one pass, the questions for the next one gather.

    Nothing waits for company: a lone question is answered at once. Each request is answered from one state, which has
    everything that was acknowledged before the request came.
    """

    def __init__(self, model: Callable[[], LivingModel], name: str) -> None:
        self._model = model
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"ookg {name}", daemon=True)
        self._thread.start()

    async def ask(self, questions: Sequence[Question], options: AnswerOptions) -> list[Prediction]:
        """The answers to some questions, or the error of the first that cannot be answered."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(questions, options, loop, loop.create_future())
        self._queue.put(waiting)
        return await waiting.answers

    def stop(self) -> None:
        """Answer what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            gathered, is_over = self._gather(first)
            self._answer([one for one in gathered if not one.answers.done()])
            if is_over:
                return

    def _gather(self, first: _Waiting) -> tuple[list[_Waiting], bool]:
        """What waits, up to a whole pass; and whether that is the end."""
        gathered, size = [first], len(first.questions)
        while size < MOST_AT_ONCE and not self._queue.empty():
            one = self._queue.get()
            if one is None:
                return gathered, True
            gathered.append(one)
            size += len(one.questions)
        return gathered, False

    def _answer(self, gathered: list[_Waiting]) -> None:
        model = self._model()
        follow(model)
        by_options: dict[AnswerOptions, list[_Waiting]] = {}
        for one in gathered:
            by_options.setdefault(one.options, []).append(one)
        for options, group in by_options.items():
            _answer_together(model, options, group)


def follow(model: LivingModel) -> None:
    """Let a model have all that was acknowledged; where the journal cannot be read, it answers from what it has.

    A disk that is full, say, lets nobody write, but questions go on. The follower reports it.
    """
    with suppress(OokgError, OSError):
        model.follow()


def _answer_together(model: LivingModel, options: AnswerOptions, group: list[_Waiting]) -> None:
    try:
        answers = model.predict_all([question for one in group for question in one.questions], options)
    except Exception as error:
        if len(group) == 1 or not isinstance(error, OokgError):
            for one in group:
                one.settle(error)
            return
        for one in group:  # a question that cannot be answered is not the others' fault
            _answer_together(model, options, [one])
        return
    start = 0
    for one in group:
        end = start + len(one.questions)
        one.settle(answers[start:end])
        start = end
