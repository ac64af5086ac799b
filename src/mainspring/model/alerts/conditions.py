"""The conditions of alert rules: the subjects for which one holds, from the facts of the overview. Pure.

`engine/alerts/facts.py` reads the facts that a kind of rule needs, within the scope of the rule. A subject's key stays
the same while the problem lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mainspring.model.alerts.episode import MOST_SUBJECTS, Finding
from mainspring.model.alerts.rule import BREAKER_OPEN, DEAD_LETTERS, NO_WORKER, QUEUE_LATE, SCHEDULE_MISSED, AlertRule
from mainspring.model.limits.breaker import HALF_OPEN
from mainspring.model.limits.controls import breaker_gate, breaker_target
from mainspring.model.limits.limits import QUEUE
from mainspring.model.views.judging import duration_of, find_unserved, late_text
from mainspring.model.views.problems import ProblemFacts


def find_subjects(rule: AlertRule, facts: ProblemFacts) -> list[Finding]:
    """The subjects for which the condition of a rule holds now."""
    found = {
        DEAD_LETTERS: _dead_letters,
        SCHEDULE_MISSED: _missed_schedules,
        QUEUE_LATE: _late_queues,
        NO_WORKER: _unserved,
        BREAKER_OPEN: _open_breakers,
    }[rule.kind](rule, facts)
    return list(found)[:MOST_SUBJECTS]


def _dead_letters(rule: AlertRule, facts: ProblemFacts) -> Iterator[Finding]:
    """The causes of dead letters: each fingerprint with enough of them in the time of the rule."""
    for one in facts.causes:
        if one.count >= rule.threshold:
            jobs = "A job" if one.count == 1 else f"{one.count} jobs"
            error = f"{one.error}: {one.message}" if one.message else one.error
            text = f"{jobs} of {one.name!r} in the queue {one.queue!r} failed for good, the last with {error}"
            yield Finding(f"error:{one.fingerprint}", text, one.since)


def _missed_schedules(rule: AlertRule, facts: ProblemFacts) -> Iterator[Finding]:
    for one in facts.firing:
        if one.due is not None and facts.at - one.due >= timedelta(seconds=rule.after):
            text = f"The schedule {one.id!r} should have fired {duration_of(facts.at - one.due)} ago."
            yield Finding(f"schedule:{one.id}", text, one.due)


def _late_queues(rule: AlertRule, facts: ProblemFacts) -> Iterator[Finding]:
    paused = {one.target for one in facts.pauses if one.scope == QUEUE and one.key is None}
    for due in facts.due:
        if due.queue not in paused and facts.at - due.since >= timedelta(seconds=rule.after):
            yield Finding(f"queue:{due.queue}", late_text(due, facts.at), due.since)


def _unserved(rule: AlertRule, facts: ProblemFacts) -> Iterator[Finding]:
    """The queues of the rule that no live worker serves; without queues, the problems of the overview."""
    if rule.scope.queues is not None:
        for queue in rule.scope.queues:
            if not any(worker.serves(queue) for worker in facts.workers):
                yield Finding(f"queue:{queue}", f"No live worker serves the queue {queue!r}.")
        return
    for problem in find_unserved(facts):
        yield Finding(f"{problem.target.kind}:{problem.target.id}", problem.text)


def _open_breakers(rule: AlertRule, facts: ProblemFacts) -> Iterator[Finding]:
    for breaker in facts.breakers:
        place = breaker_target(breaker)
        since = breaker.since
        if since is None or facts.at - since >= timedelta(seconds=rule.after):
            state = "half open" if breaker.state == HALF_OPEN else "open"
            # An operator's reason is for readers without a scope only, as everywhere.
            because = f": {breaker.reason}" if breaker.reason and rule.scope.everything else "."
            yield Finding(breaker_gate(place), f"The breaker of the {place.words} is {state}{because}", since)
