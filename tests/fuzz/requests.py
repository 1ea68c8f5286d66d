"""Malformed requests for the server, made from its OpenAPI document: `python -m fuzz.requests`, `make fuzz-service`.

Requests have numbers, and a number is always the same request. Each must be answered: never with 500, and where it is
refused, by a problem with one line. The server runs in this process, on a copy of the film graph.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI

from ookg.demo.tour import train_on_films
from ookg.service.app import create_app
from ookg.service.jobs import UpdateState
from ookg.service.settings import Limits, ServiceSettings

LABELS = ("Inception", "English", "genre", "language", "directed_by", "TENET", "Christopher Nolan", "action", "new one")
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "é", "日本語", "\u202e", "a\nb", "\r\nx: y", "../../etc/passwd", "%2e%2e%2f",
    "a/b?c#d", "<script>alert(1)</script>", "'; DROP TABLE batches; --", "{}", "null", "x" * 999, "x" * 1001,
    "x" * 100_000, "-1", "1" + "0" * 30, "NaN", "\U0010ffff", "\ufeff", "True", "a" * 64 + "=" * 9,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 10, 1000, 1001, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 0.5, -0.0, 1e308)
# What Python's own writer of JSON does not write.
RAW_VALUES = (
    "NaN",
    "Infinity",
    "1e999",
    "1" + "0" * 5000,
    "[" * 3000 + "]" * 3000,
    '"\\ud800"',
    "{",
    "'x'",
    "01",
    "\x00",
)
METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "BREW")
CONTENT_TYPES = (
    "application/json",
    "text/plain",
    "application/xml",
    "",
    "application/json; charset=utf-16",
    "a/b/c",
    "\xff",
)


@dataclass(frozen=True)
class Case:
    """A request."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class Maker:
    """Makes requests from an OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.schemas = document["components"]["schemas"]
        self.calls = [
            (path, method.upper(), call)
            for path, methods in sorted(document["paths"].items())
            for method, call in sorted(methods.items())
        ]

    def make(self, number: int) -> Case:
        """The request of a number."""
        random = Random(f"ookg request {number}")
        path, method, call = self.calls[number % len(self.calls)]
        query: list[tuple[str, str]] = []
        for parameter in call.get("parameters", []):
            value = self._value(parameter["schema"], random)
            text = value if isinstance(value, str) else json.dumps(value)
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", text)
            elif random.random() < 0.6:
                query += [(parameter["name"], text)] * random.choice((1, 1, 1, 2))
        if random.random() < 0.05:
            path = random.choice(
                (path + "/", path[:-1], path.upper(), path + "\0", "//" + path, path.replace("v1", "v2"))
            )
        headers = self._headers(random)
        encoded = urlencode(query, quote_via=quote, errors="surrogatepass").encode()
        if random.random() < 0.03:
            encoded = random.randbytes(20)
        body = b""
        if "requestBody" in call or random.random() < 0.05:
            body = self._body(call, random)
        if random.random() < 0.05:
            method = random.choice(METHODS)
        return Case(method, path, encoded, headers, body)

    def _headers(self, random: Random) -> list[tuple[bytes, bytes]]:
        kind = CONTENT_TYPES[0] if random.random() < 0.9 else random.choice(CONTENT_TYPES)
        headers = [(b"host", b"localhost"), (b"content-type", kind.encode("latin-1"))]
        if random.random() < 0.1:
            name = random.choice(
                (b"authorization", b"origin", b"host", b"accept", b"content-length", b"x-forwarded-for")
            )
            text = random.choice((*TEXTS, "Bearer ookg_a_b", "Basic x", "http://localhost"))
            headers.append((name, text.encode("utf-8", "replace")[:500]))
        return headers

    def _body(self, call: dict[str, Any], random: Random) -> bytes:
        schema = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        text = json.dumps(self._value(schema, random))
        if random.random() < 0.1:  # something that no writer of JSON writes, in the place of a value
            places = [place for place, character in enumerate(text) if character in '"0123456789[{']
            if places:
                place = random.choice(places)
                text = text[:place] + random.choice(RAW_VALUES) + text[place + random.choice((0, 1)) :]
        body = text.encode("utf-8", "surrogatepass")
        if random.random() < 0.05:
            place = random.randrange(len(body) + 1)
            body = body[:place] + random.randbytes(random.choice((1, 4))) + body[place + 1 :]
        return body

    def _value(self, schema: dict[str, Any], random: Random, depth: int = 0) -> Any:
        """Something that a schema admits, or all but admits, or does not."""
        if random.random() < 0.12 or depth > 6:
            return random.choice(
                (None, True, random.choice(TEXTS), random.choice(NUMBERS), [], {}, [[]], {"a": {"b": 1}})
            )
        if "$ref" in schema:
            return self._value(self.schemas[schema["$ref"].rpartition("/")[2]], random, depth + 1)
        if "anyOf" in schema:
            return self._value(random.choice(schema["anyOf"]), random, depth + 1)
        if "enum" in schema or "const" in schema:
            return random.choice(schema.get("enum") or [schema["const"]])
        makers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._object(schema, random, depth),
            "array": lambda: self._array(schema, random, depth),
            "string": lambda: random.choice(LABELS) if random.random() < 0.8 else random.choice(TEXTS),
            "integer": lambda: random.choice((1, 2, 10, random.choice(NUMBERS))),
            "number": lambda: random.choice(NUMBERS),
            "boolean": lambda: random.random() < 0.5,
        }
        return makers.get(schema.get("type", ""), lambda: None)()

    def _object(self, schema: dict[str, Any], random: Random, depth: int) -> dict[str, Any]:
        value = {}
        for name, inner in schema.get("properties", {}).items():
            if random.random() < (0.95 if name in schema.get("required", ()) else 0.45):
                value[name] = self._value(inner, random, depth + 1)
        if random.random() < 0.04:
            value[random.choice(TEXTS[:20])] = random.choice(NUMBERS)
        return value

    def _array(self, schema: dict[str, Any], random: Random, depth: int) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", 4)
        size = random.randint(least, most) if random.random() < 0.95 else random.choice((0, 2, 5, 300))
        return [self._value(schema.get("items", {}), random, depth + 1) for _ in range(size)]


async def ask(app: FastAPI, case: Case) -> Answer:
    """Put a request to an app, as a server would."""
    answer, messages = Answer(), [{"type": "http.request", "body": case.body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], dict(message["headers"])
        else:
            answer.body += message.get("body", b"")

    names = {name for name, _ in case.headers}
    sized = [] if b"content-length" in names else [(b"content-length", str(len(case.body)).encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": case.method, "scheme": "http",
        "path": case.path, "raw_path": case.path.encode("utf-8", "replace"), "query_string": case.query,
        "root_path": "", "headers": [*case.headers, *sized], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "app": app,
    }  # fmt: skip
    await app(scope, receive, send)
    return answer


def problem_with(answer: Answer) -> str | None:
    """What is wrong with an answer, or None."""
    if answer.status == 0:
        return "no answer"
    if answer.status == 500:
        return "500"
    if answer.status < 400:
        return None
    if answer.headers.get(b"content-type") != b"application/problem+json":
        return f"{answer.status} without a problem"
    values = json.loads(answer.body)
    if values["status"] != answer.status or not values["detail"] or "\n" in values["detail"]:
        return f"{answer.status} with an odd problem: {values}"
    return None


class _NoUpdates:
    """In the place of updates: a process for each would take hours."""

    state = UpdateState()

    def start(self, _: dict[str, Any]) -> UpdateState:
        """As if it had begun."""
        return UpdateState("running")

    def stop(self) -> UpdateState:
        """Nothing."""
        return UpdateState()

    def close(self) -> None:
        """Nothing."""


async def run(directory: Path, numbers: Iterable[int], show: bool = False) -> tuple[Counter[int], dict[int, str]]:
    """The statuses of the answers, and what is wrong by the number of the request."""
    app = create_app(ServiceSettings(directory, limits=Limits(triples=100, questions=20, claims=20)))
    statuses: Counter[int] = Counter()
    wrong: dict[int, str] = {}
    async with app.router.lifespan_context(app):
        app.state.service.updates.close()
        app.state.service.updates = _NoUpdates()
        maker = Maker(app.openapi())
        for number in numbers:
            case = maker.make(number)
            try:
                answer = await ask(app, case)
                problem = problem_with(answer)
            except Exception as error:
                answer, problem = Answer(), f"{type(error).__name__}: {error}"
            statuses[answer.status] += 1
            if problem is not None:
                wrong[number] = problem
            if show:
                print(f"{case}\n{answer}\n{problem}")
    return statuses, wrong


def main() -> int:
    """Run the requests that the options say."""
    parser = argparse.ArgumentParser(prog="fuzz.requests", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, metavar="N", help="how many (10,000)")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first one (0)")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these, and what is answered")
    arguments = parser.parse_args()
    logging.getLogger("ookg.service.requests").disabled = True
    with tempfile.TemporaryDirectory() as folder:
        train_on_films().save(f"{folder}/films")
        numbers = arguments.only or range(arguments.start, arguments.start + arguments.requests)
        begun = time.monotonic()
        statuses, wrong = asyncio.run(run(Path(folder, "films"), numbers, show=arguments.only is not None))
    print(f"{sum(statuses.values()):,} requests in {time.monotonic() - begun:.0f} s")
    print(", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    for number, problem in wrong.items():
        print(f"request {number}: {problem}; see it with --only {number}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
