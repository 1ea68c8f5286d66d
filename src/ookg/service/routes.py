"""What can be asked over HTTP, and who answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.convertors import Convertor, register_url_convertor

from ookg.errors import InputError, OokgError
from ookg.extension.likely import End
from ookg.extension.questions import AnswerOptions
from ookg.model.living import Added, Removed
from ookg.scoring.approximate import INDEX_SERVES
from ookg.service.keys import StoredKey
from ookg.service.metrics import Metrics
from ookg.service.problems import Problem
from ookg.service.search import search
from ookg.service.service import Service
from ookg.service.shapes import ClassifyBody, ExplainBody, LikelyBody, PredictBody, TriplesBody, UpdateBody
from ookg.service.words import trust_values
from ookg.storage.journal import Batch
from ookg.storage.versions import versions


class LabelConvertor(Convertor[str]):
    """The rest of an address as a label: anything, line breaks too."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """As it stands."""
        return value

    def to_string(self, value: str) -> str:
        """As it stands."""
        return value


register_url_convertor("label", LabelConvertor())
NO_INDEX = "there is no approximate index of these vectors; `ookg index` makes one"
BEARER = HTTPBearer(auto_error=False, description="a key that `ookg keys add` has made")


def json_response(values: Any, status: int = 200) -> Response:
    """Values as JSON."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, media_type="application/json")


def the_service(request: Request) -> Service:
    """What this process holds."""
    service: Service = request.app.state.service
    return service


def _holder(request: Request, given: HTTPAuthorizationCredentials | None) -> StoredKey | None:
    """Whose key a request has; None where no key is needed."""
    keys = the_service(request).keys
    if keys is None:
        return None
    challenge = {"www-authenticate": "Bearer"}
    if given is None:
        raise Problem(401, "no key; send one as `Authorization: Bearer ...`, `ookg keys add` makes it", challenge)
    holder = keys.holder(given.credentials)
    if holder is None:
        raise Problem(401, "this key is not known, or revoked; ask for another", challenge)
    return holder


