"""Importing jobs and schedules of other schedulers: `mainspring import`, and `import_from` for programs.

Without `apply` nothing is stored. Ids follow from the source's ids: a job or schedule that is there already stays as it
is, so that an import can be interrupted and repeated. The source is only read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.errors import BulkError, ConfigurationError
from mainspring.model.importing import agenda, apscheduler, documents
from mainspring.model.importing.celery_beat import read_dump
from mainspring.model.importing.plan import Choices, LeftOut, Planned, PlannedJob, PlannedSchedule
from mainspring.store import Store
from mainspring.store.importing.source import SourceCollection

Source = Literal["agenda", "apscheduler", "celery-beat", "mongo-job-scheduler", "status-lock"]
Fate = Literal["new", "created", "exists", "finished", "refused"]
FATES: tuple[Fate, ...] = ("new", "created", "exists", "finished", "refused")
"""It would be created; it was created; it is there already; it has finished there; it cannot be imported."""
_READERS: Mapping[str, tuple[Callable[[Mapping[str, Any], Choices], Planned], str]] = {
    "agenda": (agenda.read_agenda, agenda.COLLECTION),
    "apscheduler": (apscheduler.read_apscheduler, apscheduler.COLLECTION),
    "mongo-job-scheduler": (documents.read_mongo_job_scheduler, documents.COLLECTION),
    "status-lock": (documents.read_status_lock, documents.STATUS_LOCK_COLLECTION),
}
SOURCES = (*_READERS, "celery-beat")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record of the source, or would."""

    fate: Fate
    source_id: str
    name: str
    kind: Literal["job", "schedule", "nothing"]
    id: str | None = None
    """The id of the job or schedule here."""
    text: str = ""
    """When it runs, or why nothing is made of it."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ImportReport:
    """The numbers of outcomes by fate, and the outcomes themselves."""

    counts: Counter[str] = field(default_factory=Counter)
    outcomes: list[Outcome] = field(default_factory=list)


async def import_from(
    scheduler: Scheduler,
    source: Source,
    place: str,
    *,
    apply: bool = False,
    prefix: str | None = None,
    timezone: str = "UTC",
    rename: Mapping[str, str] | None = None,
    arguments: Mapping[str, Sequence[str]] | None = None,
) -> ImportReport:
    """Import all jobs and schedules of a source; without `apply`, tell what would become of each.

    `place` is the URI of the source's collection, such as `mongodb://host/app.agendaJobs`, or the file of a dump.
    """
    report = ImportReport()
    choices = Choices(prefix or source, timezone, rename or {}, arguments or {})
    async with aclosing(outcomes(scheduler, source, place, choices, apply=apply)) as found:
        async for batch in found:
            report.outcomes += batch
            report.counts.update(outcome.fate for outcome in batch)
    return report


async def outcomes(
    scheduler: Scheduler,
    source: str,
    place: str,
    choices: Choices,
    *,
    apply: bool,
    tell: Callable[[int, int], None] | None = None,
) -> AsyncGenerator[list[Outcome]]:
    """The outcomes of an import, batch by batch; `tell` is called with how many records were read, of how many."""
    seen = 0
    async with aclosing(_batches(source, place, choices)) as batches:
        async for total, batch in batches:
            # Not before: a source that cannot be read starts no embedded server.
            store = await core_of(scheduler).store()
            yield await _Batch(scheduler, store, apply).carry_out(batch)
            seen += len(batch)
            if tell is not None:
                tell(seen, total)


async def _batches(source: str, place: str, choices: Choices) -> AsyncGenerator[tuple[int, list[Planned]]]:
    if source == "celery-beat":
        planned = list(read_dump(await asyncio.to_thread(_content, place), choices))
        yield len(planned), planned
        return
    if source not in _READERS:
        raise ConfigurationError(f"There is no source {source!r}; the sources are {', '.join(SOURCES)}.")
    read, usual = _READERS[source]
    collection = SourceCollection(place, usual)
    try:
        total = await collection.count()
        async with aclosing(collection.batches()) as batches:
            async for batch in batches:
                yield total, [read(document, choices) for document in batch]
    finally:
        await collection.close()


def _content(place: str) -> str:
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The dump {place!r} cannot be read: {error}") from None


class _Batch:
    """Carries out one batch."""

    def __init__(self, scheduler: Scheduler, store: Store, apply: bool) -> None:
        self._scheduler = scheduler
        self._store = store
        self._apply = apply

    async def carry_out(self, planned: list[Planned]) -> list[Outcome]:
        jobs = [one for one in planned if isinstance(one, PlannedJob)]
        schedules = [one for one in planned if isinstance(one, PlannedSchedule)]
        found = [_left_out(one) for one in planned if isinstance(one, LeftOut)]
        found += await self._jobs(jobs) if jobs else []
        there = await self._store.imported.schedules([one.schedule_id for one in schedules]) if schedules else set()
        return found + [await self._schedule(one, exists=one.schedule_id in there) for one in schedules]

    async def _jobs(self, jobs: list[PlannedJob]) -> list[Outcome]:
        there = await self._store.imported.jobs([job.job_id for job in jobs])
        new = [job for job in jobs if job.job_id not in there]
        errors: Mapping[int, Exception] = {}
        if self._apply and new:
            items = [{"name": job.name, "data": job.data, "job_id": job.job_id, **job.options} for job in new]
            try:
                await self._scheduler.schedule_bulk(items)
            except BulkError as error:
                errors = error.errors
        refused = {new[place].job_id: str(error) for place, error in errors.items()}
        return [_of_job(job, self._fate(job.job_id in there, job.job_id in refused), refused) for job in jobs]

    async def _schedule(self, one: PlannedSchedule, *, exists: bool) -> Outcome:
        problem = None
        if self._apply and not exists:
            options: Any = {**one.options, "schedule_id": one.schedule_id}
            try:
                await self._scheduler.schedule(one.name, one.data, repeat=one.rule, **options)
            except ConfigurationError as error:
                problem = str(error)
        text = problem or one.rule.describe()
        fate = self._fate(exists, problem is not None)
        return Outcome(fate, one.source_id, one.name, "schedule", one.schedule_id, text, one.notes)

    def _fate(self, exists: bool, refused: bool) -> Fate:
        if exists:
            return "exists"
        if refused:
            return "refused"
        return "created" if self._apply else "new"


def _left_out(one: LeftOut) -> Outcome:
    return Outcome(one.kind, one.source_id, one.name, "nothing", None, one.reason)


def _of_job(job: PlannedJob, fate: Fate, refused: Mapping[str, str]) -> Outcome:
    run_at = job.options.get("run_at")
    text = refused.get(job.job_id) or ("at once" if run_at is None else f"at {run_at.isoformat()}")
    return Outcome(fate, job.source_id, job.name, "job", job.job_id, text, job.notes)
