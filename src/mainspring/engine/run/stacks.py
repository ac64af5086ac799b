"""The stack of a running handler, on demand: of its task, of its thread, or of its process.

The heartbeat asks, from threads of its own, so that a handler that blocks the event loop is seen at its work. Only
places in the code are shown, never the values of variables. The text is bounded; the deepest calls are kept.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

MAX_STACK = 16 * 1024
_FRAMES = 80
_TASKS = 8
"""The tasks that one handler's stack follows at most, where it waits for several."""
_LOOP_ANSWERS = 1.0
_ENGINE = str(Path(__file__).parent)
_ASYNCIO = str(Path(asyncio.__file__).parent)

Place = tuple[FrameType, int]
"""A frame, and the line that it is at."""


class HandlerPlace:
    """Where a handler runs: the task on the event loop, and the thread if it is a plain function."""

    __slots__ = ("_loop", "_loop_thread", "_thread", "task")

    def __init__(
        self, task: asyncio.Task[Any] | None, loop: asyncio.AbstractEventLoop, loop_thread: int | None = None
    ) -> None:
        self.task = task
        self._loop = loop
        self._loop_thread = threading.get_ident() if loop_thread is None else loop_thread
        self._thread: int | None = None

    def in_thread(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """The function, which notes the thread that it runs in."""

        def call() -> Any:
            self._thread = threading.get_ident()
            try:
                return function()
            finally:
                self._thread = None

        return call

    def stack(self) -> str:
        """The stack as text. Called in any thread but that of the event loop; it takes a second at most."""
        thread = self._thread
        if thread is not None:
            return bounded(_of_thread(thread) or "The handler's thread has just ended.")
        answered = threading.Event()
        found: list[str] = []

        def look() -> None:
            try:
                found.append(_of_task(self.task))
            finally:
                answered.set()

        try:
            self._loop.call_soon_threadsafe(look)
        except RuntimeError:
            return "The event loop has ended."
        if answered.wait(_LOOP_ANSWERS) and found:
            return bounded(found[0] or "The handler has just ended.")
        blocked = _of_thread(self._loop_thread)
        return bounded(f"The event loop is blocked, by this job or by another one. Its thread is at:\n{blocked}")


def bounded(text: str) -> str:
    """The end of a text, which has the deepest calls, within the bytes of a stack."""
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_STACK:
        return data.decode("utf-8", "replace")
    return "… (cut)\n" + data[-MAX_STACK + 16 :].decode("utf-8", "ignore").partition("\n")[2]


def _of_thread(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    return _written(list(reversed(list(traceback.walk_stack(frame)))))


def _of_task(task: asyncio.Task[Any] | None) -> str:
    """The stacks of a task and of the tasks that it waits for, the innermost last."""
    return "".join(_written(places) for places in _chains(task, set()) if places)


def _chains(task: Any, seen: set[int]) -> Iterator[list[Place]]:
    if not isinstance(task, asyncio.Task) or id(task) in seen or len(seen) >= _TASKS:
        return
    seen.add(id(task))
    yield _awaits(task.get_coro())
    waited = getattr(task, "_fut_waiter", None)
    for one in (waited, *(getattr(waited, "_children", None) or ())):
        yield from _chains(one, seen)


def _awaits(awaited: Any) -> list[Place]:
    """The frames of a coroutine and of the awaitables that it waits for."""
    places: list[Place] = []
    while awaited is not None and len(places) < 10 * _FRAMES:
        for kind, next_one in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(awaited, f"{kind}_frame", None)
            if isinstance(frame, FrameType):
                places.append((frame, frame.f_lineno))
                awaited = getattr(awaited, next_one, None)
                break
        else:
            return places
    return places


def _written(places: list[Place]) -> str:
    """Frames as text, without those of the engine before the handler's own."""
    own = next((n for n, (frame, _) in enumerate(places) if not _is_engine(frame)), None)
    kept = (places if own is None else places[own:])[-_FRAMES:]
    return "".join(traceback.StackSummary.extract(iter(kept), capture_locals=False).format())


def _is_engine(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((_ENGINE, _ASYNCIO)) or file == threading.__file__ or frame.f_code.co_name == "<lambda>"
