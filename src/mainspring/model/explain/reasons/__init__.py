"""The reasons why a job does not run: every gate before it, described from the facts of a `ExplainFacts`. Pure.

The order is that in which a job passes them: first the gates of the job itself, then the gates that were closed at run
time, then the workers that could run it, then its order and its limits, and last a free slot and its place in the
queue.
"""

from __future__ import annotations

from mainspring.model.explain.explanation import POSITION, SLOTS, ExplainedGate, Explanation
from mainspring.model.explain.facts import ExplainFacts
from mainspring.model.explain.reasons.of_flows import dependency_gate
from mainspring.model.explain.reasons.of_limits import limit_gates, position_gate, unknown_line_gate
from mainspring.model.explain.reasons.of_order import fairness_gate, sequence_gate
from mainspring.model.explain.reasons.of_pauses_and_breakers import breaker_gates, paused_gates, queue_paused_gate
from mainspring.model.explain.reasons.of_the_job import held_gate, overlap_gate, state_gate, time_gate
from mainspring.model.explain.reasons.of_workers import handler_gate, key_gate, slots_gate, version_gate, worker_gate

__all__ = ["explain", "state_gate"]


def explain(facts: ExplainFacts) -> Explanation:
    """The explanation of why a pending or blocked job does not run."""
    found: list[ExplainedGate | None] = [
        state_gate(facts.job, facts.now, adopted=facts.adopted),
        dependency_gate(facts),
        overlap_gate(facts),
        time_gate(facts),
        held_gate(facts),
        queue_paused_gate(facts),
        *paused_gates(facts),
        *breaker_gates(facts),
        worker_gate(facts),
        handler_gate(facts),
        version_gate(facts),
        key_gate(facts),
        fairness_gate(facts),
        sequence_gate(facts),
        *limit_gates(facts),
        unknown_line_gate(facts),
        slots_gate(facts),
    ]
    gates = [gate for gate in found if gate is not None]
    alone = all(gate.open or gate.kind == SLOTS for gate in gates)
    gates.append(position_gate(facts, alone=alone))
    assert gates[-1].kind == POSITION
    return Explanation.of(facts.job, facts.now, gates)
