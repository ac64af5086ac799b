"""The decision about one schedule: which firings get a job now, which do not, and the reasons. Pure.

The schedule's *cursor* is the nominal time up to which every firing has been decided. `plan` decides the firings since
then that are due. A firing is missed only when no worker decided it within the grace time of its instant; until then it
gets a job of its own, however late. Missed firings are found by arithmetic from both ends, never by walking over them,
so that a million missed firings cost as little as one.

Then the policy for runs that are still going is applied. The engine stores a plan by a compare-and-set before it acts
on it, so that each decision is taken once, whichever worker takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from mainspring.model.schedules.ledger import LATE, MISSED, ON_TIME, SKIPPED, Row
from mainspring.model.schedules.times import Times, firing_id

Misfire = Literal["skip", "latest", "all"]
Overlap = Literal["allow", "skip", "queue_one", "queue_all", "cancel_running"]
MISFIRES: tuple[Misfire, ...] = get_args(Misfire)
OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)

LATE_AFTER = timedelta(seconds=5)
"""A firing whose job is made later than this is late; sooner, it is on time."""
MOST_AT_ONCE = 1000
"""The most jobs that one pass makes; the next pass goes on from there."""
# The most runs that may wait for one that is still going.
_ROOM = {"queue_one": 1, "queue_all": 1000, "cancel_running": 1000}
_MOMENT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policies for missed firings and for runs that are still going."""

    misfire: str = "latest"
    misfire_grace: float = 60.0
    misfire_limit: int = 100
    start_deadline: float | None = None
    overlap: str = "allow"
    max_runs: int | None = None


