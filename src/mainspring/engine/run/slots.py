"""The slots of a worker: it runs `concurrency` jobs at once, and a few claimed jobs wait for a slot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from mainspring.clock import monotonic
from mainspring.engine.flows.shared_reads import Grouping
from mainspring.engine.limits.parking import Parking
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimState
from mainspring.engine.run.completer import Completer
from mainspring.engine.run.error_details import describe
from mainspring.engine.run.executor import Executor
from mainspring.engine.run.judge import JobTask
from mainspring.model.jobs.outcome import Failed, Outcome, Released

_FORGET = 0.05


class Slots:
    """Starts claimed jobs as slots become free. After each end, `on_room` receives the number of waiting jobs."""

    def __init__(
        self,
        concurrency: int,
        executor: Executor,
        completer: Completer,
        parking: Parking,
        on_room: Callable[[int], None],
    ) -> None:
        self.concurrency = concurrency
        self._executor = executor
        self._completer = completer
        self._parking = parking
        self._on_room = on_room
        self.running: set[ClaimedJob] = set()
        self.waiting: deque[ClaimedJob] = deque()
        self._closed = False
        self._ended_count = 0
        self.duration = 1.0
        """The usual time that a job takes, in seconds: a moving average."""

    @property
    def free(self) -> int:
        return self.concurrency - len(self.running)

    @property
    def queued(self) -> int:
        """The number of claimed jobs that have not been started."""
        return len(self.waiting) + len(self._parking)

    def admit(self, claimed_jobs: Iterable[ClaimedJob]) -> None:
        """Run these jobs in this order, as soon as there are slots."""
        grouping = Grouping()
        for claimed in claimed_jobs:
            claimed.predecessors_read = grouping.share(claimed.job)
            claimed.wait()
            self.waiting.append(claimed)
        if self._closed:
            self.give_back_waiting()
        else:
            self._start()

    def close(self) -> None:
        """Start no more jobs; give back the jobs that wait, and those that are admitted later."""
        self._closed = True
        self.give_back_waiting()

    def open(self) -> None:
        """Start jobs again, after `close`."""
        self._closed = False

    def give_back_waiting(self, older_than: float = float("inf")) -> int:
        """Release jobs that have not been started: all, or those claimed or renewed before an instant."""
        return self.give_back(lambda claimed: claimed.renewed_at < older_than)

    def give_back_parked(self) -> None:
        """Release the jobs that wait for a slot of a limit."""
        self.give_back(lambda claimed: claimed.state is ClaimState.PARKED)

    def give_back(self, which: Callable[[ClaimedJob], bool]) -> int:
        """Release the jobs that `which` accepts and that have not been started; return their number."""
        chosen = [claimed for claimed in self.waiting if which(claimed)]
        if chosen:
            gone = set(chosen)
            self.waiting = deque(claimed for claimed in self.waiting if claimed not in gone)
        chosen += self._parking.take_all(which)
        for claimed in chosen:  # last, since other jobs take the freed slots at once
            self._completer.add(claimed, Released())
        return len(chosen)

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.concurrency:
            claimed = self.waiting.popleft()
            if claimed.lost or claimed.cancelled or monotonic() >= claimed.valid_until:
                self._completer.add(claimed, Released())  # the fence, or the cancellation, decides its outcome
                continue
            self.running.add(claimed)
            task = JobTask(self._executor.run(claimed))
            claimed.run(task)
            task.add_done_callback(partial(self._ended, claimed))

    def _ended(self, claimed: ClaimedJob, task: asyncio.Task[Outcome]) -> None:
        ending = _ending(task)
        claimed.attempt_over()
        if claimed.took is not None:
            self._ended_count += 1
            weight = max(_FORGET, 1 / self._ended_count)
            self.duration += (claimed.took - self.duration) * weight
        if claimed.state is not ClaimState.RUNNING:
            return  # the job did not stop when it should, and was given back long ago
        self.running.discard(claimed)
        self._completer.add(claimed, ending)
        if self.waiting:
            self._start()
        self._on_room(self.queued)


def _ending(task: asyncio.Task[Outcome]) -> Outcome:
    """The outcome of a task. Never raises: the slot must become free in any case."""
    if task.cancelled():
        return Released()  # cancelled before its first step: the handler never ran
    error = task.exception()
    return task.result() if error is None else Failed(describe(error))
