from __future__ import annotations

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ookg.datasets import download
from ookg.datasets.download import DownloadError, fetch
from ookg.datasets.folder import load_dataset
from ookg.datasets.published import PublishedSet, published_sets
from ookg.errors import FileError, InputError

NAME, REMOTE = "WN11-Head-1000", "WN11_OOKB_head1000"
FILES = ("aux.txt", "entities.dict", "relations.dict", "test.txt", "train.txt", "valid.txt")
CONTENT = {name: (name * 30_000).encode() for name in FILES}


class Server(ThreadingHTTPServer):
    """Serves files from memory, as well or as badly as its mode says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode = "good"
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        if self.server.mode == "silent":
            self.server.released.wait(5)
            return
        if self.server.mode == "wrong":
            body = b"x" + body[1:]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and start >= len(body):
            self.send_error(416)
            return
        if asked and self.server.mode != "ignores ranges":
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            body = body[start:]
        else:
            self.send_response(200)
        if self.server.mode != "no length":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.server.mode == "breaks off" else body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def small(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server with small files in the place of a published set's."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    published = PublishedSet(NAME, "triplet-classification", REMOTE, sums)
    monkeypatch.setattr(download, "published_set", lambda name: published)
    server.files = {f"/{REMOTE}/{remote(name)}": content for name, content in CONTENT.items()}
    return server


def remote(file: str) -> str:
    return "aux_txt" if file == "aux.txt" else file


def fetched(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_fetches_the_six_files_and_reports(small: Server, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int | None]] = []
    folder = fetch(NAME, tmp_path, base_url=small.url, progress=lambda *call: calls.append(call))
    assert folder == tmp_path / NAME
    assert fetched(folder) == CONTENT
    last = {file: (done, total) for file, done, total in calls}
    assert last == {f"{NAME}/{name}": (len(content), len(content)) for name, content in CONTENT.items()}
    assert len(calls) > len(last)


def test_what_is_there_is_not_fetched_again(small: Server, tmp_path: Path) -> None:
    folder = fetch(NAME, tmp_path, base_url=small.url)
    small.requests.clear()
    fetch(NAME, tmp_path, base_url=small.url)
    assert small.requests == []
    (folder / "train.txt").write_bytes(b"damaged")
    fetch(NAME, tmp_path, base_url=small.url)
    assert small.requests == [(f"/{REMOTE}/train.txt", None)]
    assert fetched(folder) == CONTENT


def test_the_default_place_is_the_cache(small: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch(NAME, base_url=small.url) == tmp_path / "ookg" / "datasets" / NAME


def test_a_download_that_broke_off_is_resumed(small: Server, tmp_path: Path) -> None:
    small.mode = "breaks off"
    with pytest.raises(DownloadError, match=r"broke off after 105,000 of 210,000 bytes\); try again \(it resumes\)"):
        fetch(NAME, tmp_path, base_url=small.url)
    part = tmp_path / NAME / "aux.txt.part"
    assert part.read_bytes() == CONTENT["aux.txt"][:105_000]
    small.mode = "good"
    small.requests.clear()
    assert fetched(fetch(NAME, tmp_path, base_url=small.url)) == CONTENT
    assert small.requests[0] == (f"/{REMOTE}/aux_txt", "bytes=105000-")


@pytest.mark.parametrize("mode", ["ignores ranges", "no length"])
def test_servers_that_ignore_ranges_or_give_no_length(small: Server, tmp_path: Path, mode: str) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "aux.txt.part").write_bytes(CONTENT["aux.txt"][:1000])
    small.mode = mode
    totals: set[int | None] = set()
    folder = fetch(NAME, tmp_path, base_url=small.url, progress=lambda file, done, total: totals.add(total))
    assert fetched(folder) == CONTENT
    assert (None in totals) == (mode == "no length")


def test_a_part_that_is_whole_needs_no_request(small: Server, tmp_path: Path) -> None:
    folder = fetch(NAME, tmp_path, base_url=small.url)
    (folder / "test.txt").rename(folder / "test.txt.part")
    small.requests.clear()
    assert fetched(fetch(NAME, tmp_path, base_url=small.url)) == CONTENT
    assert small.requests == []


def test_a_part_longer_than_the_file_is_begun_anew(small: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "aux.txt.part").write_bytes(b"y" * 300_000)
    assert fetched(fetch(NAME, tmp_path, base_url=small.url)) == CONTENT
    assert [asked for _, asked in small.requests[:2]] == ["bytes=300000-", None]


def test_wrong_bytes_are_refused_and_removed(small: Server, tmp_path: Path) -> None:
    small.mode = "wrong"
    with pytest.raises(FileError) as caught:
        fetch(NAME, tmp_path, base_url=small.url)
    message = str(caught.value)
    assert str(tmp_path / NAME / "aux.txt") in message
    assert hashlib.sha256(CONTENT["aux.txt"]).hexdigest() in message
    assert hashlib.sha256(b"x" + CONTENT["aux.txt"][1:]).hexdigest() in message
    assert "try again" in message
    assert "\n" not in message
    assert fetched(tmp_path / NAME) == {}


def test_a_missing_file_is_one_line(small: Server, tmp_path: Path) -> None:
    del small.files[f"/{REMOTE}/relations.dict"]
    with pytest.raises(DownloadError, match=r"relations\.dict: .*404.*; try again .* set OOKG_DATA") as caught:
        fetch(NAME, tmp_path, base_url=small.url)
    assert "\n" not in str(caught.value)


def test_no_server_and_a_silent_server(small: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    small.mode = "silent"
    with pytest.raises(DownloadError, match="timed out"):
        fetch(NAME, tmp_path, base_url=small.url)
    with pytest.raises(DownloadError, match="refused"):
        fetch(NAME, tmp_path, base_url="http://127.0.0.1:9")


def test_a_cache_that_cannot_be_made(small: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"cannot be fetched to .*Not a directory"):
        fetch(NAME, tmp_path / "file", base_url=small.url)


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="unknown data set 'WN18'; `ookg datasets list`"):
        fetch("WN18")


@pytest.mark.skipif(not os.environ.get("OOKG_DATA"), reason="OOKG_DATA is not set: no published data sets")
def test_a_published_set_comes_through_with_its_own_sums(server: Server, tmp_path: Path) -> None:
    published = published_sets()["WN11-Both-1000"]
    source = Path(os.environ["OOKG_DATA"]) / published.name
    for name in published.sums:
        packed, plain = source / f"{name}.gz", source / name
        content = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
        server.files[f"/{published.remote_folder}/{remote(name)}"] = content
    fetch("wn11-both-1000", tmp_path, base_url=server.url)
    assert len(load_dataset("WN11-Both-1000", tmp_path).test) == 873