@dataclass(frozen=True, slots=True)
class Make:
    """A job to be made for a firing. `after` is the job it has to wait for, if any."""

    job_id: str
    at: datetime
    due: datetime
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one pass."""

    cursor: datetime
    next_at: datetime | None
    makes: tuple[Make, ...] = ()
    rows: tuple[Row, ...] = ()
    cancels: tuple[str, ...] = ()


@dataclass(slots=True)
class Runs:
    """The runs of a schedule that are still going, and those that wait for them, in order."""

    live: list[str] = field(default_factory=list)
    queued: list[tuple[str, str]] = field(default_factory=list)
    """Job ids, each with the job that it waits for."""

    @property
    def last(self) -> str | None:
        """The run that the next run has to wait for."""
        if self.queued:
            return self.queued[-1][0]
        return self.live[-1] if self.live else None


def plan(times: Times, policy: Policy, cursor: datetime, runs: int, going: Runs, now: datetime) -> Plan:
    """Decide every firing that has come due by `now`. Notes the new runs in `going`."""
    left = MOST_AT_ONCE if policy.max_runs is None else min(MOST_AT_ONCE, policy.max_runs - runs)
    makes: list[Make] = []
    rows: list[Row] = []
    at = times.next(cursor) if left > 0 else None
    edge = now - timedelta(seconds=policy.misfire_grace)
    if at is not None and times.due(at) < edge:
        last = _last_missed(times, at, edge)
        makes += [_make(times, taken) for taken in _decide_missed(times, policy, at, last, left, now, rows)]
        cursor, at = last, times.next(last)
    while at is not None and len(makes) < left and (due := times.due(at)) <= now:
        makes.append(Make(firing_id(times.schedule_id, at), at, due))
        cursor, at = at, times.next(at)
    kept, cancels = overlap(makes, policy, going, rows)
    rows = _without_phantoms(rows, kept)
    rows += [row for make in kept if (row := late_row(make, now)) is not None]
    return Plan(cursor, None if _is_over(policy, runs + len(kept)) else at, tuple(kept), tuple(rows), cancels)


def plan_after_end(times: Times, policy: Policy, ended_at: datetime, runs: int, going: Runs, now: datetime) -> Plan:
    """Decide the next firing of a rule that counts from the end of the run before, which was at `ended_at`."""
    at = None if _is_over(policy, runs) else times.next(ended_at)
    if at is None or times.due(at) > now:
        return Plan(ended_at, at)
    make = _make(times, at)
    going.live.append(make.job_id)
    return Plan(at, None, (make,), (late_row(make, now) or on_time_row(make),))


def _is_over(policy: Policy, runs: int) -> bool:
    return policy.max_runs is not None and runs >= policy.max_runs


def _last_missed(times: Times, first: datetime, edge: datetime) -> datetime:
    """The last firing that was due before `edge`, the beginning of the grace time; `first` was."""
    last = times.previous(edge) or first
    if times.due(last) >= edge:  # its jitter ends after the edge; the firing before it is due before it
        last = times.previous(last) or first
    return max(first, last)


def _decide_missed(
    times: Times, policy: Policy, first: datetime, last: datetime, left: int, now: datetime, rows: list[Row]
) -> list[datetime]:
    """Decide the missed firings from `first` to `last`: returns those that get a job after all, and adds a row for the
    others."""
    limit = {"skip": 0, "latest": 1, "all": policy.misfire_limit}[policy.misfire]
    deadline = None if policy.start_deadline is None else now - timedelta(seconds=policy.start_deadline)
    taken: list[datetime] = []
    at: datetime | None = last
    while at is not None and at >= first and len(taken) < min(limit, left):
        if deadline is not None and times.due(at) < deadline:
            break
        taken.append(at)
        at = times.previous(at)
    if at is not None and at >= first:
        expired = deadline is not None and times.due(at) < deadline
        outcome, reason = _why_not(policy, expired, taken)
        stands = firing_id(times.schedule_id, taken[0]) if taken and policy.misfire == "latest" else None
        rows.append(Row(first, at, outcome, reason, job_id=stands, count=times.count(first, at + _MOMENT)))
    return taken[::-1]


def _why_not(policy: Policy, expired: bool, taken: Sequence[datetime]) -> tuple[str, str]:
    """The outcome of missed firings that get no job, and its reason. The firings in `taken` are later, and get one."""
    if policy.misfire == "skip":
        return SKIPPED, "misfire"
    if policy.misfire == "latest" and taken:
        return MISSED, "the latest run stands for it"
    if expired:
        return SKIPPED, "expired"
    if len(taken) < policy.misfire_limit:
        return MISSED, f"no more than {policy.max_runs} runs are wanted"
    return MISSED, f"more than {policy.misfire_limit} were missed"


def _without_phantoms(rows: Sequence[Row], kept: Sequence[Make]) -> list[Row]:
    """The rows without references to runs that are not made after all, since another run was still going."""
    made = {make.job_id for make in kept}
    gone = "the latest run was to stand for it, and was skipped"
    return [replace(r, job_id=None, reason=gone) if r.job_id not in (None, *made) else r for r in rows]


def _make(times: Times, at: datetime) -> Make:
    return Make(firing_id(times.schedule_id, at), at, times.due(at))


def late_row(make: Make, now: datetime) -> Row | None:
    """The row of a firing whose job is made late; a firing on time needs none."""
    if now - make.due <= LATE_AFTER:
        return None
    return Row(make.at, make.at, LATE, late_by=now - make.due, job_id=make.job_id)


def on_time_row(make: Make) -> Row:
    """The row of a firing that cannot be computed afterwards, since it depended on the end of a run."""
    return Row(make.at, make.at, ON_TIME, job_id=make.job_id)


def overlap(makes: Sequence[Make], policy: Policy, going: Runs, rows: list[Row]) -> tuple[list[Make], tuple[str, ...]]:
    """Apply the policy for runs that are still going: returns the jobs to make after all, and the jobs to cancel."""
    kept: list[Make] = []
    cancels: list[str] = []
    for make in makes:
        busy = going.last
        if policy.overlap == "allow" or busy is None:
            kept.append(make)
            going.live.append(make.job_id)
        elif policy.overlap == "skip" or len(going.queued) >= _ROOM.get(policy.overlap, 1):
            waits = "waits already" if going.queued else "is still going"
            rows.append(Row(make.at, make.at, SKIPPED, f"overlap: {busy} {waits}"))
        else:
            if policy.overlap == "cancel_running":
                going.live += [job for job, _ in going.queued]
                going.queued = []
                cancels += going.live
            kept.append(replace(make, after=busy))
            going.queued.append((make.job_id, busy))
    return kept, tuple(dict.fromkeys(cancels))
