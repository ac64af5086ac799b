"""The gate of a job that waits for other jobs, signals or a time: what is left of its waits. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.model.explain.explanation import DEPENDENCY, ExplainedGate, sentence, span
from mainspring.model.explain.facts import ExplainFacts, WaitFacts, WaitingFacts
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import BLOCKED
from mainspring.rules.instants import instant_text


def dependency_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether the jobs and signals that it waits for have come; only a blocked job has this gate."""
    job, waiting = facts.job, facts.waits
    if job.state != BLOCKED:
        return None
    if waiting is None:
        note = job.waiting_for.note if job.waiting_for is not None else ""
        text = note or "It waits for jobs that it depends on"
        return ExplainedGate(DEPENDENCY, False, sentence(text), {"note": note})
    text = _waiting(waiting, facts)
    return ExplainedGate(DEPENDENCY, False, sentence(text), _data(waiting.on, facts))


def _waiting(waiting: WaitingFacts, facts: ExplainFacts) -> str:
    parts = [_told(one, facts) for one in waiting.on if one.left]
    if waiting.others:
        parts.append(f"{waiting.others:,} more")
    parts += [f"the signal {name!r}" for name in waiting.signals]
    if not waiting.sealed:
        return "Its jobs are still being stored" if not parts else f"It waits for {'; and '.join(parts)}, or more"
    if not parts and waiting.until is None:
        return "All jobs that it waits for have ended: a worker is about to start it, or to end it"
    text = f"It waits for {'; and for '.join(parts)}" if parts else "It waits"
    limit = "" if waiting.until is None else f"until {instant_text(waiting.until)}"
    return f"{text}{', at the longest' if parts and limit else ''} {limit}".rstrip()


def _told(one: WaitFacts, facts: ExplainFacts) -> str:
    """One wait: "transform: 312 of 100,000 left, oldest running for 4 min, 2 failed"."""
    told = [f"{one.left} of {one.total:,} left" if one.total else f"{one.left} left"]
    if one.oldest is not None:
        told.append(f"oldest running for {span(facts.now - one.oldest)}")
    elif not one.running:
        told.append("none running")
    if one.bad:
        told.append(f"{one.bad} failed")
    return f"{one.name}: {', '.join(told)}"


def _data(waits: Sequence[WaitFacts], facts: ExplainFacts) -> Fields:
    assert facts.waits is not None
    return {
        "waits": [
            {
                "name": one.name,
                "total": one.total,
                "left": one.left.number,
                "running": one.running,
                "oldest": one.oldest,
                "failed": one.bad.number,
            }
            for one in waits
        ],
        "signals": list(facts.waits.signals),
        "until": facts.waits.until,
        "since": facts.waits.since,
        "when": facts.waits.when,
    }
