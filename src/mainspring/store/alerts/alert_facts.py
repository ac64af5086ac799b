"""Reading what alert rules are judged by: causes of dead letters, overdue schedules, late queues, names without a
handler and open breakers, within a scope.

The database applies the scope of a rule to the first `LOOKED_AT` entries of an index, and answers with the subjects.
The reads of the overview (`store/views/problem_facts.py`) look at fifty to 150 entries of all jobs and leave those out
of the scope out afterwards: many failures in one queue would hide those in another, and no message would be sent.
"""

from __future__ import annotations

from datetime import datetime

from mainspring.clock import EPOCH, truncate
from mainspring.model.access.api_keys import Scope
from mainspring.model.alerts.episode import MOST_SUBJECTS
from mainspring.model.jobs.job import FAILED
from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import Paused
from mainspring.model.views.problems import Due, FailureCause, Held, ScheduleFact
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.limits.wait_lists import beginning
from mainspring.store.schema import DEAD, DUE
from mainspring.store.shapes import JOB, SCHEDULE
from mainspring.store.views.oldest_due import OldestDue
from mainspring.store.views.problem_facts import ProblemReads, schedule_fact

LOOKED_AT = 5000
"""The entries of an index that one read looks at: more dead letters than that within an evaluation or two are beyond
what a rule can tell apart."""
_SAMPLE = {"name": "$name", "queue": "$queue", "error": {"type": "$error.type", "message": "$error.message"}}


class AlertFacts:
    """The store's verbs for the facts of alert rules."""

    def __init__(self, connection: Connection, overview: ProblemReads, oldest_due: OldestDue) -> None:
        self._connection = connection
        self._overview = overview
        self._oldest_due = oldest_due

    async def causes(self, since: datetime, scope: Scope) -> list[FailureCause]:
        """The causes of the dead letters since an instant, the latest first. Jobs that notify of others are left out:
        their failure would cause the next notification."""
        found = await self._connection.jobs.aggregate(
            [
                {"$match": {"state": FAILED, "finished_at": {"$gte": truncate(since)}}},
                {"$sort": {"state": -1, "finished_at": -1}},
                {"$limit": LOOKED_AT},
                {"$match": {"alert": {"$ne": True}, **_within(scope, "queue", "name")}},
                {
                    "$group": {
                        "_id": "$fingerprint",
                        "count": {"$sum": 1},
                        "first_at": {"$min": "$finished_at"},
                        "finished_at": {"$max": "$finished_at"},
                        "last": {"$first": _SAMPLE},
                    }
                },
                {"$sort": {"finished_at": -1}},
                {"$limit": MOST_SUBJECTS},
            ],
            hint=DEAD,
        )
        return [_cause(one) for one in found]

    async def overdue(self, scope: Scope) -> list[ScheduleFact]:
        """The schedules that should have fired, the one that is due for longest first."""
        now = truncate(self._connection.clock.now())
        found = await self._connection.schedules.aggregate(
            [
                {"$match": {"fire_at": {"$type": "date", "$lte": now}}},
                {"$sort": {"fire_at": 1, "_id": 1}},
                {"$limit": LOOKED_AT},
                {"$match": _within(scope, "job.queue", "job.name")},
                {"$limit": MOST_SUBJECTS},
                {"$project": {"job.name": 1, "job.queue": 1, "next_at": 1, "due_at": 1}},
            ],
            hint=DUE,
        )
        return [schedule_fact(fit(one, SCHEDULE).document) for one in found]

    async def breakers(self, scope: Scope) -> list[BreakerStatus]:
        """The breakers that are open or half open."""
        return await self._overview.breakers(scope, LOOKED_AT)

    async def pauses(self, scope: Scope) -> list[Paused]:
        """The pauses of queues and names."""
        return await self._overview.pauses(scope, LOOKED_AT)

    async def due_since(self, instant: datetime, scope: Scope) -> list[Due]:
        """The oldest due job of every queue, if it is due since this instant or before; the oldest first. A scope by
        names sees one only where the oldest job of a queue has such a name."""
        found = await self._oldest_due.since(instant, scope.queues)
        return [one for one in found if scope.prefixes is None or scope.allows_name(one.name)]

    async def without_handler(self, scope: Scope) -> list[Held]:
        """The names whose jobs wait for a handler."""
        return await self._overview.without_handler(scope, MOST_SUBJECTS)


def _within(scope: Scope, queue: str, name: str) -> Document:
    """The condition for documents whose queue and name, in these fields, are within a scope."""
    condition: Document = {} if scope.queues is None else {queue: {"$in": list(scope.queues)}}
    if scope.prefixes is not None:
        condition["$or"] = [{name: beginning(prefix)} for prefix in scope.prefixes]
    return condition


def _cause(found: Document) -> FailureCause:
    """The cause of a group; any stored value of another program is fitted as that of a job is."""
    job = fit({"_id": "", "state": FAILED, **found["last"], "finished_at": found["finished_at"]}, JOB).document
    error = job.get("error") or {}
    return FailureCause(
        str(found["_id"] or "unknown"),
        int(found["count"]),
        found.get("first_at") or EPOCH,
        str(job.get("name", "")),
        str(job.get("queue", "")),
        str(error.get("type", "")),
        str(error.get("message", "")),
    )
