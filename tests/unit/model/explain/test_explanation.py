"""The sentences of explanations: what is said of each gate, and that nothing is said that is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.explain.applicable_limits import Declared, limits_of
from mainspring.model.explain.explanation import ExplainedGate, Explanation, brief, listed, plain, span
from mainspring.model.explain.facts import (
    Before,
    Control,
    Count,
    Drain,
    ExplainFacts,
    GateState,
    InSequence,
    KnownLimit,
    RunningJob,
    TakingTurns,
)
from mainspring.model.explain.reasons import explain, state_gate
from mainspring.model.jobs.job import Job, JobError, WaitingFor
from mainspring.model.limits.limits import Gate, JobLimits, Limit, Rate, Sequence
from mainspring.model.limits.reported_limits import limits_document, limits_from_document
from mainspring.model.workers import WorkerStatus

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = Job(
    "j1", "report", {"tenant": "acme"}, "pending", "mail", 5, NOW - timedelta(seconds=30), NOW - timedelta(hours=1)
)
WORKER = WorkerStatus("host:1:a", version="0.1.0", queues=("mail",), handlers=("report",), concurrency=2, limits={})


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def soon(**length: float) -> datetime:
    return NOW + timedelta(**length)


def standing(**facts: Any) -> ExplainFacts:
    """A due job that nothing holds, but for what is said otherwise."""
    return replace(ExplainFacts(JOB, NOW, workers=(WORKER,)), **facts)


def control(kind: str, scope: str, target: str, **fields: Any) -> Control:
    return Control(f"{kind}:{scope}:{target}", kind, scope, target, fields)


def running(number: int, **fields: Any) -> RunningJob:
    job = RunningJob(f"r{number}", "report", "mail", {"tenant": "acme"}, WORKER.id, ago(seconds=10 * number))
    return replace(job, **fields)


def holding(explanation: Explanation) -> ExplainedGate:
    assert explanation.holding is not None, explanation
    return explanation.holding


def gate(explanation: Explanation, kind: str) -> ExplainedGate:
    (found,) = [gate for gate in explanation.gates if gate.kind == kind]
    return found


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (0.04, "0 s"),
        (0.4, "0.4 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (59.7, "1 min"),
        (252, "4 min 12 s"),
        (3600, "1 h"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
        (100_000_000, "1,157 d 9 h"),
    ],
)
def test_a_length_of_time_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert span(seconds) == words
    assert span(timedelta(seconds=seconds)) == words


def test_long_lists_and_texts_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert brief("one\n  two") == "one two"
    assert brief("x" * 300) == "x" * 200 + "…"


def test_an_explanation_can_be_written_as_json() -> None:
    pause = control("pause", "queue", "mail", reason="moving", actor="ops", at=ago(minutes=5))
    document = explain(standing(controls=(pause,))).to_document()
    assert json.loads(json.dumps(document)) == document
    assert document["holding"] == "queue_paused"
    assert document["job"] == {"id": "j1", "name": "report", "queue": "mail", "priority": 5, "state": "pending"}
    (paused,) = [one for one in document["gates"] if one["kind"] == "queue_paused"]
    assert paused["data"]["since"] == "2030-01-01T11:55:00Z"
    assert plain({"a": (timedelta(seconds=2), {3: object})}) == {"a": [2.0, {"3": "<class 'object'>"}]}


def test_the_gates_come_in_the_order_in_which_they_are_passed() -> None:
    limits = limits_of(JOB, (), (), Declared(JobLimits(Limit(2), Rate("5/s"))))
    breaker = control("breaker", "name", "report", state="closed")
    facts = standing(
        limits=limits,
        controls=(breaker,),
        turns=TakingTurns("f:mail:acme", "acme", "code", Count(1)),
        sequence=InSequence("report:acme", "job", True),
        gates={limits[0].gate.name: GateState(line=True)},
    )
    assert [gate.kind for gate in explain(facts).gates] == [
        *("state", "time", "queue_paused", "paused", "breaker", "worker", "handler", "fairness", "sequence"),
        *("concurrency", "line", "rate", "slots", "position"),
    ]


# -- the job itself --------------------------------------------------------------------------------------------------


def test_a_job_that_nothing_holds_is_said_to_be_free() -> None:
    explanation = explain(standing())
    assert explanation.holding is None
    assert explanation.text == str(explanation) == "Nothing holds it: a worker claims it at its next poll."
    assert all(gate.open for gate in explanation.gates)
    assert gate(explanation, "time").text == "It has been due for 30 s."


def test_a_running_job_tells_where_since_when_and_until_when() -> None:
    job = replace(JOB, state="running", worker="w", started_at=ago(seconds=72), lease_until=soon(seconds=41), tries=2)
    told = state_gate(job, NOW)
    assert told.text == (
        "It has been running for 1 min 12 s on worker w, as attempt 2; its lease lasts for another 41 s."
    )
    assert (told.open, told.data["worker"], told.data["since"]) == (False, "w", ago(seconds=72))
    asked = state_gate(replace(job, cancel_requested=True, lease_until=ago(seconds=5)), NOW)
    assert asked.text.endswith("its lease ran out 5 s ago, so it is about to be rescued. It was asked to stop.")
    waits = state_gate(replace(job, lease_until=None), NOW, ahead=True)
    assert waits.text.startswith(
        "Worker w has held it for 1 min 12 s and starts it when a slot of its own is free; it has"
    )


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ("completed", None, "It completed 5 min ago, at 2030-01-01T11:55:00Z."),
        ("failed", JobError("ValueError", "no"), "It failed 5 min ago, at 2030-01-01T11:55:00Z: ValueError: no."),
        ("cancelled", JobError("Cancelled", "typo"), "It was cancelled 5 min ago, at 2030-01-01T11:55:00Z: typo."),
        ("cancelled", None, "It was cancelled 5 min ago, at 2030-01-01T11:55:00Z."),
        ("expired", None, "It expired 5 min ago, at 2030-01-01T11:55:00Z, since no worker had started it in time."),
    ],
)
def test_an_ended_job_tells_how_and_when(state: str, error: JobError | None, text: str) -> None:
    told = state_gate(replace(JOB, state=state, error=error, finished_at=ago(minutes=5)), NOW)
    assert (told.open, told.text, told.data["finished_at"]) == (False, text, ago(minutes=5))


def test_a_job_that_is_not_due_tells_when_it_is() -> None:
    later = explain(standing(job=replace(JOB, run_at=soon(minutes=4, seconds=12))))
    assert holding(later).kind == "time"
    assert later.text == "It is due in 4 min 12 s, at 2030-01-01T12:04:12Z."
    assert holding(later).data["seconds"] == 252


def test_a_retry_tells_its_number_and_the_error_before_it() -> None:
    job = replace(JOB, run_at=soon(seconds=20), tries=2, error=JobError("OSError", "no\nroute"))
    again = explain(standing(job=job))
    assert again.text == "Retry 2 is due in 20 s, at 2030-01-01T12:00:20Z, after OSError: no route."
    assert holding(again).data["retry"] == {"number": 2, "error": "OSError: no\nroute"}


def test_a_job_that_came_too_late_is_said_to_expire() -> None:
    late = explain(standing(start_by=ago(seconds=3)))
    assert (holding(late).kind, holding(late).data["expires"]) == ("time", True)
    assert late.text == "It was to be started by 2030-01-01T11:59:57Z, 3 s ago: it is about to expire."


def test_a_blocked_job_waits_for_what_it_depends_on() -> None:
    blocked = explain(standing(job=replace(JOB, state="blocked"), ready=False))
    assert (holding(blocked).kind, blocked.text) == ("dependency", "It waits for jobs that it depends on.")


def test_a_run_that_must_not_overlap_names_the_earlier_one() -> None:
    held = WaitingFor("overlap", "waits until job s@2 of the same schedule has ended", ago(minutes=1))
    job = replace(JOB, schedule_id="s", waiting_for=held)
    waiting = explain(standing(job=job, ready=False, waits_for=("s@1", "s@2")))
    assert holding(waiting).kind == "overlap"
    assert holding(waiting).data["after"] == ["s@1", "s@2"]
    assert waiting.text == (
        "It waits until job s@2, an earlier run of the schedule s, has ended; 1 other run is before that one."
    )
    unknown = explain(standing(job=job, ready=False))
    assert unknown.text == "It waits until job s@2 of the same schedule has ended."


def test_an_insert_that_nobody_has_taken_up_says_so() -> None:
    job = replace(JOB, run_at=None)  # type: ignore[arg-type]
    raw = explain(standing(job=job, ready=False, adopted=False, workers=()))
    assert holding(raw).kind == "state"
    assert raw.text.startswith("Another program inserted it, and no worker has adopted it yet.")


def test_a_job_that_is_held_for_another_reason_gives_its_note() -> None:
    held = replace(JOB, waiting_for=WaitingFor("audit", "being looked at", ago(hours=2)))
    told = explain(standing(job=held, ready=False))
    assert (holding(told).kind, told.text) == ("withheld", "It has been held for 2 h by audit: being looked at.")
    lost = explain(standing(ready=False))
    assert lost.text == "It is not marked as ready, and nothing says why: no worker sees it."


# -- what was shut ---------------------------------------------------------------------------------------------------


def test_a_paused_queue_tells_by_whom_why_and_since_when() -> None:
    pause = control("pause", "queue", "mail", reason="moving the database", actor="ops", at=ago(minutes=12))
    paused = explain(standing(controls=(pause,)))
    assert paused.text == "The queue 'mail' has been paused for 12 min by ops: moving the database."
    assert holding(paused).data == {
        "control": "pause:queue:mail",
        "scope": "queue",
        "target": "mail",
        "actor": "ops",
        "reason": "moving the database",
        "since": ago(minutes=12),
    }


def test_a_pause_without_reason_or_actor_makes_none_up() -> None:
    paused = explain(standing(controls=(control("pause", "name", "report", at=ago(seconds=7)),)))
    assert (holding(paused).kind, paused.text) == ("paused", "Jobs of 'report' have been paused for 7 s.")


def test_a_paused_key_is_named() -> None:
    pause = control("pause", "name", "report", key="tenant", value="acme", at=ago(minutes=1), reason="debts")
    paused = explain(standing(controls=(pause,)))
    assert paused.text == "Jobs of 'report' with tenant=acme have been paused for 1 min: debts."
    assert (holding(paused).kind, holding(paused).data["value"]) == ("paused", "acme")
    of_queue = explain(standing(controls=(control("pause", "queue", "mail", key="tenant", value=7),)))
    assert (holding(of_queue).kind, of_queue.text) == (
        "paused",
        "Jobs of the queue 'mail' with tenant=7 have been paused.",
    )


def test_an_open_breaker_tells_its_errors_and_when_it_lets_a_probe_through() -> None:
    why = "6 of the last 10 attempts have failed, within 60 s."
    facts = {
        "state": "open",
        "open_until": soon(seconds=18),
        "good": 4,
        "bad": 6,
        "reason": why,
        "since": ago(seconds=12),
    }
    opened = explain(standing(controls=(control("breaker", "name", "report", **facts),)))
    assert opened.text == (
        "The breaker of jobs of 'report' is open, and lets a first job through in 18 s, at 2030-01-01T12:00:18Z: " + why
    )
    assert holding(opened).data["error_rate"] == 0.6
    by_hand = control("breaker", "queue", "mail", state="open", actor="ops")
    assert explain(standing(controls=(by_hand,))).text == (
        "The breaker of jobs of the queue 'mail' was opened by ops, until an operator closes it."
    )


def test_a_half_open_breaker_lets_one_probe_through() -> None:
    breaker = control("breaker", "name", "report", state="half_open")
    free = explain(standing(controls=(breaker,)))
    assert gate(free, "breaker").open and free.holding is None
    busy = explain(standing(controls=(breaker,), gates={"b:name:report": GateState({"w": 1})}))
    assert busy.text == (
        "The breaker of jobs of 'report' is half open: one job at a time is let through as a probe, and one is under "
        "way."
    )
    closed = explain(standing(controls=(control("breaker", "name", "report", state="closed", good=9, bad=1),)))
    assert gate(closed, "breaker").text == (
        "The breaker of jobs of 'report' is closed, and lets jobs pass; 1 of 10 recent attempts have failed."
    )


# -- the workers -----------------------------------------------------------------------------------------------------


def test_a_queue_that_no_worker_serves_is_named_with_those_that_are_served() -> None:
    others = WorkerStatus(
        "b",
        version="0.1.0",
        queues=(
            "default",
            "reports",
        ),
        concurrency=4,
        limits={},
    )
    nobody = explain(standing(workers=(others,)))
    assert holding(nobody).kind == "worker"
    assert nobody.text == "No live worker serves the queue 'mail'; 1 worker serves others: default, reports."
    assert holding(nobody).data["workers"][0]["worker"] == "b"
    assert gate(nobody, "handler").open
    dead = explain(standing(workers=()))
    assert dead.text == "No worker is alive. No live worker has a handler for 'report'."


def test_a_missing_handler_tells_who_has_one_and_in_which_version() -> None:
    here = WorkerStatus("a", version="0.1.0", handlers=("other",), concurrency=4, limits={})
    there = WorkerStatus("b", version="0.2.0", queues=("x",), handlers=("report",), concurrency=4, limits={})
    nobody = explain(standing(workers=(here, there)))
    assert nobody.text == (
        "No live worker that serves the queue 'mail' has a handler for 'report'. "
        "Worker b (version 0.2.0) has a handler for 'report', but serves x."
    )
    assert holding(nobody).kind == "handler"
    assert [one["version"] for one in holding(nobody).data["elsewhere"]] == ["0.2.0"]


def test_a_job_held_for_a_handler_tells_when_somebody_has_one_by_now() -> None:
    note = "No live worker that serves the queue 'mail' has a handler for 'report'."
    job = replace(JOB, waiting_for=WaitingFor("handler", note, ago(minutes=1)))
    here = replace(WORKER, handlers=("other",))
    assert explain(standing(job=job, ready=False, workers=(here,))).text == f"{note} It has been held for 1 min."
    found = explain(standing(job=job, ready=False))
    assert (holding(found).kind, found.text) == (
        "handler",
        "Worker host:1:a (version 0.1.0) has a handler for 'report'. It was held when no worker had one, and is put "
        "back within about 15 s.",
    )


def test_busy_slots_are_counted_of_those_workers_that_could_run_it() -> None:
    other = WorkerStatus("other", version="0.1.0", queues=("x",), concurrency=9, limits={})
    two = (running(1), running(2), running(3, ahead=True), running(4, worker="other"))
    busy = explain(standing(workers=(WORKER, other), running=two))
    assert busy.text == "All 2 slots of worker host:1:a that could run it are busy."
    assert (holding(busy).data["slots"], holding(busy).data["busy"]) == (2, 2)
    free = explain(standing(workers=(WORKER, replace(WORKER, id="c")), running=two))
    assert gate(free, "slots").text == "2 of 4 slots of the 2 workers that could run it are busy."
    ahead = explain(standing(running=(running(1), running(2, ahead=True))))
    assert gate(ahead, "slots").data["busy"] == 1
    unsure = explain(standing(running=two[:1], running_over=True))
    assert gate(unsure, "slots").text == "At least 1 of 2 slots of worker host:1:a that could run it is busy."


# -- limits ----------------------------------------------------------------------------------------------------------


def limited(rule: Limit | Rate, **fields: Any) -> KnownLimit:
    allowance = JobLimits(rule) if isinstance(rule, Limit) else JobLimits(rate=rule)
    gate: Gate = allowance.gates("name", "report", JOB.queue, JOB.data)[0]
    return replace(KnownLimit("name", "report", gate, "code"), **fields)


def test_a_limit_that_is_reached_names_its_holders_the_longest_first() -> None:
    state = GateState({WORKER.id: 2}, line=True)
    facts = standing(
        limits=(limited(Limit(2)),),
        gates={"c:name:report": state},
        places={"c:name:report": Count(13)},
        running=(running(1), running(2), running(3, name="other"), running(4, worker="without-slots")),
        workers=(replace(WORKER, concurrency=9),),
    )
    full = explain(facts)
    assert full.text == (
        "2 of the 2 slots for jobs of 'report' are taken, the longest for 20 s by job r2 on worker host:1:a. "
        "13 jobs are before it in the line for jobs of 'report'."
    )
    data = holding(full).data
    assert (data["limit"], data["taken"], data["source"], data["gate"]) == (2, 2, "code", "c:name:report")
    assert [(one["job"], one["seconds"]) for one in data["holders"]] == [("r2", 20.0), ("r1", 10.0)]
    assert data["workers"] == [{"worker": WORKER.id, "slots": 2, "jobs": 2, "alive": True}]


def test_holders_are_those_of_the_same_key_and_no_more_than_ten() -> None:
    many = [running(n) for n in range(1, 13)] + [running(99, data={"tenant": "other"})]
    state = GateState({WORKER.id: 12})
    limit = limited(Limit(12, key="tenant"))
    full = explain(standing(limits=(limit,), gates={limit.gate.name: state}, running=tuple(many)))
    told = gate(full, "concurrency")
    assert limit.gate.name == "c:name:report:tenant=acme"
    assert "12 of the 12 slots for jobs of 'report' with tenant=acme are taken" in told.text
    assert ([one["job"] for one in told.data["holders"]], told.data["more_holders"]) == (
        [f"r{n}" for n in range(12, 2, -1)],
        2,
    )


def test_slots_that_a_worker_has_taken_and_does_not_use_are_room_for_its_own_jobs() -> None:
    state = {"c:name:report": GateState({WORKER.id: 2})}
    spare = explain(standing(limits=(limited(Limit(2)),), gates=state, running=(running(1),)))
    assert gate(spare, "concurrency").text == (
        "2 of the 2 slots for jobs of 'report' are taken, but worker host:1:a has one to spare."
    )
    assert gate(spare, "concurrency").open
    unsure = explain(standing(limits=(limited(Limit(2)),), gates=state, running=(running(1),), running_over=True))
    assert holding(unsure).kind == "concurrency"
    elsewhere = {"c:name:report": GateState({"far": 2})}
    far = explain(standing(limits=(limited(Limit(2)),), gates=elsewhere, running=(running(1, worker="far"),)))
    assert holding(far).kind == "concurrency"


def test_slots_of_a_worker_that_is_gone_are_said_to_be_so() -> None:
    gone = explain(standing(limits=(limited(Limit(1)),), gates={"c:name:report": GateState({"dead": 1})}))
    assert gone.text == (
        "The only slot for jobs of 'report' is taken by worker dead, which is dead: its slots are free when its lease "
        "has run out."
    )
    assert holding(gone).data["workers"][0]["alive"] is False


def test_an_overridden_limit_says_who_set_it() -> None:
    override = control("limit", "name", "report", concurrency={"limit": 1}, actor="ops", reason="slow", at=ago(hours=1))
    limits = limits_of(JOB, (override,), (), Declared(JobLimits(Limit(9))))
    full = explain(standing(limits=limits, gates={"c:name:report": GateState({WORKER.id: 1})}, running=(running(1),)))
    assert full.text == (
        "The only slot set at run time by ops for jobs of 'report' is taken for 10 s by job r1 on worker host:1:a."
    )
    assert (holding(full).data["source"], holding(full).data["reason"]) == ("override", "slow")


def test_a_rate_that_is_used_up_tells_when_the_next_start_is_earned() -> None:
    rate = limited(Rate("60/minute"))
    state = {"r:name:report": GateState(tokens=0.25, at=ago(seconds=0.25))}
    used = explain(standing(limits=(rate,), gates=state))
    assert used.text == (
        "The starts of jobs of 'report' are used up: 60 in 1 min are allowed, and the next one is earned in 0.5 s."
    )
    assert (holding(used).kind, holding(used).data["left"]) == ("rate", 0)
    assert holding(used).data["next_at"] == soon(seconds=0.5)
    later = explain(standing(limits=(rate,), gates={"r:name:report": GateState(tokens=0.25, at=ago(seconds=7))}))
    assert gate(later, "rate").text == "7 starts of jobs of 'report' are left; 60 in 1 min are allowed."
    assert gate(explain(standing(limits=(rate,))), "rate").data["left"] == 60


def test_a_job_that_costs_more_waits_for_all_of_it() -> None:
    rate = limited(Rate("10/s", weight=5))
    used = explain(standing(limits=(rate,), gates={"r:name:report": GateState(tokens=1.0, at=NOW)}))
    assert used.text == (
        "It costs 5 starts of jobs of 'report', and 1 is left: 10 in 1 s are allowed, and enough of them are earned "
        "in 0.4 s."
    )


def test_a_line_that_nobody_tells_of_is_explained_by_what_the_job_says() -> None:
    held = WaitingFor("limit", "At most 2 jobs of 'report' run at once, and as many are running.", ago(minutes=3))
    state = GateState({"far": 2}, limit=2, line=True)
    name = "c:name:report"
    lost = explain(
        standing(
            job=replace(JOB, waiting_for=held), ready=False, line=name, gates={name: state}, places={name: Count(1)}
        )
    )
    assert holding(lost).kind == "concurrency"
    assert lost.text == (
        "It has been in the line for jobs of 'report' for 3 min, where 1 job is before it: At most 2 jobs of 'report' "
        "run at once, and as many are running. Neither a live worker nor this process declares that limit."
    )
    assert (holding(lost).data["source"], holding(lost).data["limit"], holding(lost).data["taken"]) == ("job", 2, 2)


def test_a_pause_that_is_over_is_not_said_to_last() -> None:
    job = replace(JOB, waiting_for=WaitingFor("limit", "The queue 'mail' is paused by ops.", ago(seconds=9)))
    over = explain(standing(job=job, ready=False, line="p:queue:mail"))
    assert holding(over).kind == "paused"
    assert over.text.endswith("the pause is over, and workers are about to let it go on.")


# -- who knows of a limit --------------------------------------------------------------------------------------------


def worker_with(id: str, allowance: JobLimits | None) -> WorkerStatus:
    return replace(WORKER, id=id, limits={} if allowance is None else {("name", "report"): allowance})


def test_workers_that_could_run_the_job_know_better_than_this_process() -> None:
    workers = (worker_with("a", JobLimits(Limit(3))),)
    (limit,) = limits_of(JOB, (), workers, Declared(JobLimits(Limit(9))))
    assert (limit.rule, limit.source, limit.without) == (Limit(3), "workers", 0)


def test_this_process_tells_where_no_worker_could_run_the_job() -> None:
    elsewhere = (replace(worker_with("a", JobLimits(Limit(3))), queues=("x",)),)
    (limit,) = limits_of(JOB, (), elsewhere, Declared(JobLimits(Limit(9))))
    assert (limit.rule, limit.source) == (Limit(9), "code")
    (limit,) = limits_of(JOB, (), elsewhere, Declared())
    assert (limit.rule, limit.source) == (Limit(3), "workers")
    assert limits_of(JOB, (), (), Declared()) == ()


def test_where_workers_disagree_the_most_generous_one_decides() -> None:
    workers = (worker_with("a", JobLimits(Limit(3))), worker_with("b", JobLimits(Limit(5))), worker_with("c", None))
    (limit,) = limits_of(JOB, (), workers, Declared())
    assert (limit.rule, limit.others, limit.without) == (Limit(5), (Limit(3),), 1)
    state = {"c:name:report": GateState({"far": 5}, line=True)}
    facts = standing(workers=workers, limits=(limit,), gates=state)
    told = gate(explain(facts), "concurrency")
    assert told.open and told.text.endswith(", but 1 worker that could run it knows nothing of this limit.")
    assert told.data["others"] == [{"limit": 3}]
    in_line = gate(explain(replace(facts, line="c:name:report", ready=False)), "concurrency")
    assert not in_line.open


@pytest.mark.parametrize(
    "allowance",
    [
        JobLimits(Limit(3)),
        JobLimits(Limit(3, key="user.tenant"), Rate("100/minute", key="tenant", smooth=True)),
        JobLimits(rate=Rate("5/31 days", weight="pages"), fair="tenant"),
        JobLimits(sequence=Sequence("order", on_failure="pass")),
    ],
)
def test_what_a_worker_tells_of_its_limits_is_understood_by_others(allowance: JobLimits) -> None:
    told = limits_document("name", "report", allowance)
    assert json.loads(json.dumps(told)) == told
    assert limits_from_document(told) == allowance


def test_an_override_wins_only_for_what_it_gives() -> None:
    override = control("limit", "queue", "mail", rate=Rate("5/s").to_document())
    limits = limits_of(JOB, (override,), (), Declared(None, JobLimits(Limit(2), Rate("100/s"))))
    assert [(limit.rule, limit.source) for limit in limits] == [(Limit(2), "code"), (Rate("5/s"), "override")]


# -- order -----------------------------------------------------------------------------------------------------------


def test_a_sequence_names_the_job_that_has_to_end_first() -> None:
    first = Before("j0", "running", worker="w")
    later = explain(standing(sequence=InSequence("report:acme", "job", True, first, Count(4))))
    assert holding(later).kind == "sequence"
    assert later.text == (
        "In the sequence report:acme, job j0 has to end first; it is running on worker w; 4 jobs are before it."
    )
    failed = Before("j0", "failed", error="ValueError: no")
    stuck = explain(standing(sequence=InSequence("report:acme", "job", True, failed, Count(1))))
    assert stuck.text == (
        "In the sequence report:acme, job j0 has to end first; it has failed (ValueError: no), and blocks the others "
        "until it is retried or deleted."
    )
    waits = Before("j0", "pending", run_at=soon(minutes=2))
    assert "it is due in 2 min" in explain(standing(sequence=InSequence("q", "job", True, waits, Count(1)))).text
    own = explain(standing(sequence=InSequence("q", "job", True, Before("j1", "pending"))))
    assert own.holding is None and Sequence("tenant").of("report", JOB.data) == "report:acme"


def test_keys_that_take_turns_tell_the_place_in_the_line() -> None:
    turns = TakingTurns("f:mail:acme", "acme", "workers", Count(12), least=3)
    state = {"f:mail:acme": GateState(line=True, served=3)}
    before = explain(standing(turns=turns, gates=state, places={"f:mail:acme": Count(7)}))
    assert holding(before).kind == "fairness"
    assert before.text == (
        "Keys of the queue 'mail' take turns, and 12 keys are waiting; 7 jobs are before it in the line of 'acme'."
    )
    later = explain(standing(turns=turns, gates={"f:mail:acme": GateState(line=True, served=40)}))
    assert later.holding is None
    assert gate(later, "fairness").text.endswith(
        "; it is the first in the line of 'acme', which was served 40 times, another key 3 times."
    )
    assert gate(explain(standing(turns=turns, gates=state)), "fairness").text.endswith(
        "the first in the line of 'acme'."
    )


# -- the queue -------------------------------------------------------------------------------------------------------


def test_a_position_is_estimated_from_the_rate_at_which_the_queue_was_drained() -> None:
    behind = explain(standing(before=Count(37), drain=Drain(600, 60.0)))
    assert holding(behind).kind == "position"
    assert behind.text == (
        "37 jobs are before it in the queue 'mail' and could run; at the rate of the last 1 min, in which 600 jobs of "
        "it ended, that takes about 3.7 s."
    )
    assert holding(behind).data["estimate_seconds"] == pytest.approx(3.7)


def test_no_rate_no_estimate() -> None:
    behind = explain(standing(before=Count(1)))
    assert behind.text == "1 job is before it in the queue 'mail' and could run."
    assert holding(behind).data == {"queue": "mail", "before": {"count": 1, "over": False}}
    assert explain(standing(before=Count(1), drain=Drain(0, 60.0))).text == behind.text


def test_nothing_is_estimated_for_a_job_that_something_else_holds() -> None:
    pause = control("pause", "queue", "mail", at=ago(seconds=1))
    paused = explain(standing(controls=(pause,), before=Count(37), drain=Drain(600, 60.0)))
    assert "estimate_seconds" not in gate(paused, "position").data
    busy = explain(standing(running=(running(1), running(2)), before=Count(37), drain=Drain(600, 60.0)))
    assert holding(busy).kind == "slots" and "estimate_seconds" in gate(busy, "position").data


def test_what_was_counted_up_to_a_bound_says_so() -> None:
    behind = explain(standing(before=Count(10_000, over=True), drain=Drain(600, 60.0)))
    assert behind.text.startswith("Over 10,000 jobs are before it")
    assert "that takes more than 16 min 40 s" in behind.text


def test_several_gates_that_hold_it_are_told_in_a_few_words() -> None:
    pause = control("pause", "queue", "mail", at=ago(seconds=1))
    held = explain(standing(controls=(pause,), job=replace(JOB, run_at=soon(hours=1)), workers=()))
    assert held.text == (
        "It is due in 1 h, at 2030-01-01T13:00:00Z. Also in its way: its queue is paused, no worker serves its queue, "
        "no worker has its handler."
    )
