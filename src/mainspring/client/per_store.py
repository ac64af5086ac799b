"""Objects that live as long as one open store, such as the waits and the change feed of a Scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from mainspring.store import Store

T = TypeVar("T")


class PerStore(Generic[T]):
    """An object that belongs to the open store. Another store gets another object: on another event loop, after a
    reconnect and in a forked process. `make` receives the store and the previous object, if this process had one."""

    def __init__(self, make: Callable[[Store, T | None], T]) -> None:
        self._make = make
        self._made: tuple[int, Store, T] | None = None

    @property
    def current(self) -> T | None:
        """The object, if this process has made one."""
        return None if self._made is None or self._made[0] != os.getpid() else self._made[2]

    def of(self, store: Store) -> T:
        """The object of this store."""
        if self._made is None or self._made[1] is not store:
            self._made = (os.getpid(), store, self._make(store, self.current))
        return self._made[2]

    def take(self) -> T | None:
        """Return the object, and keep it no longer."""
        current, self._made = self.current, None
        return current
