"""The ground that is measured on: a server, and databases of their own for each measurement.

The server is started the way the product starts its embedded one, in a temporary folder, unless a URI is given. The
documents and the indexes of a database are made by the product's own code, so that the floor has exactly the same.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pymongo import MongoClient
from pymongo.collection import Collection

from harness.profiling import Spent, statements_of
from mainspring.clock import ServerClock
from mainspring.config.settings import make_settings
from mainspring.model.jobs.draft import Draft
from mainspring.mongod.credentials import read_key
from mainspring.mongod.folder import Folder
from mainspring.mongod.replica_set import server_client
from mainspring.mongod.server import open_server
from mainspring.store import Store
from mainspring.store.connection import DURABLE, Connection

Document = dict[str, Any]
CHUNK = 1000


@dataclass(frozen=True)
class Place:
    """One database: its jobs collection on a blocking client, and the product's store, for its documents and clock."""

    uri: str
    name: str
    jobs: Collection[Document]
    store: Store

    def now(self) -> datetime:
        """The server's time."""
        return self.store.clock.now()

    def documents(self, count: int, run_at: datetime | None = None, name: str = "noop") -> list[Document]:
        """The documents of jobs that do nothing, as the product would store them; due since a moment ago."""
        run_at = run_at or self.now() - timedelta(seconds=1)
        return [self.store.inserts.document(Draft(name, _data(name, n), run_at=run_at)) for n in range(count)]

    def load(self, documents: list[Document]) -> None:
        """Store documents, as fast as one client can with full durability."""
        for start in range(0, len(documents), CHUNK):
            self.jobs.insert_many(documents[start : start + CHUNK], ordered=False)


def _data(name: str, n: int) -> Document:
    return {"n": n} if name == "noop" else {"n": n, "k": n % 1000}


class Ground:
    """The server under measurement."""

    def __init__(self, uri: str, owner: MongoClient[Document] | None = None) -> None:
        """`owner` is a client that may tell the server what to do, where that of the URI may not."""
        self.uri = uri
        self.client: MongoClient[Document] = MongoClient(uri, appname="mainspring-bench")
        status = self.client.admin.command("serverStatus")
        self.version: str = status["version"]
        self.mongod = _process(status["pid"])
        self._owner = owner or self.client

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A fresh database with the product's indexes, dropped at the end."""
        name = f"bench_{secrets.token_hex(4)}"
        try:
            store = asyncio.run(_prepare(self.uri, name))
            yield Place(self.uri, name, self.client.get_database(name, write_concern=DURABLE)["jobs"], store)
        finally:
            self.client.drop_database(name)

    @contextmanager
    def profiled(self, database: str) -> Iterator[Spent]:
        """What the database examines for the statements inside, by its profiler."""
        db, spent = self._owner[database], Spent()
        db.command("profile", 2)
        try:
            yield spent
        finally:
            db.command("profile", 0)
            for statement in db["system.profile"].find(statements_of(database)):
                spent.add(statement)
            db.drop_collection("system.profile")

    def settle(self) -> None:
        """Have the server write out what it still holds back, so that no measurement pays for the one before."""
        self._owner.admin.command("fsync")
        time.sleep(0.2)


@contextmanager
def open_ground(uri: str | None) -> Iterator[Ground]:
    """The server at a URI, or one of our own for as long as this lasts."""
    if uri is not None:
        yield Ground(uri)
        return
    folder = Path(tempfile.mkdtemp(prefix="mainspring-bench-"))
    try:
        with open_server(folder) as server, server_client(server.port, read_key(Folder(folder).key) or "") as owner:
            yield Ground(server.uri, owner)
        _wait_gone(server.pid, server.guardian_pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _prepare(uri: str, name: str) -> Store:
    """Let the product make the indexes; what it returns still knows the server's clock when it is closed."""
    connection = await Connection.open(make_settings({"database": name}), ServerClock(), uri=uri)
    await connection.close()
    return Store(connection)


def _process(pid: int) -> psutil.Process | None:
    """The server's process, if it runs on this machine."""
    try:
        process = psutil.Process(pid)
        return process if "mongo" in process.name() else None
    except psutil.Error:
        return None


def _wait_gone(*pids: int) -> None:
    """The folder can be removed when mongod and its guardian have ended."""
    until = time.monotonic() + 30
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
