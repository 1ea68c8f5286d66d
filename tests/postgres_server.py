"""A PostgreSQL server of one's own: made in a new folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

USER, SECRET_USER, PASSWORD = "ookg", "secretive", "s3cret/ü%"


def binaries() -> Path | None:
    """Where the server's programs are; None if it is not installed."""
    onpath = shutil.which("initdb")
    places = [*([Path(onpath).parent] if onpath else []), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


class Server:
    """A running server; USER needs no password, SECRET_USER does."""

    def __init__(self) -> None:
        place = binaries()
        assert place is not None
        self.place = place
        self.folder = Path(tempfile.mkdtemp(prefix="ookg-pg-"))
        self.user: str | None = None
        if os.geteuid() == 0:  # the server refuses to run as root
            self.user = next(name for name in ("postgres", "nobody") if _has_user(name))
            shutil.chown(self.folder, self.user)
        try:
            sound = ("--encoding=UTF8", "--no-locale", "--no-sync", "--auth=trust")
            self._run("initdb", "-D", str(self.data), "-U", USER, *sound)
            (self.data / "pg_hba.conf").write_text(
                f"local all {SECRET_USER} scram-sha-256\nlocal all all trust\n", encoding="utf-8"
            )
            with (self.data / "postgresql.conf").open("a", encoding="utf-8") as settings:
                settings.write(f"\nlisten_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = off\n")
            self.start()
            self.execute(f"CREATE ROLE {SECRET_USER} LOGIN PASSWORD '{PASSWORD}'")
        except BaseException:
            self.remove()
            raise

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", user: str = USER, password: str | None = None) -> str:
        """Where it is reached."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{user}{secret}@/{database}?host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-m", mode, "stop")

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Do something as the owner of all."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def remove(self) -> None:
        """Stop it, and leave nothing."""
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *options: str) -> None:
        group = None if self.user is None else pwd.getpwnam(self.user).pw_gid
        done = subprocess.run(
            [str(self.place / program), *options],
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            # A pipe would stay open in the server that pg_ctl starts.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user,
            group=group,
            extra_groups=[] if self.user else None,
        )
        log = self.folder / "log"
        assert done.returncode == 0, log.read_text(encoding="utf-8") if log.exists() else f"{program} failed"


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
