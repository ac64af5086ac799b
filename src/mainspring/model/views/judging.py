"""Problems from facts: what fails, is late, stuck, paused, limited, broken or without workers. Pure.

Each function below finds the problems of one kind. Sentences name the target; the service adds actor and reason only
where the caller may know them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.durations import duration_words
from mainspring.model.limits.breaker import HALF_OPEN
from mainspring.model.limits.controls import Target, breaker_gate, breaker_target, pause_gate
from mainspring.model.limits.limits import CONCURRENCY, FAIR, QUEUE, RATE, SEQUENCE
from mainspring.model.schedules.schedule import SYSTEM
from mainspring.model.views.health import LATE, UNRENEWED
from mainspring.model.views.problems import (
    KINDS,
    RECENT,
    SEVERITIES,
    Cure,
    Due,
    Held,
    NextFiring,
    OverviewReport,
    Problem,
    ProblemFacts,
    ProblemTarget,
    RecentFailure,
    Severity,
)
from mainspring.model.views.statistics import Counts, summed

_LEAST_FAILURES = 3
_LEAST_SHARE = 0.1
_BAD_SHARE = 0.5
_MANY = 10
_SHOWN_PER_KIND = 20
_NEXT = 10


def make_report(facts: ProblemFacts) -> OverviewReport:
    """The problems that follow from the facts, the worst first."""
    finders = (find_unserved, _stuck, _failing, _broken, _late, _schedules, _limited, _paused, _versions)
    problems = [problem for find in finders for problem in list(find(facts))[:_SHOWN_PER_KIND]]
    problems.sort(key=lambda one: (SEVERITIES.index(one.severity), KINDS.index(one.kind), -(one.count or 0)))
    coming = (one for one in facts.firing if one.at is not None and one.due is not None)
    firings = [NextFiring(one.id, one.name, one.queue, one.at, one.due) for one in coming if one.at and one.due]
    return OverviewReport(facts.at, tuple(problems), tuple(_checks(facts)), tuple(firings[:_NEXT]))


# -- no worker ---------------------------------------------------------------------------------------------------------


def find_unserved(facts: ProblemFacts) -> Iterator[Problem]:
    """That no worker is alive; or the queues without a worker and the names without a handler."""
    if not facts.workers and facts.everything:
        worst: Severity = "critical" if facts.due or facts.held else "warning"
        yield Problem(
            "unserved",
            worst,
            "No worker is alive, so no jobs run.",
            ProblemTarget("workers", ""),
            cures=(_start(ProblemTarget("workers", "")),),
        )
        return
    for due in facts.due:
        if not any(worker.serves(due.queue) for worker in facts.workers):
            target = ProblemTarget("queue", due.queue)
            text = f"No live worker serves the queue {due.queue!r}; its oldest job has been due for {_age(facts, due)}."
            yield Problem("unserved", "critical", text, target, since=due.since, cures=(_start(target),))
        elif due.name is not None and _lacks_handler(facts, due):
            yield _without_handler(facts, due.name, None)
    held = {one.name: one for one in facts.held if one.by == "handler"}
    for name, one in held.items():
        yield _without_handler(facts, name, one)


def _lacks_handler(facts: ProblemFacts, due: Due) -> bool:
    """Whether no live worker has a handler for the job; of a held one, its problem is told with the number of jobs."""
    held = any(one.by == "handler" and one.name == due.name for one in facts.held)
    return not held and not any(worker.handles(due.name or "") for worker in facts.workers)


def _without_handler(facts: ProblemFacts, name: str, held: Held | None) -> Problem:
    target = ProblemTarget("name", name)
    text = f"No live worker has a handler for {name!r}"
    text += "; a job of it is due." if held is None else f"; {_jobs(held.count, held.capped)} for one."
    capped = held is not None and held.capped
    count = None if held is None else held.count
    return Problem("unserved", "critical", text, target, count, capped, cures=(_start(target),))


def _start(target: ProblemTarget) -> Cure:
    return Cure("start_worker", target, "mainspring worker")


# -- stuck -------------------------------------------------------------------------------------------------------------


def _stuck(facts: ProblemFacts) -> Iterator[Problem]:
    lost = [lease for lease in facts.leases if facts.at - lease.since > UNRENEWED]
    for queue, count in Counter(lease.queue for lease in lost).items():
        since = min(lease.since for lease in lost if lease.queue == queue)
        jobs = "One running job" if count == 1 else f"{count} running jobs"
        text = f"{jobs} of the queue {queue!r} {'has' if count == 1 else 'have'} lost the worker, and no worker has "
        text += f"given {'it' if count == 1 else 'them'} back for {duration_of(facts.at - since)}."
        yield Problem("stuck", "critical", text, ProblemTarget("queue", queue), count, since=since)
    reasons = {
        "version": "a worker with a newer handler",
        "key": "a worker that has the encryption key of the data",
    }
    for held in facts.held:
        if held.by in reasons:
            text = f"{_jobs_of(held)} for {reasons[held.by]}."
            target = ProblemTarget("name", held.name)
            yield Problem("stuck", "warning", text, target, held.count, held.capped, cures=(_start(target),))


# -- failing -----------------------------------------------------------------------------------------------------------


def _failing(facts: ProblemFacts) -> Iterator[Problem]:
    for name, counts in sorted(facts.recent.items(), key=lambda one: -one[1].unsuccessful):
        bad, ended = counts.unsuccessful, counts.executions
        if bad < _LEAST_FAILURES or bad < _LEAST_SHARE * ended:
            continue
        errors = [failure for failure in facts.failures if failure.name == name]
        worst: Severity = "critical" if bad >= _MANY and bad >= _BAD_SHARE * ended else "warning"
        text = f"{bad:,} of {ended:,} attempts of {name!r} failed in the last {_minutes(RECENT)}{_mostly(errors)}."
        since = min((failure.at for failure in errors), default=None)
        target = ProblemTarget("name", name)
        yield Problem("failing", worst, text, target, bad, since=since, cures=tuple(_retries(errors)))


def _mostly(errors: list[RecentFailure]) -> str:
    if not errors:
        return ""
    ((error, count),) = Counter(failure.error for failure in errors).most_common(1)
    return f", {'all' if count == len(errors) else 'most'} with {error}" if error else ""


def _retries(errors: list[RecentFailure]) -> Iterator[Cure]:
    """The cure for the largest group of dead letters, if there is one."""
    groups = Counter(failure.fingerprint for failure in errors if failure.fingerprint is not None)
    for fingerprint, _ in groups.most_common(1):
        name = next(failure.name for failure in errors if failure.fingerprint == fingerprint)
        yield Cure("retry_dead_letters", ProblemTarget("error", str(fingerprint), name=name))


# -- broken, late, schedules -------------------------------------------------------------------------------------------


def _broken(facts: ProblemFacts) -> Iterator[Problem]:
    for breaker in facts.breakers:
        place = breaker_target(breaker)
        waiting = facts.behind.get(breaker_gate(place), 0)
        state = "half open and lets single probes start" if breaker.state == HALF_OPEN else "open"
        text = f"The breaker of the {place.words} is {state}{_waiting(facts, waiting)}."
        target = _of("breaker", place)
        yield Problem(
            "broken",
            "warning",
            text,
            target,
            waiting,
            waiting >= facts.counted > 0,
            breaker.since,
            breaker.reason,
            breaker.actor,
            (Cure("close_breaker", target),),
        )


def _late(facts: ProblemFacts) -> Iterator[Problem]:
    paused = {pause.target for pause in facts.pauses if pause.scope == QUEUE and pause.key is None}
    for due in facts.due:
        served = any(worker.serves(due.queue) for worker in facts.workers)
        if served and due.queue not in paused and facts.at - due.since > LATE:
            yield Problem(
                "late", "warning", late_text(due, facts.at), ProblemTarget("queue", due.queue), since=due.since
            )


def _schedules(facts: ProblemFacts) -> Iterator[Problem]:
    for one in facts.firing:
        if one.due is not None and facts.at - one.due > LATE:
            text = f"The schedule {one.id!r} should have fired {duration_of(facts.at - one.due)} ago."
            yield Problem("schedule", "warning", text, ProblemTarget("schedule", one.id), since=one.due)
    for one in facts.paused_schedules:
        if one.pause is not None and one.pause.actor == SYSTEM:
            target = ProblemTarget("schedule", one.id)
            text = f"The schedule {one.id!r} paused itself."
            pause = one.pause
            cures = (Cure("resume", target),)
            yield Problem("schedule", "warning", text, target, None, False, pause.at, pause.reason, pause.actor, cures)
    failed = Counter(one.schedule_id for one in facts.failures if one.schedule_id and one.fingerprint is not None)
    for schedule, count in failed.most_common():
        runs = "A run" if count == 1 else f"{count} runs"
        text = f"{runs} of the schedule {schedule!r} failed in the last {_minutes(RECENT)}."
        yield Problem("schedule", "warning", text, ProblemTarget("schedule", str(schedule)), count)


# -- limited, paused, versions -----------------------------------------------------------------------------------------


def _limited(facts: ProblemFacts) -> Iterator[Problem]:
    for held in facts.held:
        if held.by == "limit" and held.gate:
            kind, scope, of = _parts(held.gate)
            gate = "limit" if kind == CONCURRENCY else "rate"
            place = f"{'queue' if scope == QUEUE else 'job'} {of!r}"
            target = ProblemTarget("limit", of, scope=scope)
            text = f"{_jobs_of(held)} at the {gate} of the {place}."
            cures = (Cure("set_limit", target),)
            yield Problem("limited", "notice", text, target, held.count, held.capped, cures=cures)


def _paused(facts: ProblemFacts) -> Iterator[Problem]:
    for pause in facts.pauses:
        place = Target(pause.scope, pause.target, pause.key, pause.value)
        waiting = facts.behind.get(pause_gate(place), 0)
        text = f"The {place.words} is paused{_waiting(facts, waiting)}."
        target = _of("queue" if pause.scope == QUEUE else "name", place)
        yield Problem(
            "paused",
            "notice",
            text,
            target,
            waiting,
            waiting >= facts.counted > 0,
            pause.at,
            pause.reason,
            pause.actor,
            (Cure("resume", target),),
        )
    for one in facts.paused_schedules:
        if one.pause is not None and one.pause.actor != SYSTEM:
            target = ProblemTarget("schedule", one.id)
            text = f"The schedule {one.id!r} is paused."
            pause_of = one.pause
            yield Problem(
                "paused",
                "notice",
                text,
                target,
                since=pause_of.at,
                reason=pause_of.reason,
                actor=pause_of.actor,
                cures=(Cure("resume", target),),
            )


def _versions(facts: ProblemFacts) -> Iterator[Problem]:
    if not facts.everything:
        return
    versions = sorted({worker.version for worker in facts.workers if worker.version is not None})
    if len(versions) > 1:
        text = f"The workers have different versions of Mainspring: {', '.join(versions)}."
        yield Problem("versions", "notice", text, ProblemTarget("workers", ""))
    names = sorted({name for worker in facts.workers for name in worker.versions})
    for name in names:
        found = sorted({worker.versions.get(name, 1) for worker in facts.workers if worker.handles(name)})
        if len(found) > 1:
            text = f"The workers have different versions of the handler {name!r}: {', '.join(map(str, found))}."
            yield Problem("versions", "notice", text, ProblemTarget("name", name))


# -- words -------------------------------------------------------------------------------------------------------------


def _checks(facts: ProblemFacts) -> Iterator[str]:
    if facts.everything:
        count = len(facts.workers)
        yield "One worker is alive." if count == 1 else f"{count or 'No'} workers are alive."
    oldest = min((due.since for due in facts.due), default=None)
    if oldest is None:
        yield "No job is due."
    else:
        yield f"The oldest due job has waited for {duration_of(facts.at - oldest)}."
    total: Counts = summed(facts.recent.values())
    ended = f"{total.executions:,} attempt{'' if total.executions == 1 else 's'}"
    yield f"{ended} ended in the last {_minutes(RECENT)}; {total.unsuccessful or 'none'} of them failed."
    closed = len(facts.pauses) + len(facts.breakers) + len(facts.paused_schedules)
    yield (
        "No queue, name or schedule is paused, and no breaker is open."
        if not closed
        else (f"{closed} pause{'' if closed == 1 else 's'} or open breakers.")
    )
    due = [one.due for one in facts.firing if one.due is not None]
    if due:
        wait = max(min(due) - facts.at, timedelta(0))
        yield f"The next schedule fires in {duration_of(wait)}."


_AT_GATES = {
    CONCURRENCY: "at a limit",
    RATE: "at a rate",
    SEQUENCE: "for its turn in a sequence",
    FAIR: "for the turn of its key",
}


def late_text(due: Due, at: datetime) -> str:
    """The sentence about a queue whose oldest due job waits; its key and its value are not told."""
    where = _AT_GATES.get((due.gate or "").partition(":")[0])
    place = f", {where}" if where else ""
    return f"The oldest due job of the queue {due.queue!r} has waited for {duration_of(at - due.since)}{place}."


def duration_of(length: timedelta) -> str:
    """A length of time for a sentence, in whole seconds."""
    whole = timedelta(seconds=max(1, round(length.total_seconds())))
    if whole >= timedelta(days=1):
        whole -= whole % timedelta(hours=1)
    elif whole >= timedelta(hours=1):
        whole -= whole % timedelta(minutes=1)
    return duration_words(whole // timedelta(milliseconds=1))


def _age(facts: ProblemFacts, due: Due) -> str:
    return duration_of(facts.at - due.since)


def _minutes(length: timedelta) -> str:
    return f"{length // timedelta(minutes=1)} minutes"


def _number(count: int, capped: bool) -> str:
    return f"{count:,} or more" if capped else f"{count:,}"


def _jobs(count: int, capped: bool) -> str:
    return "1 job waits" if count == 1 else f"{_number(count, capped)} jobs wait"


def _jobs_of(held: Held) -> str:
    few = f"1 job of {held.name!r} waits"
    return few if held.count == 1 else f"{_number(held.count, held.capped)} jobs of {held.name!r} wait"


def _waiting(facts: ProblemFacts, waiting: int) -> str:
    return f"; {_jobs(waiting, waiting >= facts.counted > 0)}" if waiting else ""


def _parts(gate: str) -> tuple[str, str, str]:
    """The kind, the scope and the target that the name of a gate contains."""
    kind, scope, of = (*gate.split(":"), "", "", "")[:3]
    of = of.split("=")[0].replace("%3D", "=").replace("%3A", ":").replace("%25", "%")
    return kind, scope, of


def _of(kind: str, place: Target) -> ProblemTarget:
    return ProblemTarget(
        kind,  # type: ignore[arg-type]
        place.target,
        scope=place.scope,
        key=place.key,
        value=place.value,
        queue=place.queue,
    )
