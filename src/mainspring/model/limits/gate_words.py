"""The names of gates in words, for notes and explanations. Pure.

A gate is stored under a name such as `c:name:report:tenant=acme` (`gate_name` in model/limits/limits.py, `Target.path`
in model/limits/controls.py). A person reads "jobs of 'report' with tenant=acme".
"""

from __future__ import annotations

from mainspring.model.limits.controls import BROKEN, PAUSED
from mainspring.model.limits.data_paths import plain_part
from mainspring.model.limits.limits import FAIR, QUEUE, SEQUENCE


def jobs_at(gate: str) -> str:
    """The jobs that have to pass a gate: "jobs of 'report' in the queue 'mail' with tenant=acme"."""
    kind, _, path = gate.partition(":")
    if kind == SEQUENCE:
        return f"jobs of the sequence {path!r}"
    if kind == FAIR:
        queue, _, value = path.partition(":")
        return f"jobs of the queue {plain_part(queue)!r} with the key {value!r}"
    head, _, value = path.partition("=")
    scope, _, rest = head.partition(":")
    target, _, key = rest.partition(":")
    queue = ""
    if key.startswith(":") and kind in (PAUSED, BROKEN):
        queue, _, key = key[1:].partition(":")
    elif key.startswith(":"):  # the queue is among the values
        key, each = key[1:].removeprefix(":"), value
        queue, _, value = each.partition(":") if key else (each, "", "")
    words = f"jobs of the queue {plain_part(target)!r}" if scope == QUEUE else f"jobs of {plain_part(target)!r}"
    words += f" in the queue {plain_part(queue)!r}" if queue else ""
    return f"{words} with {plain_part(key)}={value}" if key else words
