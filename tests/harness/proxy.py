"""A TCP proxy in front of one mongod, to cut a worker off or to lose replies to commands that were carried out.

It runs on an event loop in a thread of its own, so that a test that blocks does not block its traffic.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
# After the header come four bytes of flags and the kind of the first section; its document begins with its length
# and the type of its first element, whose name is the command's.
_NAME_AT = _HEADER.size + 4 + 1 + 4 + 1


class Proxy:
    """Forwards `127.0.0.1:port` to a server's port until told otherwise."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[asyncio.Task[None]] = set()
        self._flowing: asyncio.Event | None = None
        self._listener: asyncio.Server | None = None
        self._lossy: frozenset[str] = frozenset()
        self._probability = 0.0
        self.lost = 0
        """How many replies were lost."""
        self.port = 0

    def start(self) -> None:
        self._thread.start()
        self._call(self._listen())

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Let nothing through any more, in either direction, without a word: connections stay open and silent."""
        assert self._flowing is not None
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def mend(self) -> None:
        """Let everything through again, what was held back first."""
        assert self._flowing is not None
        self._loop.call_soon_threadsafe(self._flowing.set)

    def lose_replies(self, commands: Iterable[str], probability: float) -> None:
        """Carry these commands out, but now and then close the connection instead of handing the reply back."""
        self._lossy, self._probability = frozenset(commands), probability

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> None:
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
            await self._forward(client, to_client, server, to_server)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(link)
            to_client.close()

    async def _forward(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Copy messages both ways until either side, or a lost reply, ends the connection."""
        doomed: set[int] = set()
        ways = [
            asyncio.create_task(self._copy(client, to_server, doomed, asking=True)),
            asyncio.create_task(self._copy(server, to_client, doomed, asking=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_server.close()

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, doomed: set[int], *, asking: bool
    ) -> None:
        assert self._flowing is not None
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await source.readexactly(_HEADER.size)
                length, request, answer_to, operation = _HEADER.unpack(header)
                message = header + await source.readexactly(length - _HEADER.size)
                await self._flowing.wait()
                if asking and operation == _OP_MSG and self._dooms(message):
                    doomed.add(request)
                elif not asking and answer_to in doomed:
                    self.lost += 1
                    return
                target.write(message)
                await target.drain()

    def _dooms(self, message: bytes) -> bool:
        if not self._lossy:
            return False
        command = message[_NAME_AT : message.index(b"\0", _NAME_AT)].decode()
        return command in self._lossy and random.random() < self._probability
