"""How many jobs run at once, and the few that wait here for a slot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from mainspring.clock import monotonic
from mainspring.engine.completer import Completer
from mainspring.engine.executor import Executor
from mainspring.engine.holdings import Holding
from mainspring.engine.parking import Parking
from mainspring.model.ending import Ending, Released

_FORGET = 0.05


class Slots:
    """Starts claimed jobs as slots become free; tells `on_room` when more could be claimed."""

    def __init__(
        self,
        concurrency: int,
        executor: Executor,
        completer: Completer,
        parking: Parking,
        on_room: Callable[[], None],
    ) -> None:
        self.concurrency = concurrency
        self._executor = executor
        self._completer = completer
        self._parking = parking
        self._on_room = on_room
        self.running: set[Holding] = set()
        self.waiting: deque[Holding] = deque()
        self.low_water = 0
        self._closed = False
        self._ended_count = 0
        self.duration = 1.0
        """The usual time that a job takes, in seconds; recent ones count most."""

    @property
    def free(self) -> int:
        return self.concurrency - len(self.running)

    @property
    def queued(self) -> int:
        """How many claimed jobs have not been started."""
        return len(self.waiting) + len(self._parking)

    def admit(self, holdings: Iterable[Holding]) -> None:
        """Run these, as soon as there are slots, in this order."""
        self.waiting.extend(holdings)
        if self._closed:
            self.give_back_waiting()
        else:
            self._start()

    def close(self) -> None:
        """Start nothing any more; what waits, or is still admitted, is given back."""
        self._closed = True
        self.give_back_waiting()

    def give_back_waiting(self, older_than: float = float("inf")) -> int:
        """Release jobs that have not been started: all, or those claimed before an instant."""
        return self.give_back(lambda holding: holding.renewed_at < older_than)

    def give_back_parked(self) -> None:
        """Release the jobs that wait for a slot of a limit."""
        self.give_back(lambda holding: bool(holding.awaits))

    def give_back(self, which: Callable[[Holding], bool]) -> int:
        """Release those of the jobs that have not been started."""
        chosen = [holding for holding in self.waiting if which(holding)]
        if chosen:
            gone = set(chosen)
            self.waiting = deque(holding for holding in self.waiting if holding not in gone)
        chosen += self._parking.take_all(which)
        for holding in chosen:  # at the end: what they leave free, others take at once
            self._completer.add(holding, Released())
        return len(chosen)

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.concurrency:
            holding = self.waiting.popleft()
            if holding.lost or holding.cancelled or monotonic() >= holding.valid_until:
                self._completer.add(holding, Released())  # the fence, or the cancellation, decides what it becomes
                continue
            self.running.add(holding)
            holding.task = asyncio.create_task(self._executor.run(holding))
            holding.task.add_done_callback(partial(self._ended, holding))

    def _ended(self, holding: Holding, task: asyncio.Task[Ending]) -> None:
        # Cancelled before its first step: the handler never ran.
        ending = Released() if task.cancelled() else task.result()
        if holding.started is not None:
            self._ended_count += 1
            weight = max(_FORGET, 1 / self._ended_count)
            holding.took = monotonic() - holding.started
            self.duration += (holding.took - self.duration) * weight
        if holding not in self.running:
            return  # it did not stop when it should, and was given back long ago
        self.running.discard(holding)
        self._completer.add(holding, ending)
        if self.waiting:
            self._start()
        if self.queued <= self.low_water:
            self._on_room()
