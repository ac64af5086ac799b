"""What a program tells its Scheduler before it starts: handlers, callbacks, middleware and hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from mainspring.engine.events import Callback, Events
from mainspring.engine.executor import Middleware
from mainspring.errors import ConfigurationError
from mainspring.handlers import Handler, Handlers
from mainspring.model.draft import check_priority, check_retry, check_timeout
from mainspring.model.retry import Retry, Seconds

F = TypeVar("F", bound=Callable[..., Any])


class Registration:
    """The registering half of the Scheduler."""

    def __init__(self) -> None:
        self._handlers = Handlers()
        self._events = Events()
        self._middleware: list[Middleware] = []
        self._on_start: list[Callable[[], Any]] = []
        self._on_stop: list[Callable[[], Any]] = []

    @property
    def handler_names(self) -> list[str] | None:
        """The names of the jobs that can run here; None means any, since there is a catch-all handler."""
        return self._handlers.names

    def job(
        self,
        name: str | None = None,
        *,
        retry: Retry | int | None = None,
        timeout: Seconds | None = None,
        isolation: str = "auto",
        queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[F], F]:
        """Register a function as the handler of a job name (its own name by default). It stays callable as it is.

        Async functions run on the event loop, sync ones in threads; `isolation="process"` runs either in a process
        of its own, for work that is heavy or may crash. `queue` and `priority` are the defaults of its jobs.
        """
        if callable(name):
            raise ConfigurationError('Write @scheduler.job("name"), or @scheduler.job() to use the function\'s name.')

        def register(function: F) -> F:
            self._handlers.add(
                Handler(
                    name if name is not None else str(getattr(function, "__name__", "")),
                    function,
                    retry=None if retry is None else check_retry(retry),
                    timeout=None if timeout is None else check_timeout(timeout),
                    isolation=isolation,
                    queue=queue,
                    priority=None if priority is None else check_priority(priority),
                )
            )
            return function

        return register

    @overload
    def on(self, event: str) -> Callable[[F], F]: ...
    @overload
    def on(self, event: str, callback: F) -> F: ...
    def on(self, event: str, callback: Callback | None = None) -> Any:
        """Call a function whenever something happens in this process; also usable as a decorator."""

        def register(function: F) -> F:
            self._events.on(event, function)
            return function

        return register if callback is None else register(callback)

    def off(self, event: str, callback: Callback) -> None:
        """Stop calling a function that `on` has registered."""
        self._events.off(event, callback)

    def middleware(self, function: Middleware) -> Middleware:
        """Wrap every run: `async def around(ctx, run): …; result = await run(); …; return result`."""
        self._middleware.append(function)
        return function

    def on_start(self, function: F) -> F:
        """Call a function, plain or async, before the worker of this process claims its first job."""
        self._on_start.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Call a function, plain or async, after the worker of this process has ended its last job."""
        self._on_stop.append(function)
        return function
