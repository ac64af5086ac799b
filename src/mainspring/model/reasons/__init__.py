"""The reasons why a job does not run: every gate in its way, described from the facts of a `Standing`. Pure.

The order is that in which a job passes them: first what concerns the job itself, then what was shut at run time, then
who could run it, then the order and the limits that it is under, and last a free slot and its place in the queue.
"""

from __future__ import annotations

from mainspring.model.explanation import POSITION, SLOTS, ExplainedGate, Explanation
from mainspring.model.reasons.own import dependency_gate, held_gate, overlap_gate, state_gate, time_gate
from mainspring.model.reasons.room import limit_gates, position_gate, unknown_line_gate
from mainspring.model.reasons.shut import breaker_gates, paused_gates, queue_paused_gate
from mainspring.model.reasons.turns import fairness_gate, sequence_gate
from mainspring.model.reasons.workers import handler_gate, key_gate, slots_gate, version_gate, worker_gate
from mainspring.model.standing import Standing

__all__ = ["explain", "state_gate"]


def explain(standing: Standing) -> Explanation:
    """Why a pending or blocked job does not run."""
    found: list[ExplainedGate | None] = [
        state_gate(standing.job, standing.now, adopted=standing.adopted),
        dependency_gate(standing),
        overlap_gate(standing),
        time_gate(standing),
        held_gate(standing),
        queue_paused_gate(standing),
        *paused_gates(standing),
        *breaker_gates(standing),
        worker_gate(standing),
        handler_gate(standing),
        version_gate(standing),
        key_gate(standing),
        fairness_gate(standing),
        sequence_gate(standing),
        *limit_gates(standing),
        unknown_line_gate(standing),
        slots_gate(standing),
    ]
    gates = [gate for gate in found if gate is not None]
    alone = all(gate.open or gate.kind == SLOTS for gate in gates)
    gates.append(position_gate(standing, alone=alone))
    assert gates[-1].kind == POSITION
    return Explanation.of(standing.job, standing.now, gates)
