"""Jobs that the demonstration schedules now and then while it runs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from mainspring.model.fields import Fields

_FIRST: tuple[Fields, ...] = (
    {"name": "send-email", "data": {"to": "user@example.com", "subject": "Welcome"}},
    {"name": "generate-report", "data": {"kind": "finance"}},
    {"name": "retry-demo", "data": {"succeed_after_attempt": 3}},
    {"name": "send-email", "data": {"to": "admin@example.com", "subject": "System alert"}, "priority": 1},
    {"name": "crash-demo", "data": {}},
    {"name": "send-email", "data": {"to": "later@example.com", "subject": "As planned"}, "delay": 3},
)
FIRST_SAMPLE = _FIRST[0]
# Those that come again and again; a crash is worth one look only.
_MORE: tuple[Fields, ...] = (
    *(sample for sample in _FIRST if sample["name"] != "crash-demo"),
    {"name": "resize-image", "data": {"customer": "acme", "image": "product-2041.jpg"}},
    {"name": "charge-card", "data": {"order": "O-7301", "amount": "49.90", "gateway": "pay.example.com"}},
)


def samples() -> Iterator[Fields]:
    """Yield jobs to schedule: each kind once, then random ones without end."""
    yield from _FIRST
    while True:
        yield random.choice(_MORE)
