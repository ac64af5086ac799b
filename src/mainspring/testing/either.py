"""Both faces of a Scheduler: a helper returns an awaitable for the async one, and blocks for `mainspring.sync`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from mainspring.client.blocking import Scheduler as Plain
from mainspring.client.blocking import blocking_form, wait_for
from mainspring.client.core import Core
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.clock import ManualClock
from mainspring.errors import ConfigurationError
from mainspring.sync import Scheduler as BlockingScheduler

AnyScheduler = Scheduler | BlockingScheduler
T = TypeVar("T")


def inner_of(scheduler: object, helper: str) -> Scheduler:
    """The async Scheduler that does the work."""
    if isinstance(scheduler, BlockingScheduler):
        return scheduler.inner
    if isinstance(scheduler, Scheduler):
        return scheduler
    raise ConfigurationError(f"{helper} takes a Scheduler as its first argument, not {scheduler!r}.")


def either(scheduler: AnyScheduler, helper: str, verb: Callable[[Scheduler], Coroutine[Any, Any, T]]) -> Any:
    """Carry out a helper on the event loop of a scheduler: the result of a blocking one, otherwise an awaitable."""
    inner = inner_of(scheduler, helper)
    return wait_for(_plain(scheduler), verb(inner)) if isinstance(scheduler, BlockingScheduler) else verb(inner)


def blocking(scheduler: BlockingScheduler, value: Any) -> Any:
    """The blocking form of a job, or of a list of jobs."""
    return blocking_form(_plain(scheduler), value)


def _plain(scheduler: BlockingScheduler) -> Plain:
    """The class behind the types of `mainspring.sync`."""
    return cast("Plain", scheduler)


def manual_clock(scheduler: Scheduler, helper: str) -> ManualClock:
    """The clock that tests can move; refused where the scheduler goes by the real time."""
    clock = core_of(scheduler).link.clock
    if isinstance(clock, ManualClock):
        return clock
    raise ConfigurationError(
        f"{helper} moves the clock, and this scheduler goes by the real one. Let the test take the fixture "
        "mainspring_clock, or give the scheduler a clock before it connects: scheduler.configure(clock=ManualClock())."
    )


def core(scheduler: AnyScheduler, helper: str) -> Core:
    """The shared collaborators of a scheduler of either face."""
    return core_of(inner_of(scheduler, helper))
