"""A worker process as its last heartbeat described it: one record for the engine, for `explain`, for health and for
the lists of the service. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.model.jobs.declared_defaults import JobDefaults
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.payload_versions import takes
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.limits import JobLimits

Place = tuple[str, str]
"""The target of a limit, a pause or a breaker: "name" or "queue", and which."""


@dataclass(frozen=True, slots=True)
class RunningSlot:
    """A slot of a worker that runs a job, as the last heartbeat reported it."""

    job_id: str
    name: str
    queue: str
    since: datetime | None = None
    gates: tuple[str, ...] = ()
    """The limits whose slots the job holds."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A request that a worker claims no more, finishes its jobs and ends."""

    at: datetime | None = None
    reason: str = ""
    actor: str | None = None
    ended: bool = False
    """Whether the worker has finished its jobs and is about to end."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker process. `queues` or `handlers` None: all of them. A field that was not read has its default."""

    id: str
    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] | None = None
    handlers: tuple[str, ...] | None = None
    concurrency: int = 0
    running: int = 0
    live: bool = True
    """Whether its last heartbeat is recent."""
    started_at: datetime | None = None
    beat_at: datetime | None = None
    lease_until: datetime | None = None
    version: str | None = None
    """The version of Mainspring."""
    release: str | None = None
    """The release of the program whose handlers it has, as the setting `release` names it."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """The versions of its handlers, except those of version 1."""
    keys: frozenset[str] = frozenset()
    """The ids of the encryption keys that it has."""
    limits: Mapping[Place, JobLimits] | None = None
    """The limits that its code declares; None where it reports none, or in a form that only a newer version reads."""
    breakers: Mapping[Place, Breaker] = field(default_factory=dict)
    defaults: Mapping[str, JobDefaults] = field(default_factory=dict)
    """The job defaults of each name that has a handler of its own."""
    memory: int | None = None
    """The resident memory of its process in bytes; None where the system does not tell it."""
    loop_lag: float | None = None
    """The longest time that a callback waited for the event loop between the last two heartbeats, in seconds."""
    slots: tuple[RunningSlot, ...] = ()
    """The jobs that it runs, those that have run for longest first; at most 50."""
    busy: Mapping[str, int] = field(default_factory=dict)
    """The number of jobs that it runs, by queue."""
    drain: Drain | None = None
    """The request to drain, if there is one."""
    error: str | None = None
    """The fields of its document that cannot be read: another program has written them."""

    def serves(self, queue: str) -> bool:
        """Whether it claims jobs of a queue: a worker that drains claims none."""
        return self.drain is None and self.accepts(queue)

    def accepts(self, queue: str) -> bool:
        """Whether a queue is among those of the worker."""
        return self.queues is None or queue in self.queues

    def handles(self, name: str) -> bool:
        """Whether it has a handler for a job name."""
        return self.handlers is None or name in self.handlers or name in FLOW_NAMES

    def takes(self, name: str, version: int) -> bool:
        """Whether its handler for a job name is new enough for data of this version."""
        return takes(self.versions, name, version, any_name=self.handlers is None)

    def can_run(self, job: Job) -> bool:
        """Whether it serves the job's queue, has a handler that takes its data, and the keys that it is encrypted
        with."""
        able = self.serves(job.queue) and self.handles(job.name) and self.takes(job.name, job.data_version)
        return able and self.keys.issuperset(job.key_ids)


def able_workers(workers: Iterable[WorkerStatus], job: Job) -> list[WorkerStatus]:
    """The workers that can run a job."""
    return [worker for worker in workers if worker.can_run(job)]


def versions_among(workers: Iterable[WorkerStatus]) -> list[str]:
    """The releases of programs, and the versions of Mainspring and of handlers, that workers have, as texts:
    "shop 2026.11.2", "Mainspring 0.3.0", "charge v2"."""
    found: dict[str, None] = {}
    for worker in workers:
        if worker.version is not None:
            found[f"Mainspring {worker.version}"] = None
        if worker.release is not None:
            found[worker.release] = None
        found |= dict.fromkeys(f"{name} v{version}" for name, version in worker.versions.items())
    return sorted(found)
