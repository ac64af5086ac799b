"""What really happened, as the database saw it: every change of a job, in the one order that all nodes agree on.

A second source, independent of what workers say: the change stream is replayed from the moment a test began.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import MongoClient
from pymongo.write_concern import WriteConcern

_FIELDS = ("state", "token", "worker", "claim", "lease_until", "attempts")


@dataclass(slots=True)
class Change:
    """One write to a job's document: the fields it set (of those that matter), and the server's time."""

    job: str
    kind: str
    at: datetime
    fields: dict[str, Any]


class Changes:
    """The changes of one database since this was made."""

    def __init__(self, uri: str, collection: str = "jobs") -> None:
        self._client: MongoClient[dict[str, Any]] = MongoClient(uri, tz_aware=True, timeoutMS=60_000)
        self._db = self._client.get_default_database()
        self._collection = collection
        self._marks = self._db.get_collection("marks", write_concern=WriteConcern("majority"))
        self._marks.insert_one({"_id": "first"})
        self._since = self._client.admin.command("ping")["operationTime"]

    def close(self) -> None:
        self._client.close()

    def read(self) -> dict[str, list[Change]]:
        """The changes of each job from then to now, in order."""
        mark = secrets.token_hex(8)
        self._marks.insert_one({"_id": mark})
        found: dict[str, list[Change]] = defaultdict(list)
        with self._db.watch(self._stages(), start_at_operation_time=self._since, batch_size=5000) as stream:
            for event in stream:
                key = event["documentKey"]["_id"]
                if key == mark:
                    return found
                if event["ns"]["coll"] == self._collection:
                    found[str(key)].append(_change(event))
        raise AssertionError("the change stream ended before its end")

    def _stages(self) -> list[dict[str, Any]]:
        kinds = ["insert", "update", "replace", "delete"]
        fields = {f"updateDescription.updatedFields.{field}": 1 for field in _FIELDS}
        fields |= {f"fullDocument.{field}": 1 for field in _FIELDS}
        return [
            {"$match": {"operationType": {"$in": kinds}, "ns.coll": {"$in": [self._collection, "marks"]}}},
            {"$project": {"operationType": 1, "ns": 1, "documentKey": 1, "wallTime": 1, **fields}},
        ]


def _change(event: dict[str, Any]) -> Change:
    fields = event.get("fullDocument") or (event.get("updateDescription") or {}).get("updatedFields") or {}
    return Change(str(event["documentKey"]["_id"]), event["operationType"], event["wallTime"], fields)
