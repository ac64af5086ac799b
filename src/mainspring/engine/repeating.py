"""A thread that calls one function again and again, until it is told to stop.

No error ends it. If it ends all the same (a `SystemExit`, a failure of the interpreter), `ensure()`, which the event
loop calls regularly, starts another one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("mainspring")


class Repeating:
    """The thread. `act` is called every `step` seconds."""

    def __init__(self, name: str, step: float, act: Callable[[], None]) -> None:
        self._name = name
        self._step = step
        self._act = act
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def ensure(self) -> None:
        """Start another thread if this one has died."""
        if self._thread is not None and not self._thread.is_alive() and not self._stop.is_set():
            logger.error("The thread %s has died; another one takes its place", self._name)
            self.start()

    def tell_to_stop(self) -> None:
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._act()
            except Exception:
                logger.exception("The thread %s met an error; it goes on", self._name)
            self._stop.wait(self._step)