async def may_read(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Service:
    """The service, for those who may ask."""
    _holder(request, given)
    return the_service(request)


class Writer:
    """Somebody who may write; author: the name of the key, None where no key is needed."""

    def __init__(self, service: Service, author: str | None) -> None:
        self.service, self.author = service, author


async def may_write(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Writer:
    """The service, for those who may write."""
    holder, service = _holder(request, given), the_service(request)
    if service.settings.read_only:
        raise Problem(403, "this server is read-only (`ookg serve --read-only`); start it without that to write")
    if holder is not None and holder.role != "write":
        raise Problem(403, f"the key {holder.name!r} may read; writing takes one with the role write")
    return Writer(service, None if holder is None else holder.name)


Reading = Annotated[Service, Depends(may_read)]
Writing = Annotated[Writer, Depends(may_write)]
Limit = Annotated[int, Query(ge=1)]
Offset = Annotated[int, Query(ge=0, le=1 << 40)]

open_to_all = APIRouter()
router = APIRouter(prefix="/v1")


# Adding and removing.


@router.post("/triples", tags=["write"], summary="Add triples")
def add_triples(body: TriplesBody, writer: Writing) -> Response:
    """Add triples, all or none: when the answer comes, they are on the disk, and in every answer from then on."""
    service = writer.service
    triples = service.checked_triples(body.triples, body.key)
    return json_response(asdict(service.living.add(triples, key=body.key, author=writer.author)))


@router.delete("/triples", tags=["write"], summary="Remove triples")
def remove_triples(body: TriplesBody, writer: Writing) -> Response:
    """Remove triples, added ones and those of training."""
    service = writer.service
    triples = service.checked_triples(body.triples, body.key)
    return json_response(asdict(service.living.remove(triples, key=body.key, author=writer.author)))


@router.delete("/entities/{name:label}", tags=["write"], summary="Remove an entity")
def remove_entity(name: str, writer: Writing, key: str | None = None) -> Response:
    """Remove all triples of an entity."""
    service = writer.service
    service.check_labels(name, key)
    return json_response(asdict(service.living.remove(entity=service.meant(name), key=key, author=writer.author)))


# Looking.


@router.get("/entities/{name:label}", tags=["read"], summary="An entity")
def entity(
    name: str,
    service: Reading,
    vector: bool = False,
    relation: str | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """An entity: its triples, how far to trust its vector, how it came; the vector itself on request.

    A newcomer's vector depends on the relation that is asked for, which `relation` names.
    """
    service.check_labels(name, relation)
    service.check_page(limit)
    extended, words, name = service.current(), service.words, service.meant(name)
    relation = None if relation is None else service.meant(relation, "relation")
    around = extended.around(name)
    following = offset + limit if offset + limit < len(around) else None
    items = [words.triple(one) for one in around[offset : offset + limit]]
    values = words.entry("entity", name, is_new=around.is_new) | {
        "trust": None,
        "came": service.came(name) if around.is_new else None,
        "triples": {"total": len(around), "items": items, "next": following},
    }
    with suppress(InputError):  # where nothing ties it to the graph yet
        values["trust"] = trust_values(extended.trust(name))
    if vector:
        values["vector"] = extended.vector(name, relation).tolist()
    return json_response(values)


@router.get("/search", tags=["read"], summary="Search entities or relations")
def find(
    service: Reading,
    q: str = "",
    kind: Literal["entity", "relation"] = "entity",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Entities or relations whose label or name begins with a text, then those that have it elsewhere; or all."""
    service.check_labels(q or None)
    service.check_page(limit)
    extended, words = service.current(), service.words
    new = extended.new_entities if kind == "entity" else extended.new_relations
    matches = search(service.labels(kind), new, q, limit=limit + 1, offset=offset)
    results = [words.entry(kind, match.label, is_new=match.is_new) for match in matches[:limit]]
    return json_response({"results": results, "next": offset + limit if len(matches) > limit else None})


# Asking.


@router.post("/predict", tags=["read"], summary="Predict what is missing")
async def predict(body: PredictBody, service: Reading) -> Response:
    """The best tails for (head, relation), or heads for (relation, tail): one question, or many."""
    service.check_top(body.top)
    index = service.index(body.approximate)
    options = AnswerOptions(
        body.combine,
        body.top,
        body.hide_known,
        body.new_answers,
        blank_nodes=body.blank_nodes,
        explain=body.explain,
        approximate=index,
    )
    questions = service.questions_of(body)
    predictions = await service.asker(len(questions)).ask(questions, options)
    if body.approximate:
        why = NO_INDEX if index is None else INDEX_SERVES
        exactly = f"answered exactly: {why}"
        predictions = [
            one if one.recall is not None else replace(one, notes=[*one.notes, exactly]) for one in predictions
        ]
    pairs = zip(questions, predictions, strict=True)
    values = [service.words.prediction(*pair, explained=body.explain) for pair in pairs]
    return json_response(values[0] if body.questions is None else {"predictions": values})


@router.post("/likely", tags=["read"], summary="Everything likely about an entity")
def likely(body: LikelyBody, service: Reading) -> Response:
    """What is likely about an entity, over all relations that fit it, the likeliest first."""
    service.check_top(body.top)
    ends: dict[End, str | None] = {"both": body.entity, "head": body.head, "tail": body.tail}
    named = [(end, label) for end, label in ends.items() if label is not None]
    if len(named) != 1:
        raise Problem(422, "give one of `entity`, `head` and `tail`")
    end, label = named[0]
    service.check_labels(label)
    options = AnswerOptions(
        body.combine, body.top, body.hide_known, body.new_answers, body.min_probability, body.blank_nodes
    )
    label = service.meant(label)
    return json_response(service.words.likely(label, end, service.current().likely(label, end, options)))


@router.post("/classify", tags=["read"], summary="Judge claims")
def classify(body: ClassifyBody, service: Reading) -> Response:
    """True or false for each claim; null where an end or the relation has no vector."""
    service.check_claims(body.claims)
    judged, words = service.claims.verdicts(service.current(), body.claims), service.words
    named = [one | words.named_triple(one["head"], one["relation"], one["tail"]) for one in judged["verdicts"]]
    return json_response(judged | {"verdicts": named})


@router.post("/explain", tags=["read"], summary="Explain an answer")
def explain(body: ExplainBody, service: Reading) -> Response:
    """The triples that made a new entity's vector as the question sees it, and what speaks for an answer."""
    question = service.question(body.head, body.tail, body.relation)
    service.check_labels(body.answer)
    extended, words = service.current(), service.words
    reasons = [words.reason(question.asked, reason) for reason in extended.explain(question.asked, question.relation)]
    texts = [reason["text"] for reason in reasons]
    if body.answer is not None:
        answer = service.meant(body.answer)
        extended.around(answer)  # an unknown answer is refused: nothing speaks for a misspelt one either
        texts = [reason.text(words.shown) for reason in extended.what_speaks(question, [answer])[0]]
    return json_response({"explanation": reasons, "reasons": texts})


# The model's life.


@router.post("/update", tags=["write"], summary="Start an update", status_code=202)
def start_update(writer: Writing, body: UpdateBody | None = None) -> Response:
    """Let the vectors learn what came and went, in the background; questions are answered meanwhile."""
    settings = (body or UpdateBody()).model_dump()
    return json_response(writer.service.updates.start(settings).to_dict(), 202)


@router.get("/update", tags=["read"], summary="Progress of an update")
def update_state(service: Reading) -> Response:
    """How far the last update is."""
    return json_response(service.updates.state.to_dict())


@router.delete("/update", tags=["write"], summary="Stop an update")
def stop_update(writer: Writing) -> Response:
    """Stop the update that runs; it keeps what it has done, and the next one goes on from there."""
    return json_response(writer.service.updates.stop().to_dict())


@router.get("/history", tags=["read"], summary="What was added and removed")
def history(
    service: Reading, limit: Limit = 50, before: Annotated[int, Query(ge=1, le=1 << 62)] | None = None
) -> Response:
    """Batches, the last one first, and the versions that are kept."""
    service.check_page(limit)
    batches = service.living.journal.latest(limit + 1, before)
    page = batches[:limit]
    return json_response(
        {
            "batches": [asdict(one) for one in page],
            "versions": [asdict(one) for one in versions(service.settings.directory)],
            "next": page[-1].number if len(batches) > limit else None,
        }
    )


@router.get("/history/{number}", tags=["read"], summary="One batch")
def batch(number: int, service: Reading, limit: Limit = 1000, offset: Offset = 0) -> Response:
    """A batch with the triples that it changed."""
    service.check_page(limit)
    one = _batch(service, number)
    triples = service.living.journal.triples_of(number)
    following = offset + limit if offset + limit < len(triples) else None
    rows = [service.words.named_triple(*triple) for triple in triples[offset : offset + limit]]
    return json_response(asdict(one) | {"triples": rows, "next": following})


@router.post("/history/{number}/undo", tags=["write"], summary="Undo a batch")
def undo(number: int, writer: Writing) -> Response:
    """Remove what a batch added, or add again what it removed."""
    service = writer.service
    one, living = _batch(service, number), service.living
    triples = living.journal.triples_of(number)
    if not triples:
        raise Problem(409, f"batch {number} changed nothing; there is nothing to undo")
    change: Callable[..., Added | Removed] = living.remove if one.kind == "add" else living.add
    try:
        did = change(triples, author=writer.author)
    except OokgError as error:
        if type(error) is InputError:  # nothing of it is there any more
            raise Problem(409, f"batch {number} is undone already; {error}") from None
        raise
    return json_response({"undone": number} | asdict(did))


def _batch(service: Service, number: int) -> Batch:
    journal = service.living.journal
    found = journal.latest(1, number + 1) if 1 <= number < 1 << 61 else []
    if not found or found[0].number != number:
        raise Problem(404, f"no batch {number}; there are {journal.last}, from 1 on")
    return found[0]


@router.get("/status", tags=["read"], summary="How much is new")
def status(service: Reading) -> Response:
    """How much is new since the version, what an update would take; and whether this server takes writes."""
    values = service.living.status().to_dict()
    model = service.living.model
    sizes = {"entities": len(model.entities), "relations": len(model.relations)}
    return json_response(values | sizes | {"read_only": service.settings.read_only})


# For whoever runs it.


@open_to_all.get("/v1/health", tags=["running"], summary="Alive")
async def health() -> Response:
    """Whether the process answers."""
    return json_response({"status": "ok"})


@open_to_all.get("/v1/ready", tags=["running"], summary="Ready")
async def ready(request: Request) -> Response:
    """Whether questions are answered at once: 503 at first, and where the model directory cannot be followed."""
    service = the_service(request)
    if service.follower.problem is not None:
        raise Problem(503, service.follower.problem)
    if not service.is_warm:
        raise Problem(
            503, "what the first questions need is being counted; try again in a moment", {"retry-after": "1"}
        )
    return json_response({"status": "ready"})


@open_to_all.get("/metrics", tags=["running"], summary="Metrics")
def metrics(request: Request, _: Reading) -> Response:
    """Requests, times, and where the model stands, in Prometheus' format; summed over the server's processes."""
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(the_service(request).figures()), media_type="text/plain; version=0.0.4; charset=utf-8")
