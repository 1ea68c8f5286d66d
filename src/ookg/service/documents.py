"""What people see in a browser: the page, and the calls in words. Nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import mimetypes
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from ookg.service.problems import Problem

PAGE = Path(__file__).parent / "page"
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow:auto;padding:.5rem;border:1px solid #8884}"
    "h2{margin-top:2rem}.method{display:inline-block;min-width:4.5rem;font-weight:bold}"
)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def page() -> Response:
    """The page."""
    return _file("index.html")


@router.get("/page/{name:path}")
async def page_file(name: str) -> Response:
    """A file of the page."""
    return _file(name)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The calls in words."""
    return Response(_described(request.app.openapi()), media_type="text/html; charset=utf-8")


@router.get("/docs.css")
async def docs_style() -> Response:
    """How they look."""
    return Response(STYLE, media_type="text/css; charset=utf-8")


def _file(name: str) -> Response:
    path = (PAGE / name).resolve()
    if not path.is_relative_to(PAGE.resolve()) or not path.is_file():
        raise Problem(404, "no such file of the page; / is the page, /docs lists the calls")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind.endswith(("javascript", "json", "svg+xml"))
    headers = {"cache-control": "no-cache"}
    return Response(path.read_bytes(), 200, headers, f"{kind}; charset=utf-8" if text else kind)


def _described(document: dict[str, Any]) -> str:
    """The OpenAPI document as a page without scripts."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        "<title>ookg: calls</title><link rel=stylesheet href=/docs.css>",
        f"<h1>{escape(document['info']['title'])}</h1><p>{escape(document['info']['description'])}</p>",
        "<p>For programs: <a href=/openapi.json>openapi.json</a>.</p>",
    ]
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            parts.append(f"<h2>{escape(call['summary'])}</h2>")
            parts.append(f"<p><code><span class=method>{method.upper()}</span>{escape(path)}</code></p>")
            parts.append(f"<p>{escape(call.get('description', ''))}</p>")
            parts += _parameters(call.get("parameters", []))
            body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body is not None:
                parts.append(f"<p>Body:</p><pre>{escape(_form(body, document))}</pre>")
    return "\n".join(parts) + "</html>"


def _parameters(parameters: list[dict[str, Any]]) -> list[str]:
    rows = []
    for one in parameters:
        default = one.get("schema", {}).get("default")
        shown = "" if default is None else f" (default {escape(json.dumps(default))})"
        rows.append(f"<li><code>{escape(one['name'])}</code> in the {escape(one['in'])}{shown}</li>")
    return ["<ul>", *rows, "</ul>"] if rows else []


def _form(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """A body's form, one field a line."""
    for part in (schema, *schema.get("anyOf", [])):
        if "$ref" in part:
            schema = document["components"]["schemas"][part["$ref"].rpartition("/")[2]]
    lines = [schema.get("description", "").strip()]
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        kinds = [one.get("type") or one.get("$ref", "").rpartition("/")[2] for one in (field, *field.get("anyOf", []))]
        kind = " or ".join(filter(None, kinds)) or "any"
        note = "needed" if name in required else f"default {json.dumps(field.get('default'))}"
        lines.append(f'"{name}": {kind} ({note})')
    return "\n".join(filter(None, lines))
