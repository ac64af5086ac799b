"""The base class of chores: one bounded pass of slow work, done every so often by a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.flows.checker import Checker
from mainspring.engine.handlers import Handlers
from mainspring.engine.limits.controls import Controls
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.peers import Peers
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJobs
from mainspring.engine.run.slots import Slots
from mainspring.engine.services.archive import Archive
from mainspring.engine.services.counting import Counting
from mainspring.store import Store


@dataclass(frozen=True, slots=True)
class ChoreContext:
    """The parts of a worker that chores use."""

    store: Store
    settings: Settings
    events: Callbacks
    handlers: Handlers
    claimed_jobs: ClaimedJobs
    slots: Slots
    peers: Peers
    limiter: Limiter
    limits: Limits
    controls: Controls
    worker: str
    poll_all: Callable[[], None]
    """Has the worker poll all queues at once."""
    listening: Callable[[], bool]
    """Whether the change stream tells this worker of changes."""
    archive: Archive
    secrecy: Privacy
    counting: Counting
    checker: Checker


class Chore:
    """One kind of chore. `exclusive`: one worker at a time is enough, and a lock decides which. `prompt`: other work
    waits for it, so it has a task of its own. `at_start`: it runs as soon as the worker starts."""

    name = ""
    exclusive = False
    prompt = False
    at_start = False

    def __init__(self, context: ChoreContext) -> None:
        self._context = context

    @property
    def every(self) -> float:
        """Seconds between two passes."""
        return 10.0

    async def run_once(self) -> bool:
        """Do one pass; return whether more is left and the next pass should follow at once."""
        raise AssertionError("a subclass of Chore overrides run_once")
