"""Threads for sync handlers, in the worker and in processes of their own.

The pool grows on demand and can abandon a thread: one whose handler ignores its timeout is left behind and replaced.
The threads are daemons, so that a handler that never returns cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_IDLE_SECONDS = 30.0

Work = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Threads:
    """Runs functions in threads, all of them at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._made = 0
        self._closed = False

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Start a function in a thread; the caller may drop the future without harm."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._made += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._made}", daemon=True).start()
        self._work.put((lambda: context.run(function), future, loop))
        return future

    def close(self) -> None:
        """Let idle threads end."""
        self._closed = True
        for _ in range(self._made):
            self._work.put(None)

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if not self._idle:
                        continue  # run() has just assigned work to this thread
                    self._idle -= 1
                return
            if work is None:
                return
            _carry_out(*work)
            with self._lock:
                self._idle += 1


def _carry_out(function: Callable[[], Any], future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
    try:
        result, error = function(), None
    except BaseException as raised:
        result, error = None, raised

    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the loop is closed: no task waits for the outcome
