"""The overview on the wire: problems with their targets and cures, checks, and the next firings."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from mainspring.api.wire.base import Instant, Out, jsonable
from mainspring.model.fields import Fields
from mainspring.model.views.problems import (
    Cure,
    CureVerb,
    NextFiring,
    OverviewReport,
    Problem,
    ProblemKind,
    ProblemTarget,
    Severity,
    TargetKind,
)


class ProblemTargetOut(Out):
    """The object of a problem or a cure. `id` is its name or id; for an error, the fingerprint."""

    kind: TargetKind
    id: str
    scope: str | None = Field(None, description="For a limit, a pause or a breaker: queue or name.")
    key: Fields | None = Field(None, description="For a pause or a breaker: only jobs with this value.")
    queue: str | None = Field(None, description="For a breaker: only the jobs of the name in this queue.")
    name: str | None = Field(None, description="For an error: the job's name.")

    @classmethod
    def of(cls, target: ProblemTarget) -> Self:
        key = None if target.key is None else {target.key: jsonable(target.value)}
        return cls(kind=target.kind, id=target.id, scope=target.scope, key=key, queue=target.queue, name=target.name)


class CureOut(Out):
    """A verb that may solve a problem: resume a pause or a schedule, close a breaker, retry the dead letters of an
    error, start a worker (with `command`), set another limit."""

    verb: CureVerb
    target: ProblemTargetOut
    command: str | None = None

    @classmethod
    def of(cls, cure: Cure) -> Self:
        return cls(verb=cure.verb, target=ProblemTargetOut.of(cure.target), command=cure.command)


class ProblemOut(Out):
    """One problem in a sentence."""

    kind: ProblemKind
    severity: Severity
    text: str
    target: ProblemTargetOut
    count: int | None = Field(description="The number of jobs or attempts that it affects.")
    capped: bool = Field(description="Whether there may be more than `count`.")
    since: Instant | None
    reason: str | None
    actor: str | None = Field(description="The actor that paused, or opened the breaker.")
    cures: list[CureOut]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        same = ("kind", "severity", "text", "count", "capped", "since", "actor")
        return cls(
            **{name: getattr(problem, name) for name in same},
            target=ProblemTargetOut.of(problem.target),
            reason=problem.reason or None,
            cures=[CureOut.of(cure) for cure in problem.cures],
        )


class NextFiringOut(Out):
    """The next firing of a schedule: its nominal time, and when its job is made."""

    schedule_id: str
    name: str
    queue: str
    at: Instant
    due: Instant

    @classmethod
    def of(cls, firing: NextFiring) -> Self:
        return cls(schedule_id=firing.schedule_id, name=firing.name, queue=firing.queue, at=firing.at, due=firing.due)


class OverviewOut(Out):
    """The problems, the worst first; what was checked, in sentences; the schedules that fire next."""

    at: Instant
    problems: list[ProblemOut]
    checks: list[str]
    next_firings: list[NextFiringOut]

    @classmethod
    def of(cls, report: OverviewReport, problems: list[Problem]) -> Self:
        return cls(
            at=report.at,
            problems=[ProblemOut.of(problem) for problem in problems],
            checks=list(report.checks),
            next_firings=[NextFiringOut.of(firing) for firing in report.next_firings],
        )
