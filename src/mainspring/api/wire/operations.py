"""Operations on the wire: what is asked for, and how far it is."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from mainspring.api.wire.base import Answer, In, Instant, Out, Span, UnreadableOut
from mainspring.api.wire.dead_letters import JobId
from mainspring.api.wire.filters import JobConditions, JobFilterOut
from mainspring.api.wire.job_requests import Text
from mainspring.api.wire.jobs import JobOut, Reason
from mainspring.client.namespaces.operations import Operation
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import FIRST_PRIORITY, LAST_PRIORITY, JobState
from mainspring.model.operations.operations import (
    MOST_IDS,
    START_AFTER,
    OperationPreview,
    OperationProgress,
    OperationState,
    Verb,
)
from mainspring.model.views.search import read_value

Path = Annotated[str, Field(min_length=1, max_length=200)]
Value = Annotated[str, Field(max_length=1000)] | int | float | bool
_IN_A_LIST = 5
"""How many reasons an operation in a list tells."""


class OperationFilterIn(JobConditions):
    """Which jobs are meant; all that is given has to fit, and something has to be given."""

    state: JobState | None = Field(
        None, description="Without one, jobs are looked for in all states that the verb works on."
    )
    data: Annotated[dict[Path, Value], Field(max_length=8)] | None = Field(
        None,
        description="Values in the data by their paths. A text is compared as in a search: as the text that it is and, "
        "where it is a number, true or false, as that too.",
        examples=[{"customer.id": 4711}],
    )

    @property
    def given(self) -> Fields:
        """The filter as the Scheduler takes it."""
        if not self.data:
            return super().given
        data = {path: read_value(one) if isinstance(one, str) else one for path, one in self.data.items()}
        return {**super().given, "data": data}


class OperationIn(In):
    """One verb on many jobs, by a filter or by their ids."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"verb": "retry", "filter": {"state": "failed", "name": "send-report"}, "reason": "Mail is back."}
            ]
        }
    )

    verb: Verb
    filter: OperationFilterIn | None = None
    ids: Annotated[list[JobId], Field(min_length=1, max_length=MOST_IDS)] | None = None
    priority: Annotated[int, Field(ge=FIRST_PRIORITY, le=LAST_PRIORITY)] | None = Field(
        None, description="For `set_priority`: the new priority of the jobs."
    )
    queue: Text | None = Field(None, description="For `move`: the new queue of the jobs.")
    reason: Reason = Field("", description="Required, except for a dry run.")
    start_after: Span = Field(
        START_AFTER, description="The time before the operation starts, during which you can still cancel it; up to 1h."
    )
    dry_run: bool = Field(False, description="Only count the matching jobs and show some of them; store nothing.")


class LeftOut(Out):
    """A job that was left unchanged, and the reason."""

    job_id: str
    outcome: Literal["skipped", "refused"]
    reason: str


class OperationProgressOut(Out):
    """What became of the jobs that were examined so far."""

    examined: int
    changed: int
    skipped: int = Field(description="Jobs that no longer matched when their turn came.")
    refused: int = Field(description="Jobs whose state does not allow the verb.")
    reasons: list[LeftOut] = Field(
        description="The first of those that were left alone: up to 100, and up to 5 where operations are listed."
    )

    @classmethod
    def of(cls, progress: OperationProgress, most: int | None = None) -> Self:
        counts = {name: getattr(progress, name) for name in ("examined", "changed", "skipped", "refused")}
        reasons = [
            LeftOut(job_id=one.job_id, outcome=one.outcome, reason=one.reason) for one in progress.reasons[:most]
        ]
        return cls(**counts, reasons=reasons)


class Meant(Out):
    """What an operation does to which jobs."""

    verb: Verb
    filter: JobFilterOut | None
    priority: int | None
    queue: str | None
    count: int = Field(
        description="How many jobs are meant, when it is created; counted up to 2,000, and up to 1,000 where the jobs "
        "themselves have to be read."
    )
    capped: bool = Field(description="Whether counting has stopped: there are at least so many.")


class OperationOut(Meant):
    """One verb on many jobs, and how far it is."""

    id: str
    state: OperationState
    reason: str
    created_by: str | None
    created_at: Instant
    cutoff: Instant = Field(description="Jobs that were made later are not touched.")
    starts_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    updated_at: Instant | None
    named: int | None = Field(description="How many jobs were named by their ids, where there is no filter.")
    progress: OperationProgressOut
    error: str | None = Field(description="Why it failed, or does not get on for now.")

    @classmethod
    def of(cls, operation: Operation) -> Self:
        return cls(**_fields(operation), progress=OperationProgressOut.of(operation.progress, _IN_A_LIST))


class OperationDetail(OperationOut):
    """An operation with all that is kept of it."""

    ids: list[str] | None

    @classmethod
    def of(cls, operation: Operation) -> Self:
        ids = None if operation.ids is None else list(operation.ids)
        return cls(**_fields(operation), progress=OperationProgressOut.of(operation.progress), ids=ids)


class OperationCreated(OperationDetail):
    """An operation that was created just now, with some of the jobs that it means."""

    sample: list[JobOut]

    @classmethod
    def made(cls, operation: Operation, sample: list[JobOut]) -> Self:
        return cls(**OperationDetail.of(operation).model_dump(by_alias=False), sample=sample)


class OperationPreviewOut(Meant):
    """What an operation would mean. Nothing was stored."""

    dry_run: Literal[True] = True
    sample: list[JobOut]

    @classmethod
    def of(cls, asked: OperationIn, preview: OperationPreview, sample: list[JobOut]) -> Self:
        filter = None if asked.filter is None else JobFilterOut(**asked.filter.model_dump(by_alias=False))
        return cls(
            verb=asked.verb,
            filter=filter,
            priority=asked.priority,
            queue=asked.queue,
            count=preview.count,
            capped=preview.capped,
            sample=sample,
        )


class OperationPage(Answer[list[OperationOut]]):
    """A page of operations. Where it is not `complete`, it is short although there may be more: go on with `next`.
    `unreadable` names what is stored beside them and cannot be read, to keys that reach everything."""

    complete: bool
    unreadable: list[UnreadableOut] = Field(default_factory=list)


_SAME = (
    *("id", "verb", "state", "reason", "priority", "queue", "count", "capped", "created_by", "created_at", "cutoff"),
    *("starts_at", "started_at", "finished_at", "updated_at", "named", "error"),
)


def _fields(operation: Operation) -> Fields:
    """The fields that all shapes of an operation share."""
    filter = None if operation.filter is None else JobFilterOut(**operation.filter)
    return {name: getattr(operation, name) for name in _SAME} | {"filter": filter}
