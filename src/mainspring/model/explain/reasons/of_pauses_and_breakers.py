"""The gates that were closed at run time: pauses, and breakers that have opened. Pure."""

from __future__ import annotations

from datetime import datetime

from mainspring.model.explain.explanation import BREAKER, PAUSED, QUEUE_PAUSED, ExplainedGate, brief, sentence, span
from mainspring.model.explain.facts import Control, ExplainFacts
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import HALF_OPEN, OPEN
from mainspring.model.limits.controls import BREAKER as BREAKERS
from mainspring.model.limits.controls import PAUSE, breaker_gate
from mainspring.model.limits.data_paths import value_text
from mainspring.model.limits.limits import NAME, QUEUE
from mainspring.rules.instants import instant_text


def queue_paused_gate(facts: ExplainFacts) -> ExplainedGate:
    """Whether its queue is paused."""
    queue = facts.job.queue
    pause = facts.control(PAUSE, QUEUE, queue)
    if pause is None:
        return ExplainedGate(QUEUE_PAUSED, True, f"The queue {queue!r} is not paused.", {"queue": queue})
    return ExplainedGate(QUEUE_PAUSED, False, _paused(pause, facts.now), about(pause))


def paused_gates(facts: ExplainFacts) -> list[ExplainedGate]:
    """Whether its name is paused, or the value that it has at a key."""
    whole = facts.control(PAUSE, QUEUE, facts.job.queue)
    pauses = [control for control in facts.controls if control.kind == PAUSE and control is not whole]
    if not pauses:
        text = f"Neither jobs of {facts.job.name!r} nor any key of this one are paused."
        return [ExplainedGate(PAUSED, True, text, {"name": facts.job.name})]
    return [ExplainedGate(PAUSED, False, _paused(pause, facts.now), about(pause)) for pause in pauses]


def _paused(pause: Control, now: datetime) -> str:
    key, at = pause.document.get("key"), pause.instant("at")
    if key is None and pause.scope == QUEUE:
        text = f"The queue {pause.target!r} has been paused"
    else:
        text = f"{_jobs(pause)}{_having(pause)} have been paused"
    text += "" if at is None else f" for {span(now - at)}"
    text += "" if pause.actor is None else f" by {pause.actor}"
    return sentence(f"{text}: {brief(pause.reason)}" if pause.reason else text)


def breaker_gates(facts: ExplainFacts) -> list[ExplainedGate]:
    """The gates of the breakers of its queue, its name and its values at keys, where there are any."""
    return [_breaker(facts, control) for control in facts.controls if control.kind == BREAKERS]


def _breaker(facts: ExplainFacts, breaker: Control) -> ExplainedGate:
    state, until = breaker.document.get("state"), breaker.instant("open_until")
    good, bad = breaker.number("good"), breaker.number("bad")
    data = about(breaker) | {
        "state": state,
        "since": breaker.instant("since"),
        "open_until": until if state == OPEN else None,
        "good": good,
        "bad": bad,
        "error_rate": bad / (good + bad) if good + bad else None,
    }
    whose = f"The breaker of {_jobs(breaker, begins=False)}{_having(breaker)}"
    if state == OPEN:
        return ExplainedGate(BREAKER, False, _is_open(whose, breaker, until, facts.now), data)
    if state == HALF_OPEN:
        return _is_half_open(facts, whose, breaker, data)
    counted = f"; {bad} of {good + bad} recent attempts have failed" if good + bad else ""
    return ExplainedGate(BREAKER, True, f"{whose} is closed, and lets jobs pass{counted}.", data)


def _is_open(whose: str, breaker: Control, until: datetime | None, now: datetime) -> str:
    by = "" if breaker.actor is None else f" by {breaker.actor}"
    if until is None:
        text = f"{whose} was opened{by}, until an operator closes it"
    elif until > now:
        text = f"{whose} is open{by}, and lets a first job through in {span(until - now)}, at {instant_text(until)}"
    else:
        text = f"{whose} has been open{by}, and is about to let a first job through"
    return sentence(f"{text}: {brief(breaker.reason)}" if breaker.reason else text)


def _is_half_open(facts: ExplainFacts, whose: str, breaker: Control, data: Fields) -> ExplainedGate:
    """The gate of a half-open breaker, which lets one job at a time through as a probe."""
    name = breaker_gate(breaker.aim)
    probing, before = facts.gate(name).taken, facts.place(name)
    data |= {"probes": probing, "before": before.to_document()}
    text = f"{whose} is half open: one job at a time is let through as a probe"
    if probing:
        return ExplainedGate(BREAKER, False, f"{text}, and one is under way.", data)
    if before:
        return ExplainedGate(BREAKER, False, f"{text}, and {before.of('job')} before it.", data)
    return ExplainedGate(BREAKER, True, f"{text}, and this one may be it.", data)


def _having(control: Control) -> str:
    """The part of its target's jobs that a control covers, in words; empty for all."""
    key, queue = control.document.get("key"), control.document.get("queue")
    where = "" if queue is None else f" in the queue {queue!r}"
    return where if key is None else f"{where} with {key}={value_text(control.document.get('value'))}"


def _jobs(control: Control, *, begins: bool = True) -> str:
    whose = f"obs of {control.target!r}" if control.scope == NAME else f"obs of the queue {control.target!r}"
    return f"{'J' if begins else 'j'}{whose}"


def about(control: Control) -> Fields:
    """The facts of a control, as data."""
    key, queue = control.document.get("key"), control.document.get("queue")
    return {
        "control": control.id,
        "scope": control.scope,
        "target": control.target,
        **({} if queue is None else {"queue": queue}),
        **({} if key is None else {"key": key, "value": control.document.get("value")}),
        "actor": control.actor,
        "reason": control.reason,
        "since": control.instant("at"),
    }
