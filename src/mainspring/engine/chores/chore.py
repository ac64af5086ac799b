"""What a chore is: one bounded pass of slow work, done every so often by some worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainspring.config import Settings
from mainspring.engine.archive import Archive
from mainspring.engine.controls import Controls
from mainspring.engine.counting import Counting
from mainspring.engine.events import Events
from mainspring.engine.gatekeeper import Gatekeeper
from mainspring.engine.holdings import Holdings
from mainspring.engine.limits import Limits
from mainspring.engine.peers import Peers
from mainspring.engine.secrecy import Secrecy
from mainspring.engine.slots import Slots
from mainspring.handlers import Handlers
from mainspring.store import Store


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a chore may need."""

    store: Store
    settings: Settings
    events: Events
    handlers: Handlers
    holdings: Holdings
    slots: Slots
    peers: Peers
    gatekeeper: Gatekeeper
    limits: Limits
    controls: Controls
    worker: str
    look: Callable[[], None]
    """Lets the worker look for jobs at once, in all queues."""
    archive: Archive
    secrecy: Secrecy
    counting: Counting


class Chore:
    """One kind of chore. `exclusive`: one worker at a time is enough, which a lock sees to."""

    name = ""
    exclusive = False

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @property
    def every(self) -> float:
        """Seconds between two passes."""
        return 10.0

    async def run_once(self) -> bool:
        """One pass. True when there is more to do and the next pass should follow at once."""
        raise AssertionError("a chore says what it does")
