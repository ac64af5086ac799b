"""The link to the database: opened at first use, and again on another event loop or after a fork.

Used by the Scheduler only. It knows the two kinds of server (the user's own, and the embedded one, which it starts and
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
from typing import Any

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
"""Where, in the folder of an embedded server, the key of its audit log is."""


class Link:
    """One Scheduler's connection. `store()` gives the store, connecting first if need be."""

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
        """Whether anything has been opened that other settings would come too late for."""
        return self._opened is not None or self._embedded is not None

    def configure(self, settings: Settings, clock: Clock, uri: str | None) -> None:
        """Connect with other settings and another clock, and to another place if a URI is given."""
        if uri is not None:
            self._given_uri, self._client, self._folder = uri, None, _folder(uri)
        self.settings, self.clock = settings, clock

    @property
    def uri(self) -> str | None:
        if self._embedded is not None:
            uri: str = self._embedded.uri
            return uri
        return self._given_uri

    def open_store(self) -> Store:
        """The store that is open; to be used where nothing can be awaited."""
        if self._opened is None:
            raise MainspringError("The scheduler is not connected yet; await scheduler.connect() first.")
        return self._opened

    async def store(self) -> Store:
        """The store, connected on this event loop, with a clock that is fresh."""
        store = await self._open()
        with suppress(Unavailable):  # the operation that follows will tell
            await store.connection.keep_clock()
        return store

    async def _open(self) -> Store:
        _refuse_main_again()
        here = (os.getpid(), asyncio.get_running_loop())
        if self._opened is not None and self._owner == here:
            return self._opened
        if self._owner != here:
            # Another process or loop: what was opened there cannot be used, nor closed, from here.
            self._opened, self._owner, self._opening = None, here, asyncio.Lock()
        assert self._opening is not None
        async with self._opening:
            if self._opened is None:
                self._opened = Store(await self._connect(), self._cipher, await self._keys_of_audit())
        return self._opened

    async def close(self) -> None:
        """Close the connection, and let the embedded server go."""
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
        """Bring the embedded server back, should it die while this process needs it."""
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

    async def _keys_of_audit(self) -> Keyring:
        """The keys of the audit log; where none are given, an embedded server has one of its own in its folder."""
        if self._folder is None or self._audit_keys.ids:
            return self._audit_keys
        return await asyncio.to_thread(kept_keys, self._folder / AUDIT_KEY_FILE)

    async def _start_embedded(self, folder: Path) -> None:
        from mainspring.mongod import open_server

        if self._embedded is None:
            self._embedded = await asyncio.to_thread(open_server, folder, progress=_show)
        else:
            await asyncio.to_thread(self._embedded.ensure)


def _folder(uri: str | None) -> Path | None:
    """The folder of the embedded server that a URI means; None for a server of another kind."""
    if uri == EMBEDDED:
        raise ConfigurationError(f"{EMBEDDED} needs a folder, such as {EMBEDDED}./data")
    return Path(uri[len(EMBEDDED) :]).expanduser().absolute() if uri and uri.startswith(EMBEDDED) else None


def _refuse_main_again() -> None:
    """A process for handlers imports the program's main module; a script that is not guarded would run in it again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise MainspringError(
            "This program is being imported by a process for its handlers and must not run there; "
            "start it under: if __name__ == '__main__':"
        )


def _show(line: str) -> None:
    """Progress of a slow start, for people at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"mainspring: {line}\n")
    else:
        logger.info(line)
