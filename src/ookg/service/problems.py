"""What is refused, in one form: RFC 9457, with the line that the command line would print."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ookg.errors import KeyTaken, ModelFileError, NoRoom, NowBusy, OokgError, UnknownName, one_line

LOG = logging.getLogger("ookg.service")
SHOWN = 40  # characters of a value that is refused
MEDIA_TYPE = "application/problem+json"
STATUS_OF: tuple[tuple[type[OokgError], int], ...] = (
    (UnknownName, 404),
    (KeyTaken, 409),
    (NoRoom, 507),
    (NowBusy, 503),
    (ModelFileError, 503),
    (OokgError, 422),
)


class Problem(Exception):
    """A request that is refused; detail: one line that says what to do."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, one_line(detail), dict(headers or {})


def problem_of(error: OokgError, folder: str = "") -> Problem:
    """What the library refuses, as a problem."""
    status = next(code for kind, code in STATUS_OF if isinstance(error, kind))
    detail = str(error).replace(f"{folder}/", "") if folder else str(error)
    return Problem(status, detail, {"retry-after": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None)


def problem_response(problem: Problem) -> Response:
    """The response to a request that is refused."""
    body = {
        "type": "about:blank",
        "title": _title(problem.status),
        "status": problem.status,
        "detail": problem.detail,
    }
    text = json.dumps(body, ensure_ascii=True)
    return Response(text, problem.status, problem.headers, media_type=MEDIA_TYPE)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def handle_problems(app: FastAPI) -> None:
    """Let an app answer with problems, whatever goes wrong in it."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error)

    async def library(request: Request, error: Exception) -> Response:
        assert isinstance(error, OokgError)
        service = getattr(request.app.state, "service", None)
        # Where the directory lies on this machine is nobody's business out there.
        return problem_response(problem_of(error, str(service.settings.directory) if service is not None else ""))

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(_invalid(error))

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem_response(Problem(error.status_code, _http_detail(error), error.headers))

    app.add_exception_handler(Problem, refused)
    app.add_exception_handler(OokgError, library)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def unexpected(error: BaseException) -> Problem:
    """What nobody has thought of: the log has the rest."""
    if isinstance(error, MemoryError):
        return Problem(503, "not enough memory for this request; ask for less at once")
    LOG.error("unexpected error", exc_info=error)
    return Problem(500, "the server met an error that it did not expect; its log says more")


def _http_detail(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "nothing is served here; /docs lists what is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return "this address does not take this method; /docs lists which it takes"
    return str(error.detail)


def _invalid(error: RequestValidationError) -> Problem:
    """The first thing that is wrong with a request."""
    first: Mapping[str, Any] = error.errors()[0]
    kind, place = str(first.get("type")), tuple(first.get("loc", ()))
    if kind == "json_invalid":
        return Problem(400, "the body is not JSON; send a JSON object, with content-type application/json")
    if place == ("body",):
        # so it is with JSON of another kind, and with curl's own content-type, under which nobody looks for JSON
        return Problem(422, "the body is not a JSON object; send one, with content-type application/json")
    name = ".".join(str(part) for part in place if part not in ("body", "query", "path"))
    if kind == "missing":
        return Problem(422, f"{name} is missing; /docs has the form")
    if kind == "extra_forbidden":
        return Problem(422, f"{name} is nothing that this call takes; leave it out, /docs has the form")
    expected = _expected(kind, first.get("ctx") or {})
    if kind in ("too_short", "too_long") and len(place) == 3:  # in a list of triples
        expected = "head, relation and tail"
    return Problem(422, f"{name} is {_shown(first.get('input'))}, expected {expected}")


# What pydantic calls it, and what it means; what is not here is a value of another kind.
EXPECTED = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "string_unicode": "Unicode text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} at most",
}


def _expected(kind: str, about: Mapping[str, Any]) -> str:
    return EXPECTED.get(kind, "another value; /docs has the form").format_map({**about})


def _shown(value: Any) -> str:
    """A value of a request, so that it stays one short line."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, default=lambda other: type(other).__name__)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
