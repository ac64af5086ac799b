"""What a program tells its Scheduler before it starts: handlers, schedules, callbacks, middleware and hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from mainspring.config import check_name
from mainspring.cron import Cron
from mainspring.cron.zone import Fold, Gap
from mainspring.engine.archive import Archive
from mainspring.engine.events import Callback, Events
from mainspring.engine.executor import Middleware
from mainspring.engine.secrecy import Secrecy
from mainspring.errors import ConfigurationError
from mainspring.handlers import Handler, Handlers
from mainspring.model.bound import Bound, check_bound
from mainspring.model.breaker import Breaker, check_breaker
from mainspring.model.draft import check_priority, check_retry, check_timeout
from mainspring.model.guarantee import check_executes
from mainspring.model.limits import (
    Allowance,
    Limit,
    Rate,
    Sequence,
    check_concurrency,
    check_fair,
    check_rate,
    check_sequence,
)
from mainspring.model.redaction import check_redact
from mainspring.model.retry import Retry, Seconds
from mainspring.model.rules import Every, Rule
from mainspring.model.sealing import check_encrypt
from mainspring.model.versions import FIRST_VERSION, Lift

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule that is declared in code, and stored when the scheduler starts."""

    schedule_id: str | None
    name: str
    data: Mapping[str, Any] | None
    rule: Rule
    options: Mapping[str, Any]
    function: Callable[..., Any]


