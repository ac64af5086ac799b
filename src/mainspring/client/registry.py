"""The declarations of a program on its Scheduler: handlers, schedules, callbacks, middleware and hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from mainspring.config.settings import check_name
from mainspring.durations import Duration
from mainspring.engine.callbacks import Callbacks, Observers
from mainspring.engine.handler import Handler, Isolation, plain_function
from mainspring.engine.handlers import Handlers
from mainspring.engine.privacy import Privacy
from mainspring.engine.services.archive import Archive
from mainspring.errors import ConfigurationError, InvalidSchedule
from mainspring.model.jobs.draft import OPTIONS, check_priority, check_retry, check_timeout
from mainspring.model.jobs.guarantee import check_guarantee
from mainspring.model.jobs.options import Guarantee
from mainspring.model.jobs.payload_versions import FIRST_VERSION, Upgrade
from mainspring.model.jobs.retry import Retry, Seconds
from mainspring.model.limits.breaker import Breaker, check_breaker
from mainspring.model.limits.limits import (
    JobLimits,
    Limit,
    Rate,
    Sequence,
    check_concurrency,
    check_fair,
    check_rate,
    check_sequence,
)
from mainspring.model.limits.queue_bound import Bound, WhenFull, check_bound
from mainspring.model.privacy.encrypted_values import check_encrypt, refuse_keys
from mainspring.model.privacy.redaction import check_redact
from mainspring.model.schedules.schedule import DeclaredOptions, ScheduleOptions, unknown_option
from mainspring.rules import Every, Rule
from mainspring.rules.cron import Cron
from mainspring.rules.every import After
from mainspring.rules.zones.zone import Fold, Gap

if TYPE_CHECKING:
    from mainspring.engine.run.executor import Middleware

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


class Registry:
    """The declarations of one program on its Scheduler."""

    def __init__(self, handlers: Handlers, privacy: Privacy) -> None:
        self._privacy = privacy
        self._implied: dict[str, Callable[..., Any]] = {}
        self.handlers = handlers
        self.events = Callbacks(privacy.announced)
        self.observers = Observers()
        self.archive = Archive()
        self.middleware: list[Middleware] = []
        self.queue_limits: dict[str, JobLimits] = {}
        self.bounds: dict[str, Bound] = {}
        self.declared: list[Declared] = []
        self.start_hooks: list[Callable[[], Any]] = []
        self.stop_hooks: list[Callable[[], Any]] = []

    def job(
        self,
        name: str | None = None,
        *,
        retry: Retry | int | None = None,
        guarantee: Guarantee | None = None,
        timeout: Seconds | None = None,
        isolation: Isolation = "auto",
        queue: str | None = None,
        priority: int | None = None,
        concurrency: int | Limit | None = None,
        rate: str | Rate | None = None,
        sequence: str | Sequence | None = None,
        fair: str | None = None,
        breaker: Breaker | None = None,
        version: int = FIRST_VERSION,
        upgrade: Mapping[int, Upgrade] | None = None,
        encrypt: bool | list[str] | tuple[str, ...] | None = None,
        redact: list[str] | tuple[str, ...] | None = None,
    ) -> Callable[[Callable[..., Any]], Handler]:
        """Register a function as the handler of a job name (by default the function's name). You can still call it
        directly.

        Async functions run on the event loop, sync functions in threads. With `isolation="process"`, either kind runs
        in a separate process; use it for work that is heavy or may crash. `queue` and `priority` are the defaults of
        the handler's jobs. `guarantee` is "at_least_once" (the default), "at_most_once" or "exactly_once".
        `concurrency` limits how many of its jobs run at once, and `rate` how many start in a span of time, across all
        processes; a `Limit` or a `Rate` with a key applies to each value of the key separately. `sequence` is the path
        of a key in the data: jobs with the same value run strictly in order, one at a time. `fair` is such a path too:
        its values take turns (round robin). A `breaker` stops starting jobs for a while when too many attempts fail.
        `version` is the payload version, and `upgrade` maps each earlier version to a function that converts data to
        the next version: `version=3, upgrade={1: f, 2: g}`. With `encrypt`, the data (all of it, or the values at the
        given paths) and the handler's result are stored encrypted. `redact` names fields whose values are never shown.
        """
        if callable(name):
            raise ConfigurationError('Write @scheduler.job("name"), or @scheduler.job() to use the function\'s name.')

        def register(given: Callable[..., Any]) -> Handler:
            function = plain_function(given)
            self._forget_implied(function)
            handler = self.handlers.add(
                Handler(
                    name if name is not None else str(getattr(function, "__name__", "")),
                    function,
                    retry=None if retry is None else check_retry(retry),
                    guarantee=None if guarantee is None else check_guarantee(guarantee),
                    timeout=None if timeout is None else check_timeout(timeout),
                    isolation=isolation,
                    queue=queue,
                    priority=None if priority is None else check_priority(priority),
                    allowance=JobLimits(
                        check_concurrency(concurrency),
                        check_rate(rate),
                        check_sequence(sequence),
                        check_fair(fair),
                        check_breaker(breaker),
                    ),
                    version=version,
                    upgrade=upgrade,
                    encrypt=check_encrypt(encrypt),
                    redact=check_redact(redact),
                )
            )
            self.check_encrypted()
            return handler

        return register

    def check_encrypted(self) -> None:
        """Refuse limits by values that are encrypted because the setting encrypts the data of all jobs."""
        everything = self._privacy.encrypt("")
        for name, allowance in self.handlers.allowances.items():
            refuse_keys(everything, allowance.paths, f"A limit, a sequence or the fairness of {name!r}")
        for queue, allowance in self.queue_limits.items():
            refuse_keys(everything, allowance.paths, f"A limit of the queue {queue!r}")

    def limit_queue(
        self,
        queue: str,
        concurrency: int | Limit | None,
        rate: str | Rate | None,
        breaker: Breaker | None,
        max_pending: int | None,
        when_full: WhenFull | None,
    ) -> None:
        """Declare the limits of a queue, and replace earlier declarations."""
        check_name(queue, "a queue's name")
        allowance = JobLimits(check_concurrency(concurrency), check_rate(rate), breaker=check_breaker(breaker))
        bound = check_bound(max_pending, when_full)
        self.queue_limits.pop(queue, None)
        self.bounds.pop(queue, None)
        if allowance:
            self.queue_limits[queue] = allowance
        if bound is not None:
            self.bounds[queue] = bound
        self.check_encrypted()

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
        **options: Unpack[DeclaredOptions],
    ) -> Callable[[F], F]:
        """Declare a schedule beside its handler: `@scheduler.cron("0 9 * * *", timezone="Asia/Kolkata")`.

        If the function is not a handler yet, it becomes one, under `name` or the function's name. The schedule's id is
        that name, unless you pass `schedule_id`. `options` are those of `schedule()`. The scheduler stores the schedule
        when it starts.
        """
        rule = Cron(expression, timezone, gap=gap, fold=fold)
        return self._declare(rule, name, data, schedule_id, options)

    def every(
        self,
        period: Duration,
        *,
        anchor: datetime | None = None,
        after: After = "start",
        name: str | None = None,
        data: Mapping[str, Any] | None = None,
        schedule_id: str | None = None,
        **options: Unpack[DeclaredOptions],
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
        unknown = next((key for key in options if key not in OPTIONS | ScheduleOptions.__annotations__.keys()), None)
        if unknown is not None:
            raise InvalidSchedule(unknown_option(unknown))

        def declare(function: F) -> F:
            handler = self.handlers.name_of(function)
            if handler is None:
                handler = name if name is not None else str(getattr(function, "__name__", ""))
                self.job(handler)(function)
                if name is None:
                    self._implied[handler] = plain_function(function)
            elif name is not None and name != handler:
                raise ConfigurationError(f"This function is already the handler of {handler!r}; leave out name.")
            self._add_declared(Declared(schedule_id, handler, data, rule, options, plain_function(function)))
            return function

        return declare

    def _forget_implied(self, function: Callable[..., Any]) -> None:
        """Remove the handler that a schedule registered under the function's own name: `job()` gives it a name now."""
        for name in [name for name, known in self._implied.items() if known is function]:
            self.handlers.remove(name)
            del self._implied[name]

    def _add_declared(self, declared: Declared) -> None:
        known = [self.identity(other) for other in self.declared]
        if self.identity(declared) in known:
            raise ConfigurationError(
                f"There is already a schedule {self.identity(declared)!r}; give this one another schedule_id."
            )
        self.declared.append(declared)

    def handled_by(self, declared: Declared) -> str:
        """The name of the handler that a declared schedule is for."""
        return self.handlers.name_of(declared.function) or declared.name

    def identity(self, declared: Declared) -> str:
        """The id of a declared schedule: the name of its handler, unless it was given one."""
        return declared.schedule_id or self.handled_by(declared)

    def add_middleware(self, function: Middleware) -> Middleware:
        """Wrap every run: `async def around(ctx, run): …; result = await run(); …; return result`."""
        self.middleware.append(function)
        return function

    def on_start(self, function: F) -> F:
        """Call a function, plain or async, before the worker of this process claims its first job."""
        self.start_hooks.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Call a function, plain or async, after the worker of this process has ended its last job."""
        self.stop_hooks.append(function)
        return function
