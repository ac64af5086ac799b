"""A blocking face for the async driver's objects, for code that runs in threads.

`Blocking(database, call)` behaves like the database: attributes and items that are driver objects are wrapped in turn,
results that must be awaited are waited for, cursors can be iterated. It adds no behaviour of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession

_DRIVER = "pymongo.asynchronous"


class Blocking:
    """A driver object seen from a thread. `call` waits for an awaitable on the driver's loop."""

    def __init__(self, target: Any, call: Callable[[Any], Any]) -> None:
        self._target = target
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return self._wrap(getattr(self._target, name))

    def __getitem__(self, key: Any) -> Any:
        return self._wrap(self._target[key])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = [unwrap(arg) for arg in args]
        named = {key: unwrap(value) for key, value in kwargs.items()}
        return self._wrap(self._target(*plain, **named))

    def __iter__(self) -> Iterator[Any]:
        async def step(iterator: Any) -> tuple[bool, Any]:
            try:
                return True, await anext(iterator)
            except StopAsyncIteration:
                return False, None

        iterator = aiter(self._target)
        while True:
            more, item = self._call(step(iterator))
            if not more:
                return
            yield item

    def __enter__(self) -> Any:
        return self._wrap(self._call(self._target.__aenter__()))

    def __exit__(self, *error: Any) -> Any:
        return self._call(self._target.__aexit__(*error))

    def __repr__(self) -> str:
        return f"Blocking({self._target!r})"

    def _wrap(self, value: Any) -> Any:
        if inspect.isawaitable(value) and not isinstance(value, AsyncClientSession):
            return self._wrap(self._call(value))
        owner = value.__self__ if inspect.ismethod(value) else value
        if type(owner).__module__.startswith(_DRIVER):
            return Blocking(value, self._call)
        return value


def unwrap(value: Any) -> Any:
    """The driver object behind a blocking one; anything else as it is."""
    return value._target if isinstance(value, Blocking) else value
