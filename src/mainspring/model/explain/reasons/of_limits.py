"""The gates of limits, rates and wait lists, and a job's position in its queue. Pure.

The text about a limit comes from its rule, from the stored state of its gate, and from the jobs that run now.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import floor

from mainspring.model.explain.explanation import (
    BREAKER,
    CONCURRENCY,
    FAIRNESS,
    LINE,
    PAUSED,
    POSITION,
    RATE,
    SEQUENCE,
    ExplainedGate,
    are,
    listed,
    plural,
    sentence,
    span,
)
from mainspring.model.explain.facts import ExplainFacts, GateState, KnownLimit, RunningJob
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import HALF_OPEN, OPEN
from mainspring.model.limits.controls import BREAKER as BREAKER_CONTROL
from mainspring.model.limits.controls import PAUSE, breaker_gate
from mainspring.model.limits.controls import PAUSED as PAUSED_GATE
from mainspring.model.limits.data_paths import value_at, value_text
from mainspring.model.limits.gate_words import jobs_at
from mainspring.model.limits.limits import NAME, Limit, Rate, gate_name
from mainspring.model.limits.limits import SEQUENCE as IN_SEQUENCE

_SHOWN = 10
_KIND = {"c": CONCURRENCY, "r": RATE, "s": SEQUENCE, "f": FAIRNESS, "p": PAUSED, "b": BREAKER}
_OVER = {
    "p": "the pause is over, and workers are about to let it go on",
    "b": "the breaker has closed, and workers are about to let it go on",
}


def limit_gates(facts: ExplainFacts) -> list[ExplainedGate]:
    """The gates of limits, each followed by its wait list where there is one."""
    found: list[ExplainedGate] = []
    for limit in facts.limits:
        name, rule, state = limit.gate.name, limit.rule, facts.gate(limit.gate.name)
        if isinstance(rule, Limit):
            found.append(_slots(facts, limit, rule, state))
        else:
            found.append(_starts(facts, limit, rule, state))
        if state.line or facts.line == name:
            found.append(_line(facts, name, whom(limit, facts)))
    return found


def whom(limit: KnownLimit, facts: ExplainFacts) -> str:
    """The jobs that a limit is for, in words: jobs of 'report' with tenant=acme."""
    jobs = f"jobs of {limit.target!r}" if limit.scope == NAME else f"jobs of the queue {limit.target!r}"
    key = limit.rule.key
    jobs += f" in the queue {facts.job.queue!r}" if limit.rule.each_queue else ""
    return jobs if key is None else f"{jobs} with {key}={value_text(value_at(facts.job.data, key))}"


def _about(limit: KnownLimit, facts: ExplainFacts) -> Fields:
    """The facts of a limit, and their source."""
    data: Fields = {
        "gate": limit.gate.name,
        "scope": limit.scope,
        "target": limit.target,
        "rule": limit.rule.to_document(),
        "source": limit.source,
    }
    if limit.rule.key is not None:
        data |= {"key": limit.rule.key, "value": value_text(value_at(facts.job.data, limit.rule.key))}
    if limit.rule.each_queue:
        data["queue"] = facts.job.queue
    if limit.override is not None:
        data |= {"actor": limit.override.actor, "reason": limit.override.reason, "since": limit.override.instant("at")}
    if limit.others:
        data["others"] = [rule.to_document() for rule in limit.others]
    if limit.without:
        data["without"] = limit.without
    return data


def _passes_elsewhere(facts: ExplainFacts, limit: KnownLimit) -> bool:
    """Whether a worker that could run the job does not have this limit, and finds the job without its wait list."""
    return limit.without > 0 and facts.line != limit.gate.name


def _origin(limit: KnownLimit) -> str:
    if limit.override is None:
        return ""
    return " set at run time" + ("" if limit.override.actor is None else f" by {limit.override.actor}")


# -- slots -----------------------------------------------------------------------------------------------------------


def _slots(facts: ExplainFacts, limit: KnownLimit, rule: Limit, state: GateState) -> ExplainedGate:
    holders = _holders(facts, limit, state)
    spare = _spare(facts, state, holders)
    opened = state.taken < rule.limit or spare is not None or _passes_elsewhere(facts, limit)
    shown = [one for one in holders if not one.hidden][:_SHOWN]
    data = _about(limit, facts) | {
        "limit": rule.limit,
        "taken": state.taken,
        "holders": [_holder(one, facts) for one in shown],
        "more_holders": len(holders) - len(shown),
        "workers": _takers(facts, state, holders),
    }
    only = rule.limit == 1 and state.taken <= 1
    slots = "The only slot" if only else f"{state.taken} of the {plural(rule.limit, 'slot')}"
    text = f"{slots}{_origin(limit)} for {whom(limit, facts)} {are(1 if only else state.taken)} "
    text += "free" if only and not state.taken else "taken"
    if not opened:
        text += _by_whom(facts, state, holders)
    elif state.taken >= rule.limit:
        text += f", but worker {spare} has one to spare" if spare is not None else _unlimited(limit)
    return ExplainedGate(CONCURRENCY, opened, f"{text}.", data)


def _spare(facts: ExplainFacts, state: GateState, holders: list[RunningJob]) -> str | None:
    """A worker that could run the job and has taken a slot that it does not use, as far as the facts show."""
    used = Counter(holder.worker for holder in holders)
    if facts.running_over:
        return None
    return next((worker.id for worker in facts.able if state.grants.get(worker.id, 0) > used[worker.id]), None)


def _unlimited(limit: KnownLimit) -> str:
    knows = "know" if limit.without > 1 else "knows"
    return f", but {plural(limit.without, 'worker')} that could run it {knows} nothing of this limit"


def _holders(facts: ExplainFacts, limit: KnownLimit, state: GateState) -> list[RunningJob]:
    """The running jobs that have a slot of this gate, the longest running first."""
    found = [
        running
        for running in facts.running
        if running.worker in state.grants and _gate_of(running, limit) == limit.gate.name
    ]
    return sorted(found, key=lambda running: running.since or facts.now)


def _gate_of(running: RunningJob, limit: KnownLimit) -> str | None:
    """The gate of this kind that a running job has passed."""
    target = running.name if limit.scope == NAME else running.queue
    if target != limit.target:
        return None
    return gate_name(limit.gate.name[0], limit.scope, limit.target, limit.rule, running.queue, running.data)


def _holder(running: RunningJob, facts: ExplainFacts) -> Fields:
    seconds = None if running.since is None else (facts.now - running.since).total_seconds()
    return {
        "job": running.id,
        "name": running.name,
        "worker": running.worker,
        "since": running.since,
        "seconds": seconds,
    }


def _takers(facts: ExplainFacts, state: GateState, holders: list[RunningJob]) -> list[Fields]:
    used, live = Counter(holder.worker for holder in holders), {worker.id for worker in facts.workers}
    return [
        {"worker": worker, "slots": slots, "jobs": used[worker], "alive": worker in live}
        for worker, slots in list(state.grants.items())[:_SHOWN]
    ]


def _by_whom(facts: ExplainFacts, state: GateState, holders: list[RunningJob]) -> str:
    if holders:
        first = holders[0]
        since = "" if first.since is None else f" for {span(facts.now - first.since)}"
        longest = ", the longest" if len(holders) > 1 else ""
        who = "a job out of reach" if first.hidden else f"job {first.id} on worker {first.worker}"
        return f"{longest}{since} by {who}"
    live = {worker.id for worker in facts.workers}
    gone = [worker for worker in state.grants if worker not in live]
    if gone:
        return f" by worker {listed(gone)}, which is dead: its slots are free when its lease has run out"
    return f" by worker {listed(list(state.grants))}, though none of the running jobs that were read needs it"


# -- rates -----------------------------------------------------------------------------------------------------------


def _starts(facts: ExplainFacts, limit: KnownLimit, rule: Rate, state: GateState) -> ExplainedGate:
    tokens = _tokens(facts, rule, state)
    left, cost = max(0, floor(tokens)), limit.gate.cost
    opened = left >= cost or _passes_elsewhere(facts, limit)
    data = _about(limit, facts) | {"left": left, "cost": cost, "next_at": None, "seconds": None}
    allowed = f"{rule.count:,} in {span(rule.per)}"
    if left >= cost:
        text = f"{plural(left, 'start')} of {whom(limit, facts)} {are(left)} left; {allowed} are allowed"
        return ExplainedGate(RATE, True, f"{text}{_origin(limit)}.", data)
    wait = timedelta(seconds=(cost - tokens) / rule.per_second)
    data |= {"next_at": facts.now + wait, "seconds": wait.total_seconds()}
    if opened:
        text = f"The starts of {whom(limit, facts)} are used up, but {plural(limit.without, 'worker')} that could run "
        return ExplainedGate(RATE, True, f"{text}it knows nothing of this rate.", data)
    text = f"The starts of {whom(limit, facts)} are used up: {allowed} are allowed{_origin(limit)}, and the next one "
    if cost > 1:
        text = f"It costs {cost} starts of {whom(limit, facts)}, and {left} {are(left)} left: {allowed} are allowed"
        text += f"{_origin(limit)}, and enough of them "
    return ExplainedGate(RATE, False, f"{text}{'are' if cost > 1 else 'is'} earned in {span(wait)}.", data)


def _tokens(facts: ExplainFacts, rule: Rate, state: GateState) -> float:
    """The tokens that are left now: the stored ones, and those earned since then."""
    if state.tokens is None or state.at is None:
        return rule.burst
    earned = max(0.0, (facts.now - state.at).total_seconds()) * rule.per_second
    return min(float(rule.burst), state.tokens + earned)


# -- wait lists ------------------------------------------------------------------------------------------------------


def _line(facts: ExplainFacts, name: str, jobs: str) -> ExplainedGate:
    before, inside = facts.place(name), facts.line == name
    data: Fields = {"gate": name, "before": before.to_document(), "in_line": inside}
    if inside and facts.job.waiting_for is not None:
        data["since"] = facts.job.waiting_for.since
    text = f"{before.of('job')} before it" if before else "No job is before it"
    return ExplainedGate(LINE, not before, sentence(f"{text} in the line for {jobs}"), data)


def unknown_line_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """The wait list that a job is on, where no other gate mentions it.

    A limit may be declared by a process that does not report it, or be gone from the code; a pause may just be over.
    """
    name = facts.line
    if name is None or name in _spoken_of(facts):
        return None
    kind, held, state, before = (
        name.partition(":")[0],
        facts.job.waiting_for,
        facts.gate(name),
        facts.place(name),
    )
    data = {
        "gate": name,
        "source": "job",
        "note": "" if held is None else held.note,
        "since": None if held is None else held.since,
        "before": before.to_document(),
        "limit": state.limit,
        "taken": state.taken,
        "workers": _takers(facts, state, []),
    }
    since = "" if held is None or held.since is None else f" for {span(facts.now - held.since)}"
    text = f"It has been in the line for {jobs_at(name)}{since}, where {before.of('job')} before it"
    if kind in _OVER:
        return ExplainedGate(_KIND[kind], False, f"{text}; {_OVER[kind]}.", data)
    text = sentence(f"{text}: {held.note if held is not None and held.note else 'nothing says why'}")
    return ExplainedGate(
        _KIND.get(kind, LINE), False, f"{text} Neither a live worker nor this process declares that limit.", data
    )


def _spoken_of(facts: ExplainFacts) -> set[str]:
    """The wait lists that the other gates mention."""
    names = {limit.gate.name for limit in facts.limits}
    if facts.turns is not None:
        names.add(facts.turns.gate)
    if facts.sequence is not None:
        names.add(f"{IN_SEQUENCE}:{facts.sequence.name}")
    for control in facts.controls:
        if control.kind == PAUSE:
            names.add(f"{PAUSED_GATE}:{control.aim.path}")
        elif control.kind == BREAKER_CONTROL and control.document.get("state") in (OPEN, HALF_OPEN):
            names.add(breaker_gate(control.aim))
    return names


# -- the queue -------------------------------------------------------------------------------------------------------


def position_gate(facts: ExplainFacts, *, alone: bool) -> ExplainedGate:
    """The number of jobs of its queue that are before it and could run.

    `alone`: no gate but these jobs and busy slots is before it, so that the queue's throughput allows an estimate of
    its wait.
    """
    queue, before, drain = facts.job.queue, facts.before, facts.drain
    data: Fields = {"queue": queue, "before": before.to_document()}
    if not before:
        return ExplainedGate(POSITION, True, f"No job that could run is before it in the queue {queue!r}.", data)
    text = f"{before.of('job')} before it in the queue {queue!r} and could run"
    if alone and drain is not None and drain.jobs:
        wait = before.number / drain.per_second
        data |= {"drain": {"jobs": drain.jobs, "seconds": drain.seconds}, "estimate_seconds": wait}
        text += f"; at the rate of the last {span(drain.seconds)}, in which {plural(drain.jobs, 'job')} of it ended, "
        text += f"that takes {'more than' if before.over else 'about'} {span(wait)}"
    return ExplainedGate(POSITION, False, sentence(text), data)
