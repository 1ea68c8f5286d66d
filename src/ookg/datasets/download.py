"""Downloading the published data sets, checked against their sums; an interrupted download is resumed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ookg.datasets.dataset import AUX_FILE
from ookg.datasets.places import cache_folder
from ookg.datasets.published import published_set, published_sets
from ookg.errors import FileError, OokgError, unknown_name
from ookg.system.files import sync

BASE_URL = "https://raw.githubusercontent.com/Hunter-DDM/InvTransE-and-InvRotatE/main/data"
TIMEOUT = 30.0  # seconds without a byte
BLOCK = 1 << 16
RANGE_NOT_SATISFIABLE = 416
PARTIAL_CONTENT = 206

Progress = Callable[[str, int, int | None], None]
Report = Callable[[int, int | None], None]


class DownloadError(OokgError):
    """A download that did not come through."""


def fetch(
    name: str, cache: str | Path | None = None, *, base_url: str = BASE_URL, progress: Progress | None = None
) -> Path:
    """Download a published data set and return its folder; files that are there with the right sum stay.

    cache: the folder to keep the set's folder in
    progress: called with the file, the bytes that are there and the bytes that there will be (None if unknown)
    """
    published = published_set(name)
    if published is None:
        raise unknown_name("data set", name, list(published_sets()), "`ookg datasets list` shows the names")
    folder = (cache_folder() if cache is None else Path(cache)) / published.name
    for file, expected in published.sums.items():
        target = folder / (AUX_FILE if file == "aux.txt" else file)
        url = f"{base_url}/{published.remote_folder}/{'aux_txt' if file == 'aux.txt' else file}"
        report = partial(progress, f"{published.name}/{file}") if progress else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch_file(url, target, expected, report)
        except OokgError:
            raise
        except (OSError, HTTPException, ValueError) as error:  # ValueError: an address that is none
            remedy = f"try again (it resumes), or set OOKG_DATA to a folder that holds {published.name}"
            raise DownloadError(f"{url}: cannot be fetched to {folder} ({error}); {remedy}") from error
    return folder


def _fetch_file(url: str, target: Path, expected: str, report: Report | None) -> None:
    if _sum(target) == expected:
        return
    part = target.with_name(f"{target.name}.part")
    if _sum(part) != expected:  # it is right if only the renaming was interrupted
        _download(url, part, report)
    got = _sum(part)
    if got != expected:
        part.unlink()
        remedy = f"expected {expected}; try again, and if it stays so the published file has changed"
        raise FileError(target, f"what came from {url} has the SHA-256 {got}", remedy)
    sync(part)
    os.replace(part, target)


def _download(url: str, part: Path, report: Report | None) -> None:
    """Bring the file at `part` to its full length, going on where it ends."""
    done = part.stat().st_size if part.exists() else 0
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={done}-"} if done else {}), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and done:  # longer than the file: it is part of something else
            part.unlink()
            return _download(url, part, report)
        raise
    with response:
        if response.status != PARTIAL_CONTENT:  # the whole file, asked for or not
            done = 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if done else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                done += len(block)
                if report:
                    report(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection broke off after {done:,} of {total:,} bytes")
    return None


def _sum(path: Path) -> str | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
