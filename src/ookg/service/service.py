"""What one process of the server holds while it runs."""

from __future__ import annotations

import gc
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ookg.errors import OokgError
from ookg.extension.extended import ExtendedModel
from ookg.extension.questions import Question
from ookg.graph.names import Names, id_meant
from ookg.model.living import LivingModel
from ookg.model.model import Model
from ookg.scoring.approximate import ApproximateIndex
from ookg.service.asking import Asker, follow
from ookg.service.claims import Claims
from ookg.service.followers import Follower
from ookg.service.jobs import Updates
from ookg.service.keys import Keys
from ookg.service.problems import Problem
from ookg.service.search import LabelIndex
from ookg.service.settings import ServiceSettings
from ookg.service.shapes import PredictBody
from ookg.service.words import Words
from ookg.storage.journal import Triple

LOG = logging.getLogger("ookg.service")
FEW_QUESTIONS = 8  # a request with more of them does not hold up those with few


@dataclass(frozen=True)
class _Indexes:
    """What is searched, and what it was made of."""

    model: Model
    names: Names
    entities: LabelIndex
    relations: LabelIndex


class Service:
    """The model, and all that serves it. Made when the server starts, closed when it ends."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.living = LivingModel(settings.directory, settings.device, refine=settings.refine, journal=settings.journal)
        self.living.journal.hold()
        self.living.extended  # noqa: B018 (made before the first question)
        if settings.approximate:
            self.living.approximate  # noqa: B018 (refused here where there is none)
        self._no_index = ""
        self.keys = None if settings.keys is None else Keys(settings.keys)
        self.claims = Claims(settings.valid)
        self._own_runtime = tempfile.TemporaryDirectory(prefix="ookg-") if settings.runtime is None else None
        runtime = Path(self._own_runtime.name) if self._own_runtime is not None else settings.runtime
        assert runtime is not None
        self.updates = Updates(settings.directory, runtime, settings.device, settings.journal)
        self.few, self.many = Asker(lambda: self.living, "questions"), Asker(lambda: self.living, "many questions")
        self.follower = Follower(self.living.refresh)
        self._warming = threading.Thread(target=self._get_ready, name="ookg warm-up", daemon=True)
        self._warming.start()
        self._is_closed = False
        self._indexing = threading.Lock()
        self._indexes: _Indexes | None = None

    def _get_ready(self) -> None:
        self._warm_up()
        if self.settings.runtime is not None:  # the process is a server's own
            # What is loaded by now stays; to pass over it in search of garbage takes a tenth of a second each time.
            gc.freeze()

    def _warm_up(self) -> None:
        """Load what the first question and the first newcomer need, so that nobody waits for it."""
        model = self.living.model
        if not len(model.entities) or not len(model.relations):
            return
        entity, relation = model.entities.label(0), model.relations.label(0)
        newcomer = f"{entity}, made new"
        with suppress(OokgError):  # there may be a model that makes none
            model.extend([(newcomer, relation, entity)]).predict(head=newcomer, relation=relation)

    @property
    def is_warm(self) -> bool:
        """Whether what the first questions need is loaded; until then, those about newcomers wait for it."""
        return not self._warming.is_alive()

    def labels(self, kind: str) -> LabelIndex:
        """The labels of the version and their names, to be searched; made once for each version and for new names."""
        model, names = self.living.model, self.living.names
        indexes = self._indexes
        if indexes is None or indexes.model is not model or indexes.names is not names:
            with self._indexing:
                indexes = self._indexes
                if indexes is None or indexes.model is not model or indexes.names is not names:
                    entities, relations = (LabelIndex(labels, names) for labels in (model.entities, model.relations))
                    indexes = self._indexes = _Indexes(model, names, entities, relations)
        return indexes.entities if kind == "entity" else indexes.relations

    @property
    def words(self) -> Words:
        """How things are said, with the names that ids have."""
        return Words(self.living.names)

    def current(self) -> ExtendedModel:
        """The model with all that was acknowledged so far; where the journal cannot be read, as it was before."""
        follow(self.living)
        return self.living.extended

    def index(self, wanted: bool | None) -> ApproximateIndex | None:
        """The index to answer by; None: exactly. wanted: what a request says, None if it says nothing."""
        if wanted and not self.settings.approximate:
            remedy = "start it with `ookg serve --approximate`, or leave `approximate` out"
            raise Problem(422, f"this server answers exactly; {remedy}")
        if wanted is False or not self.settings.approximate:
            return None
        try:
            return self.living.approximate
        except OokgError as error:  # an update has left it behind, say
            if str(error) != self._no_index:
                self._no_index = str(error)
                LOG.warning("questions are answered exactly", extra={"fields": {"reason": str(error)}})
            return None

    def asker(self, questions: int) -> Asker:
        """Who answers so many questions."""
        return self.few if questions <= FEW_QUESTIONS else self.many

    # Checks of what a request brings.

    def check_labels(self, *labels: str | None) -> None:
        """Refuse what can be no label."""
        for label in labels:
            if label is None:
                continue
            if not label.strip():
                raise Problem(422, f"label {label!r} is empty; give a name")
            if len(label) > self.settings.limits.label:
                most = f"{self.settings.limits.label:,}"
                raise Problem(422, f"label {label[:40]!r}... has {len(label):,} characters; {most} are the most")
            if not _is_text(label):
                raise Problem(422, f"label {label!r} is not Unicode text, or has a null character; rename it")

    def check_page(self, limit: int) -> None:
        """Refuse a page that is too long."""
        if limit > self.settings.limits.page:
            raise Problem(422, f"limit {limit:,}; a page has at most {self.settings.limits.page:,} entries")

    def check_top(self, top: int) -> None:
        """Refuse too many answers."""
        if top > self.settings.limits.top:
            raise Problem(422, f"top {top:,}; ask for at most {self.settings.limits.top:,} answers")

    def checked_triples(self, triples: Sequence[Sequence[str]], key: str | None = None) -> list[Triple]:
        """Triples that may be written."""
        if len(triples) > self.settings.limits.triples:
            most = f"{self.settings.limits.triples:,}"
            raise Problem(413, f"{len(triples):,} triples in one request; send at most {most} at once")
        for triple in triples:
            self.check_labels(*triple)
        self.check_labels(key)
        return [(head, relation, tail) for head, relation, tail in triples]

    def check_claims(self, claims: Sequence[Sequence[str]]) -> None:
        """Refuse too many claims, and what can be no label."""
        if len(claims) > self.settings.limits.claims:
            most = f"{self.settings.limits.claims:,}"
            raise Problem(413, f"{len(claims):,} claims in one request; send at most {most} at once")
        for claim in claims:
            self.check_labels(*claim)

    def question(self, head: str | None, tail: str | None, relation: str | None) -> Question:
        """A question, as a request asks it; by ids, or by names that stand for one."""
        self.check_labels(head, tail, relation)
        if relation is None:
            raise Problem(422, "no relation; say which one is asked for, or ask /v1/likely for all that fit")
        head, tail = (None if end is None else self.meant(end) for end in (head, tail))
        return Question(self.meant(relation, "relation"), head, tail)

    def meant(self, text: str, kind: Literal["entity", "relation"] = "entity") -> str:
        """The id that a text means: itself, or where there is no such id the one of that name."""
        names = self.living.names
        if not len(names) or _has(self.living.extended, kind)(text) or not names.find(text):
            return text
        # An id is always an id, also one that came a moment ago.
        return id_meant(text, kind, names, _has(self.current(), kind))

    def questions_of(self, body: PredictBody) -> list[Question]:
        """The questions of a request."""
        if body.questions is None:
            return [self.question(body.head, body.tail, body.relation)]
        if not body.head == body.tail == body.relation is None:
            raise Problem(422, "a question and `questions`; give one of them")
        if len(body.questions) > self.settings.limits.questions:
            most = f"{self.settings.limits.questions:,}"
            raise Problem(413, f"{len(body.questions):,} questions in one request; send at most {most} at once")
        return [self.question(one.head, one.tail, one.relation) for one in body.questions]

    # What is shown beside the model's answers.

    def came(self, entity: str) -> dict[str, Any] | None:
        """The batch that brought a newcomer."""
        try:
            batch = self.living.journal.bringing(entity, after=self.living.model.checkpoint.journal)
        except OokgError:  # it is known from memory, and the journal cannot be read now
            return None
        return None if batch is None else {"journal": batch.number, "author": batch.author, "time": batch.time}

    def figures(self) -> dict[str, tuple[str, float]]:
        """Where the model stands, for the metrics."""
        living = self.living
        return {
            "journal_position": ("the last batch that is counted in", living.position),
            "model_version": ("the version of the model", living.model.checkpoint.number),
            "new_entities": ("entities that are new since the version", len(living.extended.new_entities)),
            "update_running": ("whether an update is under way", self.updates.state.state == "running"),
            "workers": ("processes of this server", self.settings.workers),
        }

    def close(self) -> None:
        """Answer what waits, stop what runs in the background; a process must not end while a thread computes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._warming.join()
        self.follower.stop()
        self.few.stop()
        self.many.stop()
        self.updates.close()
        self.living.journal.close()
        if self._own_runtime is not None:
            self._own_runtime.cleanup()


def _has(extended: ExtendedModel, kind: Literal["entity", "relation"]) -> Callable[[str], bool]:
    return extended.has_entity if kind == "entity" else extended.has_relation


def _is_text(label: str) -> bool:
    """Whether a label can be stored: no half of a character, no null."""
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in label
