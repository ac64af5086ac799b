"""The candidates of a claim: read ahead while another claim is under way, put in one order with those of wait lists.
Those that this worker cannot run are sorted out, so that they neither block the queue nor get lost.

A late job expires. A job that cannot be decoded fails, and its error says why. A job that no live worker can run
(`store/jobs/requirements.py`) is held until one can. A job that another live worker can run is left to it; for a while
this worker then asks only for the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mainspring.clock import monotonic
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.handlers import Handlers
from mainspring.engine.job_log import write
from mainspring.engine.peers import Peers
from mainspring.engine.privacy import Privacy
from mainspring.engine.service import cancel_task
from mainspring.model.jobs.payload_versions import FIRST_VERSION
from mainspring.model.jobs.reserved_names import hint_for
from mainspring.model.limits.limits import FAIR
from mainspring.model.printable import printable
from mainspring.store import Store
from mainspring.store.codec import DocumentId, decode_job
from mainspring.store.connection import Document
from mainspring.store.jobs.requirements import HandlerTooOld, MissingHandler, MissingKey, Requirement, any_of, none_of
from mainspring.store.jobs.stored_job import StoredJob

logger = logging.getLogger("mainspring")

_MIXED_FOR = 30.0
_MANY = 1000
_FRESH_FOR = 0.5


@dataclass(slots=True)
class ReadAhead:
    """Candidates read while the claim before them was under way."""

    queue: str
    task: asyncio.Task[list[StoredJob]]
    claiming: set[DocumentId]
    started: float

    async def take(self, queue: str) -> list[StoredJob]:
        """The candidates read, without the jobs of the claim that was under way; none if they are stale."""
        if queue != self.queue or monotonic() - self.started > _FRESH_FOR:
            await self.drop()
            return []
        return [job for job in await self.task if job.id not in self.claiming]

    async def drop(self) -> None:
        """Cancel the read."""
        await cancel_task(self.task)


def in_order(ready: list[StoredJob], lined: list[StoredJob]) -> list[StoredJob]:
    """Ready jobs and jobs from wait lists as one list: by priority and time, and mixed evenly with the jobs of keys in
    round robin, which keep the order in which they were read."""
    fair: list[StoredJob] = []
    others: list[StoredJob] = []
    known = set()
    for job in lined:
        known.add(job.id)
        (fair if job.line is not None and job.line.startswith(f"{FAIR}:") else others).append(job)
    others = [job for job in ready if job.id not in known] + others
    others.sort(key=lambda job: (job.priority, job.run_at))
    placed = [(job.priority, place / len(those), job) for those in (others, fair) for place, job in enumerate(those)]
    return [job for *_, job in sorted(placed, key=lambda one: one[:2])]


class Triage:
    """Sorts candidates for one worker."""

    def __init__(self, store: Store, handlers: Handlers, peers: Peers, events: Callbacks, secrecy: Privacy) -> None:
        self._store = store
        self._secrecy = secrecy
        self._handlers = handlers
        self._peers = peers
        self._events = events
        self._others: dict[str, dict[Requirement, float]] = {}
        """The requirements, by queue, of the jobs that this worker leaves to others, and until when it does so."""

    def to_ask_for(self, queue: str) -> Document | None:
        """The filter for a queue that also holds jobs for other workers; None to ask for all jobs."""
        left = self._left(queue)
        return none_of(left, self._handlers.runnable) if left else None

    def _left(self, queue: str) -> list[Requirement]:
        now = monotonic()
        return [one for one, until in self._others.get(queue, {}).items() if until > now]

    async def sort(self, queue: str, candidates: list[StoredJob]) -> tuple[list[StoredJob], bool]:
        """The candidates that this worker can run, and whether others were cleared out of their way."""
        now = self._store.clock.now()
        runnable: list[StoredJob] = []
        late: list[StoredJob] = []
        unmet: dict[Requirement, list[StoredJob]] = defaultdict(list)
        cleared = False
        mirror = self._store.connection.mirror
        for job in candidates:
            problem = job.problem
            if problem is not None:
                cleared |= await self._fail_undecodable(job, problem)
            elif mirror.out_of_step(job.document):
                cleared |= await self._store.mapped.follow_these([job.document]) > 0
            elif job.overdue(now):
                late.append(job)
            elif (requirement := self._unmet(job)) is not None:
                unmet[requirement].append(job)
            else:
                runnable.append(job)
        if late:
            cleared |= await self._expire(late)
        if unmet:
            cleared |= await self._set_aside(queue, unmet)
        return runnable, cleared

    def _unmet(self, job: StoredJob) -> Requirement | None:
        """The requirement of a job that this worker does not meet, if any."""
        name, handler = job.name, self._handlers.get(job.name)
        if handler is None:
            return MissingHandler(name)
        version = job.data_version
        if version > FIRST_VERSION and not self._handlers.takes(name, version):
            return HandlerTooOld(name, version)
        missing = self._secrecy.missing_keys(job, handler)
        return None if missing is None else MissingKey(name, missing)

    async def _fail_undecodable(self, job: StoredJob, problem: str) -> bool:
        failed = await self._store.upkeep.fail_undecodable(job.document, problem)
        if failed:
            line = f"Job {printable(str(job.id))} cannot be decoded and is a dead letter now; its error says why"
            write(logging.ERROR, line, job.log_fields(None))
        return failed

    async def _expire(self, late: list[StoredJob]) -> bool:
        expired = await self._store.upkeep.expire_these([job.document for job in late])
        await announce_expired(self._store, self._events, expired)
        return bool(expired)

    async def _set_aside(self, queue: str, unmet: Mapping[Requirement, list[StoredJob]]) -> bool:
        """Hold jobs that no live worker can run; leave the others to the workers that can."""
        hopeless = [one for one in unmet if not await self._peers.another_meets(queue, one)]
        cleared = self._leave_to_others(queue, [one for one in unmet if one not in hopeless])
        if hopeless:
            lined = [job for one in hopeless for job in unmet[one] if job.line is not None]
            cleared |= await self._hold(queue, hopeless, lined)
            self._log_unmet(queue, hopeless)
            # A worker that has started meanwhile has registered itself before it looked for held jobs: either it has
            # released these, or this worker finds it now.
            for one in hopeless:
                if await self._peers.another_meets(queue, one):
                    await self._store.upkeep.release(one.by, one.where)
        return cleared

    def _log_unmet(self, queue: str, requirements: Iterable[Requirement]) -> None:
        names = self._peers.names | set(self._handlers.own_names)
        for one in sorted(requirements, key=lambda one: one.what):
            meant = hint_for(one.name, names) if isinstance(one, MissingHandler) else ""
            logger.warning(
                "No worker has %s; such jobs wait in the queue %s.%s",
                *(printable(one.what), printable(queue), printable(meant)),
                extra={"job_name": one.name, "queue": queue},
            )

    def _leave_to_others(self, queue: str, requirements: Iterable[Requirement]) -> bool:
        """Ask for no jobs with these requirements for a while; return whether that is new, so that asking for the rest
        is worth it."""
        left = self._left(queue)
        until = monotonic() + _MIXED_FOR
        self._others[queue] = {one: self._others[queue][one] for one in left} | dict.fromkeys(requirements, until)
        return any(one not in left for one in self._others[queue])

    async def _hold(self, queue: str, requirements: list[Requirement], lined: list[StoredJob]) -> bool:
        """Hold the due jobs with these requirements, many at a time: a long run of them must not starve the jobs behind
        it. Return whether any was held."""
        ids: dict[Requirement, list[DocumentId]] = defaultdict(list)
        for job in [*await self._store.claims.due(queue, any_of(requirements), _MANY), *lined]:
            requirement = self._unmet(job)
            if requirement is not None:
                ids[requirement].append(job.id)
        held = 0
        for requirement, those in ids.items():
            held += await self._store.upkeep.hold(those, requirement.by, requirement.note(queue))
        return held > 0


async def announce_expired(store: Store, events: Callbacks, ids: list[DocumentId]) -> None:
    """Emit the events of jobs that have expired, if a callback wants them."""
    if ids and events.wanted("job:expire"):
        for document in (await store.jobs.get_many(ids)).values():
            events.emit("job:expire", decode_job(document))
