"""Schedules that fire every second for a while, and the one set of jobs that has to come of them.

Which jobs those are is computed from the rules alone. It is held against the jobs in the database, against the runs
that handlers wrote down, and against the ledgers: none missing, none extra, each accounted for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.history import History
from mainspring import Cron, Every, Rule, Scheduler

_MADE = {"on_time", "late"}
_SHOWN = 5
_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule of the test, and the instants at which it has to fire."""

    id: str
    rule: Rule
    instants: tuple[datetime, ...]

    @property
    def jobs(self) -> Iterator[str]:
        return (f"{self.id}@{_text(instant)}" for instant in self.instants)


class Firings:
    """What a number of schedules, all of them firing once a second from `start` to `end`, have to make."""

    def __init__(self, count: int, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end
        self.planned = [self._plan(n) for n in range(count)]
        self.jobs = {job for one in self.planned for job in one.jobs}

    def _plan(self, n: int) -> Planned:
        """Every other one on the full second, all at once; the others anywhere in it."""
        rule: Rule = Cron("* * * * * *")
        if n % 2:
            rule = Every("1s", anchor=self.start + timedelta(milliseconds=7 * n % 1000))
        within = rule.between(self.start, self.end + timedelta(milliseconds=1))
        return Planned(f"every-{n}", rule, tuple(within))

    async def store(self, scheduler: Scheduler, **options: Any) -> None:
        window = {"start_at": self.start, "end_at": self.end, **options}
        for place in range(0, len(self.planned), _AT_ONCE):
            some = self.planned[place : place + _AT_ONCE]
            await asyncio.gather(
                *(
                    # Where a firing were decided twice, the last ones would be lost.
                    scheduler.schedule(
                        "work", repeat=one.rule, schedule_id=one.id, max_runs=len(one.instants), **window
                    )
                    for one in some
                )
            )
        assert datetime.now(UTC) < self.start, "it took so long to store the schedules that the first were due"

    def check(self, documents: Mapping[str, Mapping[str, Any]], history: History) -> list[str]:
        """What contradicts one job per firing, in the database and in what handlers did."""
        made = {id for id, document in documents.items() if "@" in id or "schedule_id" in document}
        ran = {run.job for run in history.runs() if "@" in run.job}
        return [
            *_differences(self.jobs, made, "has no job", "is a job of no firing"),
            *_differences(self.jobs, ran, "was never run", "was run for no firing"),
        ]

    async def check_ledgers(self, scheduler: Scheduler) -> tuple[list[str], Counter[str]]:
        """What contradicts the ledgers, in which every firing is on time or late; and how many were which."""
        found: list[str] = []
        outcomes: Counter[str] = Counter()
        for one in self.planned:
            entries = await scheduler.schedules.ledger(
                one.id, self.start, self.end + timedelta(seconds=1), limit=10_000
            )
            outcomes.update(entry.outcome for entry in entries)
            runs = (await scheduler.schedules.get(one.id)).runs
            if runs != len(one.instants):
                found.append(f"{one.id} has counted {runs} runs, not {len(one.instants)}")
            if [entry.at for entry in entries] != list(one.instants):
                found.append(f"the ledger of {one.id} has {len(entries)} firings, not {len(one.instants)}")
            found += [
                f"{one.id} at {_text(entry.at)}: {entry.outcome} ({entry.reason}), job {entry.job_id}"
                for entry, job in zip(entries, one.jobs, strict=False)
                if entry.outcome not in _MADE or entry.job_id != job
            ]
        return found, outcomes


def _differences(wanted: set[str], got: set[str], missing: str, extra: str) -> Iterable[str]:
    for ids, what in ((wanted - got, missing), (got - wanted, extra)):
        if ids:
            yield f"{len(ids)} of {len(wanted)}: {', '.join(sorted(ids)[:_SHOWN])} … {what}"


def _text(instant: datetime) -> str:
    """An instant as the ids of jobs have it; written here once more on purpose."""
    instant = instant.astimezone(UTC)
    text = f"{instant:%Y-%m-%dT%H:%M:%S}"
    return f"{text}.{instant.microsecond // 1000:03d}Z" if instant.microsecond else f"{text}Z"
