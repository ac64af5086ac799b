"""What a chore is: one bounded pass of slow work, done every so often by some worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
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
    """All that a chore may need."""

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
    """Lets the worker look for jobs at once, in all queues."""
    archive: Archive
    secrecy: Privacy
    counting: Counting


class Chore:
    """One kind of chore. `exclusive`: one worker at a time is enough, which a lock sees to. `prompt`: others wait for
    it, and it has a task of its own. `at_start`: done as soon as the worker starts."""

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
        """One pass. True when there is more to do and the next pass should follow at once."""
        raise AssertionError("a chore says what it does")
