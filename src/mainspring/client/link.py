"""The link to the database: opened at first use, and again on another event loop or after a fork.

Only the Scheduler uses it. It knows the two kinds of server (the user's own, and the embedded one, which it starts and
closes), so that no other module has to.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.clock import Clock
from mainspring.config.settings import EMBEDDED, Settings
from mainspring.errors import ConfigurationError, MainspringError, Unavailable
from mainspring.store import Store
from mainspring.store.connection import Connection, check_client
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.privacy.keyring import Keyring, kept_keys

logger = logging.getLogger("mainspring")

_LOOK_EVERY = 1.0
AUDIT_KEY_FILE = "audit.key"
"""The file with the key of the audit log, in the folder of an embedded server."""


class Target(NamedTuple):
    """The server, the settings and the clock of a link that is not connected."""

    uri: str | None
    client: Any
    settings: Settings
    clock: Clock


class Link:
    """One Scheduler's connection. `store()` returns the store, and connects first if necessary."""

    def __init__(
        self,
        uri: str | None,
        client: Any,
        settings: Settings,
        clock: Clock,
        cipher: Cipher | None = None,
        audit_keys: Keyring | None = None,
    ) -> None:
        if client is not None:
            check_client(client)
        self.settings = settings
        self.clock = clock
        self._given_uri, self._client, self._folder = uri, client, _folder(uri)
        self._cipher = cipher
        self._audit_keys = audit_keys or Keyring()
        self._embedded: Any = None
        self._opened: Store | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._opening: asyncio.Lock | None = None
        self._guard: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether a connection or an embedded server is open, so that other settings would come too late."""
        return self._opened is not None or self._embedded is not None

    def configure(self, settings: Settings, clock: Clock, uri: str | None) -> None:
        """Use other settings and another clock for the connection, and another server if a URI is given."""
        if uri is not None:
            self._given_uri, self._client, self._folder = uri, None, _folder(uri)
        self.settings, self.clock = settings, clock

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the open connection, in this process."""
        return self._owner[1] if self._opened is not None and self._owner and self._owner[0] == os.getpid() else None

    @property
    def target(self) -> Target:
        """What the next connection will be made with."""
        return Target(self._given_uri, self._client, self.settings, self.clock)

    def restore(self, target: Target) -> None:
        """Use the server, the settings and the clock of before."""
        self._given_uri, self._client, self.settings, self.clock = target
        self._folder = _folder(target.uri)
        self._opened = None  # that of an event loop that is gone can be neither used nor closed

    @property
    def uri(self) -> str | None:
        if self._embedded is not None:
            uri: str = self._embedded.uri
            return uri
        return self._given_uri

    @property
    def embedded(self) -> bool:
        """Whether the server is the embedded one."""
        return self._folder is not None

    def open_store(self) -> Store:
        """The open store, for code that cannot await."""
        if self._opened is None:
            raise MainspringError("The scheduler is not connected yet; await scheduler.connect() first.")
        return self._opened

    async def store(self) -> Store:
        """The store, connected on this event loop, with a fresh clock."""
        store = await self._open()
        with suppress(Unavailable):  # the next operation will raise it
            await store.connection.keep_clock()
        return store

    async def _open(self) -> Store:
        _refuse_main_again()
        here = (os.getpid(), asyncio.get_running_loop())
        if self._opened is not None and self._owner == here:
            return self._opened
        if self._owner != here:
            # A connection of another process or loop can be neither used nor closed from here.
            self._opened, self._owner, self._opening = None, here, asyncio.Lock()
        assert self._opening is not None
        async with self._opening:
            if self._opened is None:
                self._opened = Store(await self._connect(), self._cipher, await self.keys_of_audit())
        return self._opened

    async def close(self) -> None:
        """Close the connection, and the handle of the embedded server."""
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        opened, self._opened = self._opened, None
        if opened is not None and self._owner == (os.getpid(), asyncio.get_running_loop()):
            await opened.close()
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            await asyncio.to_thread(embedded.close)

    def watch_over(self) -> None:
        """Restart the embedded server if it dies while this process needs it."""
        if self._embedded is not None and self._guard is None:
            self._guard = asyncio.create_task(self._keep_embedded())

    async def _keep_embedded(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            try:
                await asyncio.to_thread(self._embedded.ensure)
            except Exception as error:
                logger.warning("The embedded MongoDB is down and could not be started again: %s", error)

    async def _connect(self) -> Connection:
        if self._folder is not None:
            await self._start_embedded(self._folder)
        return await Connection.open(self.settings, self.clock, uri=self.uri, client=self._client)

    async def keys_of_audit(self) -> Keyring:
        """The keys of the audit log; by default, an embedded server has its own key in its folder."""
        if self._folder is None or self._audit_keys.ids:
            return self._audit_keys
        return await asyncio.to_thread(kept_keys, self._folder / AUDIT_KEY_FILE)

    async def _start_embedded(self, folder: Path) -> None:
        from mainspring.mongod.server import open_server

        if self._embedded is None:
            self._embedded = await asyncio.to_thread(open_server, folder, progress=_show)
        else:
            await asyncio.to_thread(self._embedded.ensure)


def _folder(uri: str | None) -> Path | None:
    """The folder of the embedded server that a URI names; None for the user's own server."""
    if uri == EMBEDDED:
        raise ConfigurationError(f"{EMBEDDED} needs a folder, such as {EMBEDDED}./data")
    return Path(uri[len(EMBEDDED) :]).expanduser().absolute() if uri and uri.startswith(EMBEDDED) else None


def _refuse_main_again() -> None:
    """Refuse to run in a process for handlers while it imports the program's main module: a script without the guard
    `__main__` would run again there."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise MainspringError(
            "A handler process imports this program, which must not run its main code there; put that code under: if "
            "__name__ == '__main__':"
        )


def _show(line: str) -> None:
    """Show the progress of a slow start at a terminal, otherwise in the log."""
    if sys.stderr.isatty():
        sys.stderr.write(f"mainspring: {line}\n")
    else:
        logger.info(line)
