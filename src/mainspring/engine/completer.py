"""Writing the ends of attempts, in company.

What ends while a write is under way goes with the next one, so that a worker that runs thousands of short jobs writes
their ends by the hundred and one that runs a few long ones waits for nobody. Until its end is known to be stored, a
job stays among the holdings and its lease is renewed; the events are announced after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.clock import EPOCH, monotonic
from mainspring.engine.events import Events, nobody
from mainspring.engine.holdings import Holding, Holdings
from mainspring.errors import Unavailable
from mainspring.model.controls import Probe
from mainspring.model.ending import Abandoned, Committed, Ending, Lost, Released, Retried, Snoozed
from mainspring.model.guarantee import AT_MOST_ONCE, may_have_run
from mainspring.model.limits import Gate, Turn
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.finish import Finish, as_finished

logger = logging.getLogger("mainspring")

_LARGEST = 1000
_FLIGHTS = 2
# Most errors pass, whatever they say; one that does not must not hold up the others for ever.
_TRIES = 6
# From this many ends in one write on, their times are rounded to a common grid, so that jobs that ended alike at
# about the same time end in one statement (one statement per job halves the rate).
_CROWD = 24
_GRID = timedelta(milliseconds=50)
_GATHER, _GATHER_STEP, _ENOUGH = 0.025, 0.004, 400
_PATIENCE, _LONGEST_GATHER = 0.1, 0.3


class Completer:
    """Takes endings from the executor and stores them, each exactly once."""

    def __init__(
        self,
        store: Store,
        holdings: Holdings,
        events: Events,
        worker: str,
        failed: Callable[[Exception], None],
        again: Callable[[float], None],
    ) -> None:
        self._store = store
        self._holdings = holdings
        self._events = events
        self._worker = worker
        self._failed = failed
        self._again = again
        self._waiting: list[tuple[Holding, Ending, datetime]] = []
        self._flights: set[asyncio.Task[None]] = set()
        self._aloft = 0
        self._last = 0
        self._flying = 0
        self._flight_time = 0.0
        self.freed: Callable[[list[Gate], float | None], None] = nobody
        """Told the limits that a job has taken slots of, when it has ended, and how long it took."""
        self.attempt_ended: Callable[[Holding, Ending], None] = nobody
        """Told how each attempt has ended, once that is stored."""
        self.run_ended: Callable[[str], None] = nobody
        """Told the schedule of each run that has ended, where the schedule wants to know."""
        self.patient = False
        """Many workers crowd the server: fewer and larger writes serve all of them best."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, holding: Holding, ending: Ending) -> None:
        """Store this ending as soon as possible."""
        if isinstance(ending, Released) and ending.started and holding.executes == AT_MOST_ONCE:
            stopped = "Its worker was stopped, or lost its claim, before the handler had finished."
            ending = Abandoned(may_have_run(stopped, holding.id))
        slots = [gate for gate in holding.gates if not isinstance(gate.rule, Turn | Probe)]
        if slots:
            holding.gates = [gate for gate in holding.gates if isinstance(gate.rule, Turn | Probe)]
            self.freed(slots, holding.took)
        if isinstance(ending, Lost | Committed):
            self._done(holding, ending, self._finish(holding, ending, self._store.clock.now(), crowd=False))
            return
        self._waiting.append((holding, ending, self._store.clock.now()))
        if self._aloft == 0 or (self._aloft < _FLIGHTS and len(self._waiting) >= _CROWD):
            self._aloft += 1
            flight = asyncio.create_task(self._fly())
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)

    async def drain(self) -> None:
        """Wait until everything is stored."""
        while self._flights:
            await asyncio.wait(list(self._flights))

    async def _fly(self) -> None:
        try:
            while self._waiting:
                if self._last >= _CROWD:
                    await self._gather()
                taken, self._waiting = self._waiting[:_LARGEST], self._waiting[_LARGEST:]
                self._last = len(taken)
                if taken:
                    await self._carry(taken)
        finally:
            # In the same step in which nothing was found waiting: whatever ends from here on needs a new flight.
            self._aloft -= 1

    async def _carry(self, taken: list[tuple[Holding, Ending, datetime]]) -> None:
        self._flying += len(taken)
        try:
            await self._store_all(taken)
        finally:
            self._flying -= len(taken)

    async def _gather(self) -> None:
        """There is a crowd: wait a moment for more to end, unless everything that was claimed has ended."""
        patience = min(max(_PATIENCE, self._flight_time), _LONGEST_GATHER) if self.patient else _GATHER
        until, enough = monotonic() + patience, _LARGEST if self.patient else _ENOUGH
        while len(self._waiting) < enough and len(self._waiting) + self._flying < len(self._holdings):
            if monotonic() >= until:
                return
            await asyncio.sleep(_GATHER_STEP)

    async def _store_all(self, taken: list[tuple[Holding, Ending, datetime]], tries: int = _TRIES) -> None:
        crowd = len(taken) >= _CROWD
        finishes = [self._finish(holding, ending, ended, crowd) for holding, ending, ended in taken]
        pause = 0.05
        while True:
            try:
                endings = await self._store.finishing.finish(finishes)
                break
            except Unavailable as error:
                self._failed(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
            except Exception as error:
                self._failed(error)
                tries -= 1
                if tries > 0:
                    await asyncio.sleep(pause)
                    pause *= 2
                    continue
                if len(taken) == 1:
                    logger.exception("The end of job %s cannot be stored; its lease will run out", taken[0][0].id)
                    endings = [Lost()]
                    break
                for one in taken:
                    await self._store_all([one], tries=1)
                return
        for (holding, _, _), finish, ending in zip(taken, finishes, endings, strict=True):
            self._done(holding, ending, finish)

    def _finish(self, holding: Holding, ending: Ending, ended: datetime, crowd: bool) -> Finish:
        document = holding.document
        started = holding.started_at or ended
        if crowd:
            started, ended = _on_grid(started), _on_grid(ended)
        return Finish(
            document["_id"],
            document["token"],
            document["tries"],
            self._worker,
            started,
            ended,
            ending,
            tuple(holding.log),
            holding.progress if holding.progress_new else None,
            document["name"],
            holding.log_cut,
        )

    def _done(self, holding: Holding, ending: Ending, finish: Finish) -> None:
        self._holdings.remove(holding)
        self.attempt_ended(holding, ending)
        if holding.gates:  # whose turn it is in a sequence is read from what is stored
            turns, holding.gates = holding.gates, []
            self.freed(turns, None)
        if isinstance(ending, Lost):
            logger.warning("The claim on job %s was lost; its result was not recorded", holding.id)
        elif isinstance(ending, Retried | Snoozed):
            self._again(ending.delay)
        elif holding.document.get("tracked") and not isinstance(ending, Released):
            self.run_ended(holding.document["schedule_id"])
        if finish.progress is not None and not isinstance(ending, Lost | Snoozed | Released):
            self._events.emit("job:progress", decode_job({**holding.as_stored, "progress": finish.progress}))
        if ending.event is None or not self._events.wanted(ending.event):
            return
        document = holding.as_stored
        if not isinstance(ending, Lost):
            document = as_finished(document, replace(finish, ending=ending))
        self._events.emit(ending.event, decode_job(document))


def _on_grid(instant: datetime) -> datetime:
    return instant - (instant - EPOCH) % _GRID
