"""Problems follow from facts: the worst first, each with its target and its cure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import Paused
from mainspring.model.schedules.schedule import Pause
from mainspring.model.views.judging import duration_of, make_report
from mainspring.model.views.problems import Due, Held, LostLease, Problem, ProblemFacts, RecentFailure, ScheduleFact
from mainspring.model.views.statistics import Counts
from mainspring.model.workers import WorkerStatus

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = WorkerStatus("w", queues=("default", "mail"), handlers=("charge", "send"), concurrency=4, version="1.0")
FIVE_MINUTES = timedelta(minutes=5)


def problems(**facts: object) -> tuple[Problem, ...]:
    given = {"at": NOON, "workers": (WORKER,), "counted": 50, **facts}
    return make_report(ProblemFacts(**given)).problems  # type: ignore[arg-type]


def only(**facts: object) -> Problem:
    (problem,) = problems(**facts)
    return problem


def counts(completed: int, failed: int) -> Counts:
    return Counts(completed=completed, failed=failed)


def test_without_a_problem_the_checks_say_what_was_looked_at() -> None:
    next_one = ScheduleFact("nightly", "report", "default", NOON + FIVE_MINUTES, NOON + FIVE_MINUTES)
    report = make_report(ProblemFacts(NOON, (WORKER,), recent={"send": counts(12, 0)}, firing=(next_one,), counted=50))
    assert report.problems == ()
    assert report.checks == (
        "One worker is alive.",
        "No job is due.",
        "12 attempts ended in the last 15 minutes; none of them failed.",
        "No queue, name or schedule is paused, and no breaker is open.",
        "The next schedule fires in 5 minutes.",
    )
    assert [firing.schedule_id for firing in report.next_firings] == ["nightly"]


def test_the_worst_problem_comes_first() -> None:
    found = problems(
        due=(Due("nowhere", NOON - FIVE_MINUTES, "charge", "j"), Due("mail", NOON - FIVE_MINUTES, "send", "k")),
        recent={"charge": counts(1, 2), "send": counts(80, 20)},
        pauses=(Paused("queue", "slow", None, None, NOON, "a deploy", "ops"),),
        breakers=(BreakerStatus("name", "charge", "open", since=NOON),),
    )
    assert [(one.severity, one.kind) for one in found] == [
        ("critical", "unserved"),
        ("warning", "failing"),
        ("warning", "broken"),
        ("warning", "late"),
        ("notice", "paused"),
    ]


def test_failures_are_told_with_their_error_and_a_retry_of_its_dead_letters() -> None:
    failures = tuple(
        RecentFailure("charge", "default", "CardDeclined", NOON - timedelta(minutes=n), print)
        for n, print in ((1, "abc"), (2, "abc"), (3, "def"), (4, None))
    )
    problem = only(recent={"charge": counts(4, 12)}, failures=failures)
    assert problem.text == "12 of 16 attempts of 'charge' failed in the last 15 minutes, all with CardDeclined."
    assert (problem.severity, problem.count) == ("critical", 12)
    assert [(cure.verb, cure.target.id, cure.target.name) for cure in problem.cures] == [
        ("retry_dead_letters", "abc", "charge")
    ]


def test_a_few_failures_among_many_attempts_are_no_problem() -> None:
    assert problems(recent={"charge": counts(100, 5)}) == ()
    assert problems(recent={"charge": counts(0, 2)}) == ()


def test_a_queue_or_a_name_without_a_worker_is_told_with_the_command_that_starts_one() -> None:
    problem = only(due=(Due("nowhere", NOON - timedelta(seconds=3), "charge", "j"),))
    assert problem.text == "No live worker serves the queue 'nowhere'; its oldest job has been due for 3 seconds."
    assert problem.cures[0].command == "mainspring worker"
    problem = only(held=(Held("handler", "resize", 7, capped=False),))
    assert problem.text == "No live worker has a handler for 'resize'; 7 jobs wait for one."
    problem = only(due=(Due("mail", NOON, "resize", "j"),))
    assert problem.text == "No live worker has a handler for 'resize'; a job of it is due."


def test_no_worker_at_all_is_one_problem() -> None:
    problem = only(workers=(), due=(Due("mail", NOON - FIVE_MINUTES, "send", "j"),))
    assert (problem.severity, problem.text) == ("critical", "No worker is alive, so no jobs run.")
    assert only(workers=()).severity == "warning"


def test_a_late_job_of_a_paused_queue_is_not_late() -> None:
    due = (Due("mail", NOON - FIVE_MINUTES, "send", "j"),)
    assert only(due=due).text == "The oldest due job of the queue 'mail' has waited for 5 minutes."
    paused = (Paused("queue", "mail", None, None, NOON, "a deploy", "ops"),)
    assert [one.kind for one in problems(due=due, pauses=paused)] == ["paused"]


def test_a_pause_has_its_reason_and_is_cured_by_resuming() -> None:
    paused = Paused("name", "charge", "tenant", "acme", NOON, "a dispute", "key:1")
    problem = only(pauses=(paused,), behind={"p:name:charge:tenant=acme": 50})
    assert problem.text == "The job 'charge' with tenant 'acme' is paused; 50 or more jobs wait."
    assert (problem.reason, problem.actor, problem.capped) == ("a dispute", "key:1", True)
    (cure,) = problem.cures
    assert (cure.verb, cure.target.id, cure.target.key, cure.target.value) == ("resume", "charge", "tenant", "acme")


def test_a_breaker_is_cured_by_closing_it() -> None:
    breaker = BreakerStatus("name", "charge", "half_open", since=NOON, reason="A probe has failed.")
    problem = only(breakers=(breaker,), behind={"b:name:charge": 1})
    assert problem.text == "The breaker of the job 'charge' is half open and lets single probes start; 1 job waits."
    assert problem.cures[0].verb == "close_breaker"


def test_jobs_at_a_limit_name_the_limit() -> None:
    problem = only(held=(Held("limit", "charge", 50, capped=True, gate="r:queue:a%3Ab"),))
    assert problem.text == "50 or more jobs of 'charge' wait at the rate of the queue 'a:b'."
    assert (problem.severity, problem.target.id, problem.target.scope) == ("notice", "a:b", "queue")


def test_jobs_that_no_living_worker_can_take_are_stuck() -> None:
    lease = LostLease("j", "mail", "send", NOON - FIVE_MINUTES)
    problem = only(leases=(lease,))
    assert problem.text.startswith("One running job of the queue 'mail' has lost the worker")
    assert problems(leases=(LostLease("j", "mail", "send", NOON),)) == ()
    held = only(held=(Held("key", "charge", 1, capped=False),))
    assert held.text == "1 job of 'charge' waits for a worker that has the encryption key of the data."


def test_schedules_that_are_overdue_failed_or_paused_themselves_are_told() -> None:
    overdue = ScheduleFact("nightly", "report", "default", NOON - FIVE_MINUTES, NOON - FIVE_MINUTES)
    itself = ScheduleFact("hourly", "report", "default", pause=Pause(NOON, "3 runs failed in a row.", "mainspring"))
    by_hand = ScheduleFact("daily", "report", "default", pause=Pause(NOON, "holidays", "ops"))
    failure = RecentFailure("report", "default", "ValueError", NOON, "abc", "weekly")
    found = problems(firing=(overdue,), paused_schedules=(itself, by_hand), failures=(failure,))
    assert [(one.kind, one.target.id, one.severity) for one in found] == [
        ("schedule", "weekly", "warning"),
        ("schedule", "nightly", "warning"),
        ("schedule", "hourly", "warning"),
        ("paused", "daily", "notice"),
    ]
    assert [cure.verb for one in found for cure in one.cures] == ["resume", "resume"]


def test_workers_with_different_versions_are_told_to_a_caller_that_reaches_everything() -> None:
    other = WorkerStatus("x", handlers=("charge",), version="1.1", versions={"charge": 2})
    found = problems(workers=(WORKER, other))
    assert [one.text for one in found] == [
        "The workers have different versions of Mainspring: 1.0, 1.1.",
        "The workers have different versions of the handler 'charge': 1, 2.",
    ]
    assert problems(workers=(WORKER, other), everything=False) == ()


def test_a_length_of_time_is_told_as_exactly_as_a_reader_needs() -> None:
    assert duration_of(timedelta(milliseconds=200)) == "1 second"
    assert duration_of(timedelta(minutes=5, seconds=3)) == "5 minutes 3 seconds"
    assert duration_of(timedelta(hours=3, seconds=59)) == "3 hours"
    assert duration_of(timedelta(days=2, hours=1, minutes=5)) == "2 days 1 hour"
