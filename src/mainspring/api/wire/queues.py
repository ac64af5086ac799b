"""Queues on the wire."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from mainspring.api.wire.base import In, Instant, Out, to_ms
from mainspring.api.wire.limits import PausedOut
from mainspring.model.access.reach import note_within
from mainspring.model.fields import Fields
from mainspring.model.views.queues import Activity, QueueDetail, QueueStatus, WaitingAt
from mainspring.model.views.scaling import QueueScale
from mainspring.store.views.queues import PAGE


class QueueListing(In):
    """A page of the list of queues."""

    limit: Annotated[int, Field(ge=1, le=PAGE)] = PAGE
    cursor: Annotated[str, Field(max_length=4000, description="The `next` of the previous page.")] | None = None


class ActivityOut(Out):
    """Attempts that ended, minute by minute, the current minute last. A busy installation has fewer minutes."""

    start: Instant = Field(description="The beginning of the first minute.")
    ended: list[int]
    failed: list[int] = Field(description="Those that failed, were lost, or are retried.")

    @classmethod
    def of(cls, activity: Activity) -> Self:
        return cls(start=activity.start, ended=list(activity.ended), failed=list(activity.failed))


class QueueOut(Out):
    """A queue as it is now. A count of pending jobs that reaches `counted` means "or more"."""

    name: str
    ready: int = Field(description="Pending jobs that may start as soon as they are due: due and scheduled ones.")
    due: int = Field(description="Ready jobs that are due.")
    scheduled: int = Field(description="Ready jobs that are due later.")
    waiting: int = Field(description="Pending jobs that wait at a gate.")
    running: int
    counted: int
    paused: PausedOut | None
    oldest_due_at: Instant | None = Field(
        description="Since when the job that has waited for longest is due, a ready one or one that waits at a gate."
    )
    workers: int = Field(description="The live workers that serve the queue.")
    slots: int = Field(description="How many jobs these workers run at once; they may serve other queues, too.")
    utilisation: float | None = Field(description="The share of these slots that run jobs of this queue.")
    no_worker: bool = Field(description="Whether jobs are due and no live worker serves the queue.")
    per_minute: float | None = Field(description="How many jobs have left the queue per minute, in the last five.")
    drain_ms: int | None = Field(
        description="How long the due and waiting jobs take at that rate, and longer if they are more than `counted`;"
        " null if the rate is unknown."
    )
    activity: ActivityOut

    @classmethod
    def of(cls, queue: QueueStatus) -> Self:
        return cls(**queue_fields(queue))


class WaitOut(Out):
    """Jobs that wait for the same reason, among those that were examined."""

    by: str
    gate: str | None = Field(description="The gate; null for keys with a scope, and where the jobs wait for no gate.")
    note: str
    count: int
    since: Instant | None


class NameCount(Out):
    name: str
    count: int


class QueueDetailOut(QueueOut):
    """A queue, and what its jobs wait for."""

    waits: list[WaitOut] = Field(description="What the first waiting jobs wait for, the most frequent first.")
    looked_at: int = Field(description="How many waiting jobs were examined.")
    names: list[NameCount] = Field(description="The names of the jobs that are due next, the most frequent first.")
    sampled: int = Field(description="How many jobs that are due next were examined.")

    @classmethod
    def of_detail(cls, detail: QueueDetail, status: QueueStatus, *, everything: bool) -> Self:
        return cls(
            **queue_fields(status),
            waits=[_wait(one, everything) for one in detail.waits],
            looked_at=detail.looked_at,
            names=[NameCount(name=name, count=count) for name, count in detail.names.items()],
            sampled=detail.sampled,
        )


class ScaleOut(Out):
    """The backlog of a queue, and the workers that it needs."""

    ready: int = Field(description="Jobs that are due and may start now.")
    capped: bool = Field(description="Whether there are more ready jobs than were counted.")
    oldest_ready_seconds: float = Field(description="For how long the oldest ready job has been due.")
    busy_slots: int = Field(description="The jobs of the queue that run.")
    run_seconds: float | None = Field(description="The mean run time in the last hour; null if it is unknown.")
    slots_per_worker: int
    wanted: int = Field(description="The workers needed.")

    @classmethod
    def of(cls, scale: QueueScale) -> Self:
        return cls(
            ready=scale.ready,
            capped=scale.capped,
            oldest_ready_seconds=round(scale.oldest_ready.total_seconds(), 3),
            busy_slots=scale.busy_slots,
            run_seconds=None if scale.run_time is None else round(scale.run_time.total_seconds(), 6),
            slots_per_worker=scale.slots_per_worker,
            wanted=scale.wanted,
        )


def queue_fields(queue: QueueStatus) -> Fields:
    """The fields of a queue in every answer."""
    same = ("name", "ready", "due", "scheduled", "waiting", "running", "counted", "workers", "slots", "utilisation")
    activity = queue.activity
    assert activity is not None
    return {name: getattr(queue, name) for name in same} | {
        "paused": None if queue.paused is None else PausedOut.of(queue.paused),
        "oldest_due_at": queue.oldest_due,
        "no_worker": queue.lacks_worker,
        "per_minute": None if queue.per_second is None else round(60 * queue.per_second, 2),
        "drain_ms": to_ms(queue.drain_time),
        "activity": ActivityOut.of(activity),
    }


def _wait(one: WaitingAt, everything: bool) -> WaitOut:
    note = one.note if everything else note_within(one.by, one.note)
    return WaitOut(by=one.by, gate=one.gate if everything else None, note=note, count=one.count, since=one.since)