class Registration:
    """The registering half of the Scheduler."""

    _secrecy: Secrecy
    """What of jobs may be seen."""

    def __init__(self) -> None:
        self._handlers = Handlers()
        self._events = Events()
        self._archive = Archive()
        self._middleware: list[Middleware] = []
        self._queue_limits: dict[str, Allowance] = {}
        self._bounds: dict[str, Bound] = {}
        self._declared: list[Declared] = []
        self._implied: dict[str, Callable[..., Any]] = {}
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
        executes: str | None = None,
        timeout: Seconds | None = None,
        isolation: str = "auto",
        queue: str | None = None,
        priority: int | None = None,
        concurrency: int | Limit | None = None,
        rate: str | Rate | None = None,
        sequence: str | Sequence | None = None,
        fair: str | None = None,
        breaker: Breaker | None = None,
        version: int = FIRST_VERSION,
        lift: Mapping[int, Lift] | None = None,
        encrypt: bool | list[str] | tuple[str, ...] | None = None,
        redact: list[str] | tuple[str, ...] | None = None,
    ) -> Callable[[F], F]:
        """Register a function as the handler of a job name (its own name by default). It stays callable as it is.

        Async functions run on the event loop, sync ones in threads; `isolation="process"` runs either in a process
        of its own, for work that is heavy or may crash. `queue` and `priority` are the defaults of its jobs.
        `executes` chooses a guarantee: "at_least_once" (the default), "at_most_once" or "exactly_once".
        `concurrency` limits how many of them run at once, `rate` how many start in a stretch of time, across all
        processes; a `Limit` or a `Rate` with a key does so for each value of it. With `sequence`, the path of a key in
        the data, jobs of one value run strictly in order, one at a time; with `fair`, the values take turns.
        A `breaker` keeps its jobs back for a while when too many attempts fail. `version` counts the forms that its
        data has had, and `lift` has a function from each earlier one to the next: `version=3, lift={1: f, 2: g}`.
        With `encrypt`, all data, or the values at these paths, and what the handler returns are stored encrypted;
        `redact` names fields that are not shown.
        """
        if callable(name):
            raise ConfigurationError('Write @scheduler.job("name"), or @scheduler.job() to use the function\'s name.')

        def register(function: F) -> F:
            self._forget_implied(function)
            self._handlers.add(
                Handler(
                    name if name is not None else str(getattr(function, "__name__", "")),
                    function,
                    retry=None if retry is None else check_retry(retry),
                    executes=None if executes is None else check_executes(executes),
                    timeout=None if timeout is None else check_timeout(timeout),
                    isolation=isolation,
                    queue=queue,
                    priority=None if priority is None else check_priority(priority),
                    allowance=Allowance(
                        check_concurrency(concurrency),
                        check_rate(rate),
                        check_sequence(sequence),
                        check_fair(fair),
                        check_breaker(breaker),
                    ),
                    version=version,
                    lift=lift,
                    encrypt=check_encrypt(encrypt),
                    redact=check_redact(redact),
                )
            )
            self._check_encrypted()
            return function

        return register

    def _check_encrypted(self) -> None:
        """Refuse limits by values that are encrypted because all jobs are."""

    def limit_queue(
        self,
        queue: str,
        *,
        concurrency: int | Limit | None = None,
        rate: str | Rate | None = None,
        breaker: Breaker | None = None,
        max_pending: int | None = None,
        when_full: str | None = None,
    ) -> None:
        """Limit how many jobs of a queue run at once, or start in a stretch of time, across all processes. A `breaker`
        keeps them back for a while when too many attempts fail.

        With `max_pending`, hold this process up when it would schedule more than so many: it is refused with QueueFull,
        or, with `when_full="wait"`, waits until there is room.
        """
        check_name(queue, "a queue's name")
        allowance = Allowance(check_concurrency(concurrency), check_rate(rate), breaker=check_breaker(breaker))
        bound = check_bound(max_pending, when_full)
        self._queue_limits.pop(queue, None)
        self._bounds.pop(queue, None)
        if allowance:
            self._queue_limits[queue] = allowance
        if bound is not None:
            self._bounds[queue] = bound
        self._check_encrypted()

    def cron(
        self,
        expression: str,
        *,
        timezone: str = "UTC",
        gap: Gap = "after",
        fold: Fold = "first",
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        schedule_id: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Declare a schedule beside its handler: `@scheduler.cron("0 9 * * *", timezone="Asia/Kolkata")`.

        A function that is no handler yet becomes one, under `name` or its own name. The schedule's id is that name,
        unless `schedule_id` is given; `options` are those of `schedule()`. It is stored when the scheduler starts.
        """
        rule = Cron(expression, timezone, gap=gap, fold=fold)
        return self._declare(rule, name, data, schedule_id, options)

    def every(
        self,
        period: timedelta | str | float,
        *,
        anchor: datetime | None = None,
        after: str = "start",
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        schedule_id: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Declare a schedule beside its handler: `@scheduler.every("5m")`. Otherwise like `cron`."""
        return self._declare(Every(period, anchor=anchor, after=after), name, data, schedule_id, options)

    def _declare(
        self,
        rule: Rule,
        name: str | None,
        data: Mapping[str, Any] | None,
        schedule_id: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[F], F]:
        if callable(name):
            raise ConfigurationError("Write the decorator with its arguments, such as @scheduler.every('5m').")

        def declare(function: F) -> F:
            handler = self._handlers.name_of(function)
            if handler is None:
                handler = name if name is not None else str(getattr(function, "__name__", ""))
                self.job(handler)(function)
                if name is None:
                    self._implied[handler] = function
            elif name is not None and name != handler:
                raise ConfigurationError(f"This function is the handler of {handler!r} already; leave name out.")
            self._add_declared(Declared(schedule_id, handler, data, rule, options, function))
            return function

        return declare

    def _forget_implied(self, function: Callable[..., Any]) -> None:
        """A function that a schedule made a handler under its own name is given a name after all."""
        for name in [name for name, known in self._implied.items() if known is function]:
            self._handlers.remove(name)
            del self._implied[name]

    def _add_declared(self, declared: Declared) -> None:
        known = [self._identity(other) for other in self._declared]
        if self._identity(declared) in known:
            raise ConfigurationError(
                f"There is a schedule {self._identity(declared)!r} already; give this one a schedule_id of its own."
            )
        self._declared.append(declared)

    def _handled_by(self, declared: Declared) -> str:
        return self._handlers.name_of(declared.function) or declared.name

    def _identity(self, declared: Declared) -> str:
        """The id of a declared schedule: the name of its handler, unless it was given one."""
        return declared.schedule_id or self._handled_by(declared)

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

    def archive(self, function: F) -> F:
        """Have finished jobs archived before they are deleted: a function, plain or async, of a list of jobs.

        Where it raises, they stay and are given to it again later. It may be given a job more than once.
        """
        self._archive.register(function)
        return function

    def on_start(self, function: F) -> F:
        """Call a function, plain or async, before the worker of this process claims its first job."""
        self._on_start.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Call a function, plain or async, after the worker of this process has ended its last job."""
        self._on_stop.append(function)
        return function
