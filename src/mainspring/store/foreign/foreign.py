"""Telling jobs that another program has inserted from documents that are no jobs, along the index of raw inserts.

Called by adoption, which reads the jobs alone, and by the report about the other documents. Foreign documents are never
written to. The bounds of the index skip them, so that a collection full of them costs nothing; only documents that have
a name and no state have to be read.
"""

from __future__ import annotations

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.foreign import INSERTED_FIELDS, ForeignDocuments, describe_foreign
from mainspring.model.jobs.job import STATES
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import RAW, mapped_inserts_index

_COUNTED = 1000
_FIELD_NAMES = {"$map": {"input": {"$objectToArray": "$$ROOT"}, "in": "$$this.k"}}
A_JOB: Document = {
    "name": {"$ne": None},
    "state": {"$in": [None, *STATES]},
    "$or": [{"state": {"$in": list(STATES)}}, {"$expr": {"$setIsSubset": [_FIELD_NAMES, sorted(INSERTED_FIELDS)]}}],
}
"""The filter for jobs in Mainspring's own fields."""
RAW_JOBS: Document = {"v": None, **A_JOB}
"""The filter for raw inserts that are jobs."""


class Foreign:
    """The store's verbs for documents that are no jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(self, samples: int) -> ForeignDocuments:
        """Count foreign documents up to a bound, and read some. Documents that a field map knows are not foreign."""
        count = 0
        found: list[Document] = []
        map = self._connection.mirror.map
        for filter, hint in _foreign(map):
            with self._connection.deadline():
                jobs, room = self._connection.jobs, _COUNTED + 1 - count
                count += len(await jobs.find_all(filter, {"_id": 1}, hint=hint, limit=room)) if room else 0
                left = samples - len(found)
                found += await jobs.find_all(filter, hint=hint, limit=left) if left else []
        described = tuple(describe_foreign(document, map) for document in found)
        return ForeignDocuments(min(count, _COUNTED), count > _COUNTED, described)


def _foreign(map: FieldMap | None) -> list[tuple[Document, str]]:
    """The reads that together find all foreign documents, each with its index."""
    no_job: Document = {"v": None, "$nor": [A_JOB]}
    if map is None:
        return [(no_job, RAW)]
    words = list(map.states)
    index = mapped_inserts_index(map)
    return [
        ({**no_job, map.status: {"$nin": words}}, index),
        ({**no_job, map.status: {"$in": words}, map.name: None}, index),
    ]
