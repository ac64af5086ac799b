"""The gates of the order of jobs: sequences, and keys in round robin. Pure."""

from __future__ import annotations

from mainspring.model.explain.explanation import FAIRNESS, SEQUENCE, ExplainedGate, brief, sentence, span
from mainspring.model.explain.facts import Before, ExplainFacts
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import FAILED, PENDING, RUNNING


def fairness_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether the job is the first of its key. The counts of served jobs are shown, and are no gate: with enough free
    slots, jobs of all keys run at once."""
    turns = facts.turns
    if turns is None:
        return None
    state, before, inside = facts.gate(turns.gate), facts.place(turns.gate), facts.line == turns.gate
    data = {
        "gate": turns.gate,
        "queue": facts.job.queue,
        "value": turns.value,
        "source": turns.source,
        "in_line": inside,
        "before": before.to_document(),
        "keys": turns.keys.to_document(),
        "served": state.served,
        "least_served": turns.least,
    }
    text = f"Keys of the queue {facts.job.queue!r} take turns, and {turns.keys.of('key')} waiting"
    if before:
        text += f"; {before.of('job')} before it in the line of {turns.value!r}"
    else:
        text += f"; it is the first in the line of {turns.value!r}"
        if state.line and state.served > turns.least:
            text += f", which was served {state.served:,} times, another key {turns.least:,} times"
    return ExplainedGate(FAIRNESS, not before, f"{text}.", data)


def sequence_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether the job is the first of its sequence that has not ended."""
    sequence = facts.sequence
    if sequence is None:
        return None
    first = sequence.first
    data: Fields = {
        "sequence": sequence.name,
        "source": sequence.source,
        "blocks": sequence.blocks,
        "before": sequence.before.to_document(),
        "first": None if first is None or first.hidden else _about(first),
    }
    if first is None or first.id == facts.job.id:
        return ExplainedGate(SEQUENCE, True, f"It is the first job of the sequence {sequence.name}.", data)
    who = "another job" if first.hidden else f"job {first.id}"
    text = f"In the sequence {sequence.name}, {who} has to end first"
    text += "" if first.hidden else f"; {_how(first, facts)}"
    if sequence.before.number > 1:
        text += f"; {sequence.before.of('job')} before it"
    return ExplainedGate(SEQUENCE, False, sentence(text), data)


def _how(first: Before, facts: ExplainFacts) -> str:
    """The state of the first job of the sequence, in words."""
    if first.state == RUNNING:
        return f"it is running on worker {first.worker}"
    if first.state == FAILED:
        why = "" if first.error is None else f" ({brief(first.error)})"
        return f"it has failed{why}, and blocks the others until it is retried or deleted"
    if first.state == PENDING and first.run_at is not None and first.run_at > facts.now:
        return f"it is due in {span(first.run_at - facts.now)}"
    return f"it is {first.state}"


def _about(first: Before) -> Fields:
    return {
        "job": first.id,
        "state": first.state,
        "run_at": first.run_at,
        "worker": first.worker,
        "error": first.error,
    }
