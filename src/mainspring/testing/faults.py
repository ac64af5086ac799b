"""Switches for faults: a job that fails, a worker that crashes, a reply of the database that is lost.

Each is a `with` block. A fault that nothing has met by the end of its block fails the test: the test would pass without
having shown anything.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, get_args

from mainspring.client.link import Link
from mainspring.client.scheduler import Scheduler
from mainspring.engine.handlers import Named
from mainspring.engine.run.context import JobContext
from mainspring.errors import ConfigurationError, Unavailable
from mainspring.spelling import suggestion
from mainspring.store import Store
from mainspring.store.jobs.claim import Claims
from mainspring.store.jobs.finish import Finishing
from mainspring.store.jobs.insert import Inserts
from mainspring.store.jobs.steps import StoredSteps
from mainspring.testing.either import AnyScheduler, core, inner_of
from mainspring.testing.probe import Probe, probe_of

Reply = Literal["schedule", "claim", "step", "finish"]
_VERBS: dict[Reply, tuple[tuple[type, str, Callable[[Store], object]], ...]] = {
    "schedule": (
        (Inserts, "insert", lambda store: store.inserts),
        (Inserts, "insert_many", lambda store: store.inserts),
    ),
    "claim": ((Claims, "claim", lambda store: store.claims),),
    "step": ((StoredSteps, "keep", lambda store: store.steps),),
    "finish": ((Finishing, "finish", lambda store: store.finishing),),
}


class Injected(Exception):
    """The default error of a job that a test lets fail."""


class Switch:
    """A fault that is switched on. `met` counts how often it has happened."""

    def __init__(self, what: str, times: int) -> None:
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise ConfigurationError(f"times is a number from 1 on, not {times!r}.")
        self._what = what
        self._times = times
        self.met = 0
        self.seen: list[str] = []
        """The names of the jobs that ran meanwhile."""

    def take(self) -> bool:
        """Whether it happens now, as one of its times."""
        if self.met >= self._times:
            return False
        self.met += 1
        return True

    def check(self) -> None:
        """Fail the test if it has not happened as often as it was to."""
        if self.met < self._times:
            names = ", ".join(map(repr, dict.fromkeys(self.seen))) or "none"
            raise AssertionError(
                f"{self._what} was to happen {_count(self._times)}, and has happened {_count(self.met)}. "
                f"Jobs that ran inside the block: {names}. Run the job inside it, with drain()."
            )

    # -- the moments of a job, which most switches do not look at --------------------------------------------------

    def before(self, context: JobContext) -> None:
        self.seen.append(context.name)

    def after(self, context: JobContext) -> None: ...

    def crashes(self, context: JobContext, moment: str) -> bool:
        return False


class _FailingJob(Switch):
    def __init__(self, name: str, error: BaseException | type[BaseException], times: int, after: bool) -> None:
        super().__init__(f"fail_job({name!r})", times)
        self._name, self._error, self._after = name, error, after

    def before(self, context: JobContext) -> None:
        super().before(context)
        self._fail(context, after=False)

    def after(self, context: JobContext) -> None:
        self._fail(context, after=True)

    def _fail(self, context: JobContext, *, after: bool) -> None:
        if context.name == self._name and after == self._after and self.take():
            raise self._error


class _Crash(Switch):
    def __init__(self, name: str, moment: str) -> None:
        super().__init__(f"crash_worker({name!r}) at its {moment}", 1)
        self._name, self._moment = name, moment

    def crashes(self, context: JobContext, moment: str) -> bool:
        return context.name == self._name and moment == self._moment and self.take()


@contextmanager
def fail_job(
    scheduler: AnyScheduler,
    job: Named,
    error: BaseException | type[BaseException] | None = None,
    *,
    times: int = 1,
    after: bool = False,
) -> Iterator[Switch]:
    """Let the next `times` attempts at a job fail with this error, before the handler is called. With `after`, they
    fail when the handler has returned and before its result is stored, so that the next attempt repeats the work."""
    name = _name(scheduler, job, "fail_job()")
    raised = error if error is not None else Injected(f"The test lets {name!r} fail.")
    with _switched(inner_of(scheduler, "fail_job()"), _FailingJob(name, raised, times, after)) as switch:
        yield switch


@contextmanager
def crash_worker(
    scheduler: AnyScheduler, job: Named, *, at: Literal["start", "end"] = "end", after_step: str | None = None
) -> Iterator[Switch]:
    """Let the worker die, as if by kill -9, while it runs a job: when the handler has returned and nothing is stored
    (`at="end"`), before the handler is called (`at="start"`), or when the step of this name is stored.

    `drain()` inside the block returns when the worker is dead. Its jobs stay running until their leases run out:
    advance the ManualClock by more than `scheduler.settings.lease` with `travel()`, and another worker rescues them.
    """
    name = _name(scheduler, job, "crash_worker()")
    if at not in ("start", "end"):
        raise ConfigurationError(f"at is 'start' or 'end', not {at!r}; for the middle, give after_step='…'.")
    inner = inner_of(scheduler, "crash_worker()")
    moment = at if after_step is None else f"step {after_step}"
    probe = probe_of(inner)
    with _switched(inner, _Crash(name, moment)) as switch, _watched_steps(inner, probe):
        yield switch


@contextmanager
def lose_reply(scheduler: AnyScheduler, reply: Reply, *, times: int = 1) -> Iterator[Switch]:
    """Lose a reply of the database: the write succeeds, but this process gets Unavailable instead of the reply.

    `reply` says which one: "schedule" (the caller gets the error although the job is stored), "claim", "step" or
    "finish" (the worker finds out by itself that the write succeeded).
    """
    if reply not in _VERBS:
        raise ConfigurationError(f"There is no reply {reply!r} to lose.{suggestion(str(reply), get_args(Reply))}")
    switch = Switch(f"lose_reply({reply!r})", times)
    inner = inner_of(scheduler, "lose_reply()")

    def lost(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(function)
        async def call(*arguments: Any, **options: Any) -> Any:
            outcome = await function(*arguments, **options)
            if switch.take():
                raise Unavailable(f"The reply to {reply!r} was lost, as the test has asked; it was done.")
            return outcome

        return call

    with _switched(inner, switch), _replaced(inner, _VERBS[reply], lost):
        yield switch


# -- switching them on and off -------------------------------------------------------------------------------------


@contextmanager
def _switched(scheduler: Scheduler, switch: Switch) -> Iterator[Switch]:
    """A switch that is on inside the block; it has to have happened at its end."""
    faults = probe_of(scheduler).faults
    faults.append(switch)
    try:
        yield switch
    finally:
        faults.remove(switch)
    switch.check()


@contextmanager
def _watched_steps(scheduler: Scheduler, probe: Probe) -> Iterator[None]:
    """Tell the probe of every step that is stored."""

    def watched(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(function)
        async def call(steps: StoredSteps, job_id: Any, token: int, name: str, *others: Any) -> Any:
            entry = await function(steps, job_id, token, name, *others)
            await probe.step_kept(str(job_id), name)
            return entry

        return call

    with _replaced(scheduler, _VERBS["step"], watched):
        yield


@contextmanager
def _replaced(
    scheduler: Scheduler,
    verbs: tuple[tuple[type, str, Callable[[Store], object]], ...],
    wrap: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]],
) -> Iterator[None]:
    """Wrap verbs of the store, for this scheduler alone, which may connect inside the block only."""
    link = core(scheduler, "the test").link
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in verbs]
    for owner, name, part in verbs:
        setattr(owner, name, _for_one(getattr(owner, name), wrap, partial(_part_of, link, part)))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _part_of(link: Link, part: Callable[[Store], object]) -> object:
    """That part of the store of a link, if it is connected."""
    return None if link.loop is None else part(link.open_store())


def _for_one(
    function: Callable[..., Awaitable[Any]],
    wrap: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]],
    part: Callable[[], object],
) -> Callable[..., Awaitable[Any]]:
    """The wrapped verb, if it is called on this part of the store; otherwise the verb itself."""
    wrapped = wrap(function)

    @functools.wraps(function)
    def call(owner: Any, *arguments: Any, **options: Any) -> Awaitable[Any]:
        return (wrapped if part() is owner else function)(owner, *arguments, **options)

    return call


def _name(scheduler: AnyScheduler, job: Named, helper: str) -> str:
    """The name of a job that has a handler."""
    handlers = core(scheduler, helper).handlers
    name = handlers.named(job)
    if handlers.get(name) is None:
        known = sorted(handlers.own_names)
        hint = suggestion(name, known) if known else " It has no handlers: import the module with them."
        raise ConfigurationError(f"{helper}: this scheduler has no handler for {name!r}.{hint}")
    return name


def _count(times: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(times, f"{times} times")
