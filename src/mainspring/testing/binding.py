"""Binds the Scheduler of a program to the database of a test, and gives it its own back afterwards.

The fixtures of the pytest plugin use it; a test without pytest can, too: `with bind(scheduler, uri): …`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack

from mainspring.client.link import Target
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.clock import Clock
from mainspring.config.settings import SchedulerOptions
from mainspring.errors import ConfigurationError
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing.either import AnyScheduler, inner_of
from mainspring.testing.probe import probe_of

S = TypeVar("S", Scheduler, BlockingScheduler)
_CONNECTED = (
    "This scheduler is already connected, to the server of the program and not to the test's: a module or an earlier "
    "test has used it without binding it. Let every test that uses it take the fixture mainspring_scheduler, or stop() "
    "it."
)


class Bound:
    """The schedulers that are bound to one test's database."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._bound: list[tuple[AnyScheduler, Target]] = []

    def bind(self, scheduler: S, clock: Clock | None = None, **options: Unpack[SchedulerOptions]) -> S:
        """Let a scheduler use the test's database until the end of the test, with this clock and these settings."""
        inner = inner_of(scheduler, "bind()")
        link = core_of(inner).link
        before = link.target
        if link.connected and not any(one is scheduler for one, _ in self._bound):
            raise ConfigurationError(_CONNECTED)
        inner.configure(self._uri, clock=clock, **options)
        if not any(one is scheduler for one, _ in self._bound):
            self._bound.append((scheduler, before))
        if not inner.running:
            probe_of(inner)
        return scheduler

    async def stop(self) -> None:
        """Stop the async schedulers, on the event loop of the test."""
        for scheduler, _ in reversed(self._bound):
            if isinstance(scheduler, Scheduler):
                await scheduler.stop(graceful=False)

    def release(self) -> None:
        """Stop what still runs, and give each scheduler its own server, settings and clock back."""
        while self._bound:
            scheduler, target = self._bound.pop()
            if isinstance(scheduler, BlockingScheduler):
                scheduler.stop(graceful=False)
            else:
                _stop_on_its_loop(scheduler)
            core = core_of(inner_of(scheduler, "bind()"))
            core.link.restore(target)
            core.privacy.configure(target.settings)


def _stop_on_its_loop(scheduler: Scheduler) -> None:
    """Stop a scheduler that was used after the test, by a fixture, if its event loop is still there."""
    loop = core_of(scheduler).link.loop
    if loop is not None and not loop.is_closed() and not loop.is_running():
        loop.run_until_complete(scheduler.stop(graceful=False))


@contextmanager
def bind(scheduler: S, uri: str, *, clock: Clock | None = None, **options: Unpack[SchedulerOptions]) -> Iterator[S]:
    """Let a scheduler use another database inside the block, with this clock and these settings. An async scheduler is
    to be stopped at the end of the block, on its event loop; a blocking one is stopped."""
    bound = Bound(uri)
    try:
        yield bound.bind(scheduler, clock, **options)
    finally:
        bound.release()


def find_scheduler(place: str) -> Any:
    """The scheduler at "package.module:name", as the setting `mainspring_scheduler` of pytest names it."""
    try:
        found = pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"mainspring_scheduler = {place!r} names no scheduler: {error}. Write package.module:name, such as "
            "shop.jobs:scheduler, and set pythonpath if pytest does not find the package."
        ) from error
    if not isinstance(found, Scheduler | BlockingScheduler):
        raise ConfigurationError(f"mainspring_scheduler = {place!r} is {found!r}, and not a Scheduler.")
    return found
