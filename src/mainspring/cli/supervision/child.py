"""A worker process as a supervisor's child: starting it, sending words, receiving messages, and waiting for its end."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mainspring.cli.supervision.channel import TOKEN_OF_WORKER, URI_OF_WORKER, worker_id

_LAST_LINES = 1.0


class Child:
    """One worker process. After its end, `code` and `last_words` have the reason."""

    def __init__(self, number: int, on_ready: Callable[[Child], None]) -> None:
        self.number = number
        self.ready = False
        self.drained = False
        """Whether it was drained, by an operator or after its last job, so that it ends for good."""
        self.reloading = False
        """Whether it ends because a file of the application has changed."""
        self.last_words: str | None = None
        self._on_ready = on_ready
        self._token = secrets.token_hex(4)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def worker_id(self) -> str:
        return worker_id(self.pid, self._token)

    @property
    def code(self) -> int | None:
        """The exit code; negative for a signal, None while the process runs or if it never did."""
        return self._process.returncode if self._process is not None else None

    async def start(
        self,
        target: str | None,
        options: Mapping[str, Any],
        uri: str | None,
        variables: Mapping[str, str] | None = None,
        max_jobs: int | None = None,
    ) -> None:
        """Start the process: a new interpreter, in its own process group, so that Ctrl-C reaches the supervisor only.
        Modules in the current folder are importable for the application (`target.load`), not for Mainspring itself."""
        ours, theirs = socket.socketpair()
        given = {TOKEN_OF_WORKER: self._token} | ({} if uri is None else {URI_OF_WORKER: uri})
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-P",
                    "-m",
                    "mainspring.cli.supervision.worker_process",
                    target or "",
                    json.dumps(options),
                    str(max_jobs or ""),
                ),
                stdin=theirs.fileno(),
                env={**os.environ, **(variables or {}), **given},
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    def tell(self, word: str) -> None:
        """Send a word to the process, if it is alive."""
        if self._writer is not None:
            self._writer.write(json.dumps(word).encode() + b"\n")

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def kill_relatives(self) -> None:
        """Kill the other processes of a dead worker's group, above all handlers in their own processes: other workers
        are about to get their jobs."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    async def ended(self) -> None:
        """Listen until the process has ended."""
        assert self._process is not None and self._writer is not None
        listening = asyncio.create_task(self._listen())
        try:
            await self._process.wait()
            await asyncio.wait({listening}, timeout=_LAST_LINES)
        finally:
            listening.cancel()
            self._writer.close()

    def how_it_ended(self) -> str:
        if self.code is None:
            return "did not start"
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"was killed by signal {-self.code}"

    async def _listen(self) -> None:
        assert self._reader is not None
        try:
            while line := await self._reader.readline():
                message = json.loads(line)
                if "error" in message:
                    self.last_words = message["error"]
                elif "drained" in message:
                    self.drained = True
                elif not self.ready:
                    self.ready = True
                    self._on_ready(self)
        except (OSError, ValueError):
            pass  # the process died in the middle of a line
