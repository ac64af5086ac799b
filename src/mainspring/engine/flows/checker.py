"""Checks waits after jobs have ended: a service of each worker.

Ends come in batches, and many of one batch hold back the same wait. After a good end, a wait is not checked while
another job that this worker has claimed holds it back: it cannot be over. A wait that was checked a few times is
checked at most once in 20 ms, or in 80 ms while hundreds of jobs hold it back, and always once more after the last end.
What a worker that dies has not checked is found by the sweep (`check_waiting`). The sweep looks every five seconds for
new waits; a wait with a shorter timeout is ended on time by the worker that has suspended its handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from mainspring.clock import monotonic
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.service import Service
from mainspring.model.jobs.job import CANCELLED
from mainspring.store import Store
from mainspring.store.codec import DocumentId, decode_job
from mainspring.store.connection import Document
from mainspring.store.flows.checks import Checked
from mainspring.store.flows.tree import WITH_PARENT, CancelledTree

_APART, _FAR_APART = 0.02, 0.08
_AT_ONCE = 4
"""How often a wait is checked without a pause: the wait for a few jobs is over without one."""
_BATCH = 1000
_IDLE = 60.0
_MOST_REMEMBERED = 10_000
_SOON = timedelta(seconds=10)
"""The sweep knows of every timed wait that ends later than this."""


class Checker(Service):
    """Starts, or ends, the blocked jobs whose predecessors have ended."""

    name = "checker"

    def __init__(
        self,
        store: Store,
        events: Callbacks,
        poll_all: Callable[[], None],
        poll: Callable[[Iterable[str]], None],
        failed: Callable[[Exception], None],
        *,
        holds_back: Callable[[str], bool] = lambda wait: False,
    ) -> None:
        """`poll` and `poll_all` have the worker claim jobs that have become ready, in these queues or in any.
        `holds_back` says whether a claimed job of this worker holds back a wait."""
        super().__init__(store, failed)
        self._events = events
        self._poll_all = poll_all
        self._poll = poll
        self._holds_back = holds_back
        self._noted: set[str] = set()
        self._behind: dict[str, set[str]] = {}
        """The waits to be checked where no job waits by a noted one any more."""
        self._put_off: set[str] = set()
        """The waits to be checked when no claimed job of this worker holds them back any more."""
        self._parents: list[tuple[Document, str]] = []
        self._listening: dict[DocumentId, tuple[str, ...]] = {}
        self._timed: dict[DocumentId, datetime] = {}
        """The jobs that this worker has suspended for a short time, and when that ends."""
        self._checked: dict[str, tuple[float, int]] = {}
        """From when on a wait may be checked again, and how often it was checked."""
        self._ended: list[DocumentId] = []
        """The jobs that checks have ended, to be announced."""

    def note(self, waits: Iterable[str]) -> None:
        """Check these waits soon."""
        before = len(self._noted)
        self._noted.update(waits)
        if len(self._noted) > before:
            self.wake()

    def note_end(self, before: Sequence[str], *, well: bool = False) -> None:
        """Check soon the waits that an ended job has held back. The last of them is that of its parent; the others are
        those of nodes behind it. These hold back the parent, too, and are live until they are checked: the parent is
        checked only where one of them is not. Otherwise each end in a graph would lead to a look at its root.

        If the job has ended `well`, a wait that another claimed job holds back is checked after that one."""
        *others, parent = before
        for one in others:
            self._behind.setdefault(one, set()).add(parent)
        ended = others or [parent]
        later = {one for one in ended if self._holds_back(one)} if well else set()
        self._put_off |= later
        self.note(one for one in ended if one not in later)
        self.note_left(before)

    def note_left(self, before: Sequence[str]) -> None:
        """Check soon those of the waits that were put off and that no claimed job of this worker holds back now."""
        if self._put_off and (due := [one for one in before if one in self._put_off and not self._holds_back(one)]):
            self._put_off.difference_update(due)
            self.note(due)

    def listen(self, job_id: DocumentId, signals: tuple[str, ...]) -> None:
        """Look once more for signals of a job that was just suspended: one may have arrived before that."""
        self._listening[job_id] = signals
        self.wake()

    def wake_at(self, job_id: DocumentId, until: datetime) -> None:
        """Check a job when its timed wait ends, if that is so soon that the sweep may be late."""
        if until - self._store.clock.now() <= _SOON:
            self._timed[job_id] = until
            self.wake()

    def cancel_below(self, job: Document, reason: str = WITH_PARENT) -> None:
        """Cancel the jobs below a job that was cancelled."""
        self._parents.append((job, reason))
        self.wake()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to check."""
        return not (self._noted or self._parents or self._listening or self._ended)

    async def run_once(self) -> float:
        while self._parents:
            job, reason = self._parents[-1]
            await self._cancel(job, reason)
            self._parents.remove((job, reason))
        await self._announce()
        await self._look_for_signals()
        await self._end_timed()
        now = monotonic()
        due = [one for one in self._noted if self._due_at(one) <= now][:_BATCH]
        if due:
            await self._check(due)
        self._forget_old()
        return self._pause()

    def _pause(self) -> float:
        """The seconds until there is something to check."""
        pause = _IDLE
        if self._noted:
            pause = min(map(self._due_at, self._noted)) - monotonic()
        if self._timed:
            pause = min(pause, (min(self._timed.values()) - self._store.clock.now()).total_seconds())
        return max(0.0, pause)

    def _due_at(self, wait: str) -> float:
        """From when on a wait may be checked."""
        return self._checked.get(wait, (0.0, 0))[0]

    async def _look_for_signals(self) -> None:
        waiting = dict(self._listening)
        if not waiting:
            return
        by_text = {str(job_id): job_id for job_id in waiting}
        for text in await self._store.checks.signalled({text: waiting[one] for text, one in by_text.items()}):
            if await self._store.signals.start(by_text[text], waiting[by_text[text]]):
                self._poll_all()
        for job_id, signals in waiting.items():
            if self._listening.get(job_id) == signals:
                del self._listening[job_id]

    async def _end_timed(self) -> None:
        now = self._store.clock.now()
        due = {job_id: until for job_id, until in self._timed.items() if until <= now}
        if due:
            self.settle(await self._store.checks.check_jobs(list(due)))
        for job_id, until in due.items():
            if self._timed.get(job_id) == until:
                del self._timed[job_id]

    async def check_rest(self) -> None:
        """Check what is left when the worker stops, after the last ends are stored. An error leaves it to the sweep."""
        await self._look_for_signals()
        for _ in range(10):
            if not self._noted:
                break
            await self._check(list(self._noted)[:_BATCH])
        await self._announce()

    async def _check(self, due: list[str]) -> None:
        self._noted.difference_update(due)
        behind = {one: self._behind.pop(one) for one in due if one in self._behind}
        began = monotonic()
        try:
            checked = await self._store.checks.check(due)
        except BaseException:
            self._noted.update(due)
            for one, parents in behind.items():
                self._behind.setdefault(one, set()).update(parents)
            raise
        self._noted.update(parent for one in checked.absent & behind.keys() for parent in behind[one])
        for one in due:
            times = self._checked.get(one, (0.0, 0))[1] + 1
            pause = _FAR_APART if one in checked.far else _APART if times >= _AT_ONCE else 0.0
            self._checked[one] = began + pause, times
        self.settle(checked)

    def settle(self, checked: Checked) -> None:
        """Do what follows from a check."""
        if checked.started:
            self._poll(checked.queues)
        self._noted |= checked.again
        self._ended += checked.ended
        if checked.again or checked.ended:
            self.wake()

    async def _cancel(self, job: Document, reason: str) -> None:
        self._settle_tree(await self._store.trees.cancel_below(job, reason))

    async def carry_on(self, marked: Document) -> None:
        """Carry on the cancellation, or the retry, of the jobs below a job."""
        if marked.get("retry_tree") is not None:
            self.note(await self._store.flow_retries.carry_on(marked))
            self._poll_all()
        if marked.get("cancel_tree") is not None:
            self._settle_tree(await self._store.trees.carry_on(marked))

    def _settle_tree(self, tree: CancelledTree) -> None:
        self._ended += tree.ended
        self.note(tree.waits)

    async def _announce(self) -> None:
        """Emit the events of jobs that checks have ended. An error leaves those that were not read to the next pass. A
        check that lost against another change counts its jobs as ended, too: the stored state decides."""
        if not self._events.wanted("job:cancel"):
            self._ended.clear()
        while self._ended:
            some = self._ended[:_BATCH]
            found = await self._store.jobs.get_many(some)
            del self._ended[: len(some)]
            for document in found.values():
                if document.get("state") == CANCELLED:
                    self._events.emit("job:cancel", decode_job(document))

    def _forget_old(self) -> None:
        if len(self._checked) > _MOST_REMEMBERED:
            now = monotonic()
            self._checked = {one: (at, times) for one, (at, times) in self._checked.items() if at > now}
