"""The files of the page, without a browser: what they may not do, and that they are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ookg.service

PAGE = Path(ookg.service.__file__).parent / "page"
SCRIPTS = sorted(path.name for path in PAGE.glob("*.js"))
NAMESPACE = "http://www.w3.org/2000/svg"


def text(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_no_markup_of_text(name: str) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function"
    assert re.findall(forbidden, text(name)) == []


@pytest.mark.parametrize("name", ["index.html", "style.css", "icon.svg", *SCRIPTS])
def test_nothing_comes_from_elsewhere(name: str) -> None:
    assert re.findall(r"https?://[^\s\"'`]+", text(name).replace(NAMESPACE, "")) == []


def test_the_document_has_no_inline_script_or_style() -> None:
    document = text("index.html")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", document) == []


def test_all_that_is_referred_to_is_there() -> None:
    named = set(re.findall(r"(?:src|href)=\"page/([^\"]+)\"", text("index.html")))
    for script in SCRIPTS:
        named |= set(re.findall(r"(?:from|import\()\s*\"\./([^\"]+)\"", text(script)))
    assert {"app.js", "style.css", "vendor/cytoscape.min.js"} <= named
    assert [name for name in sorted(named) if not (PAGE / name).is_file()] == []
    symbols = set(re.findall(r"symbol id=\"icon-(\w+)\"", text("index.html")))
    used = {name for script in SCRIPTS for name in re.findall(r"\bicon\(\"(\w+)\"\)", text(script))}
    assert used - symbols == set()


def test_the_vendored_library_has_its_version_and_licence() -> None:
    version = re.search(r"Cytoscape\.js ([\d.]+),", text("vendor/README.md"))
    assert version is not None
    assert f'version="{version[1]}"' in text("vendor/cytoscape.min.js")
    assert "Permission is hereby granted, free of charge" in text("vendor/LICENSE")
