"""A probe on a Scheduler: middleware that notes what handlers raise, and the switches of faults.

Each Scheduler has at most one. It is the outermost middleware, put there before the worker starts, so that the faults
hit every handler, wherever it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.engine.run.context import JobContext
from mainspring.errors import ClaimLost, ConfigurationError, Signal


class Fault(Protocol):
    """A switch that is on."""

    def before(self, context: JobContext) -> None:
        """Called before a handler; may raise in its place."""

    def after(self, context: JobContext) -> None:
        """Called when a handler has returned; may raise in place of its return."""

    def crashes(self, context: JobContext, moment: str) -> bool:
        """Whether the worker is to die now: at the moment "start", "end", or after the step of this name."""


class Probe:
    """Notes what the handlers of one Scheduler raise, and disturbs them as asked."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._raised: dict[tuple[str, int], BaseException] = {}
        self._death: asyncio.Future[None] | None = None
        self._running: dict[str, JobContext] = {}

    async def __call__(self, context: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        """The middleware."""
        self._running[context.id] = context
        try:
            for fault in list(self.faults):
                fault.before(context)
            await self.reached(context, "start")
            result = await call()
            for fault in list(self.faults):
                fault.after(context)
            await self.reached(context, "end")
            return result
        except Exception as error:
            if not isinstance(error, Signal):
                self._raised[context.id, context.token] = error
            raise
        finally:
            self._running.pop(context.id, None)

    def raised(self, job_id: str, token: int) -> BaseException | None:
        """What the handler of a job raised in the claim of this token."""
        return self._raised.pop((job_id, token), None)

    async def step_kept(self, job_id: str, name: str) -> None:
        """A step of a running handler is stored."""
        if (context := self._running.get(job_id)) is not None:
            await self.reached(context, f"step {name}")

    @property
    def crashed(self) -> bool:
        """Whether a handler has killed its worker, which is to be abandoned."""
        return self._death is not None

    def bury(self) -> None:
        """End the handlers that wait for the end of their dead worker."""
        death, self._death = self._death, None
        if death is not None and not death.done():
            death.set_exception(ClaimLost("The worker has crashed, as the test has asked."))
            death.exception()  # the handler may be gone, so that none reads it

    async def reached(self, context: JobContext, moment: str) -> None:
        """Stop here for good, if a fault lets the worker die at this moment."""
        if any(fault.crashes(context, moment) for fault in list(self.faults)):
            if self._death is None:
                self._death = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._death)


_PROBES: WeakKeyDictionary[Scheduler, Probe] = WeakKeyDictionary()


def probe_of(scheduler: Scheduler) -> Probe:
    """The probe of a Scheduler, put into its middleware at the first call."""
    probe = _PROBES.get(scheduler)
    if probe is None:
        if scheduler.running:
            raise ConfigurationError(
                "The worker of this scheduler was started before the test could watch it; call bind(), or the helper, "
                "before scheduler.start()."
            )
        probe = _PROBES[scheduler] = Probe()
        core = core_of(scheduler)
        core.registry.middleware.insert(0, probe)
        core.handlers.isolate_suspects = False
    return probe


def known_probe(scheduler: Scheduler) -> Probe | None:
    """The probe of a Scheduler, if it has one."""
    return _PROBES.get(scheduler)
