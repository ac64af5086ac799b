"""Jobs of a database that has been in use: of all states, of several names and queues, some with tags.

The tests of the dashboard's costs and the bench store them in bulk, past the product. The pages of
`harness.browsing.PAGES` ask for their names.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from mainspring.model.jobs.job import CANCELLED, COMPLETED, EXPIRED, FAILED, PENDING, RUNNING

Document = dict[str, Any]
NAMES, QUEUES, TAGS, GROUPS = 30, 7, 11, 40
_STATES = (COMPLETED, FAILED, PENDING, CANCELLED, COMPLETED, FAILED, PENDING, EXPIRED)
STATES = tuple(dict.fromkeys(_STATES))
_RUNNING_EVERY = 2_000
_STACK = (
    'Traceback (most recent call last):\n  File "/srv/app/work.py", line 41, in work\n    raise Boom(n)\nBoom: no {n}'
)


def used_job(template: Document, now: datetime, n: int, span: timedelta = timedelta(days=1)) -> Document:
    """The n-th job, made of the document of a pending one. Ended jobs ended within `span` before now; of the
    pending ones a tenth is overdue."""
    state = RUNNING if n % _RUNNING_EVERY == 0 else _STATES[n % len(_STATES)]
    past = now - span * ((n * 7_919 % 86_400) / 86_400)
    document = {**template, "_id": ObjectId(), "name": f"name-{n % NAMES}", "queue": f"queue-{n % QUEUES}"}
    document |= {
        "data": {"n": n, "customer": f"customer-{n % 997}"},
        "state": state,
        "created_at": past,
        "run_at": past,
    }
    if n % 5 == 0:
        document["tags"] = [f"tag-{n % TAGS}"]
    if state == PENDING:
        return document | {"run_at": now + span * ((n % 97 - 10) / 97)}
    document.pop("ready")
    document |= {"token": 1, "tries": 1, "rev": 2, "max_attempts": 3}
    if state == RUNNING:
        far = now + timedelta(hours=6)
        return document | {"claim": f"claim-{n}", "worker": "past", "claimed_at": past, "lease_until": far}
    return document | {"finished_at": past} | _ending(state, past, n)


def _ending(state: str, at: datetime, n: int) -> Document:
    attempt: Document = {"n": 1, "token": 1, "outcome": state, "worker": "past", "started_at": at, "ended_at": at}
    if state != FAILED:
        return {"result": None, "attempts": [attempt]} if state == COMPLETED else {}
    error = {"type": "Boom", "message": f"no {n}", "stack": _STACK.format(n=n)}
    return {"error": error, "fingerprint": f"{n % GROUPS:016x}", "attempts": [{**attempt, "error": error}]}
