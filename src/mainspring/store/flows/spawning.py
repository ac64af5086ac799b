"""Storing the children of a waiting job, and reading them.

Keeps true: spawning again, after any crash, makes no second child and loses none. The ids of children are computed, so
that a repeated insert finds them; a child that is there already must have the same name and data. Nothing is written
to the parent, whatever the number of children is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.errors import NotRepeatable
from mainspring.model.flows.family import Family
from mainspring.model.jobs.draft import Draft
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.insert import Inserts
from mainspring.store.privacy.cipher import Cipher, KeyMissing, Undecryptable, read_back
from mainspring.store.schema import BADLY_ENDED, BEFORE_BADLY, BY_ID

PAGE = 500
"""How many children are read at once."""
_CHANGED = {"edited_at", "round"}
"""The fields of a child whose data may have been replaced since it was stored."""


class Spawning:
    """The store's verbs for children."""

    def __init__(self, connection: Connection, inserts: Inserts, cipher: Cipher) -> None:
        self._connection = connection
        self._inserts = inserts
        self._cipher = cipher

    async def store(self, family: Family, drafts: Sequence[Draft], ids: Sequence[str], start: int) -> list[Document]:
        """Store children that begin with the place `start`; returns those that are new. Raises NotRepeatable where a
        child exists and is another one. After Unavailable, repeating the call is safe."""
        documents: dict[DocumentId, Document] = {}
        pairs: list[tuple[Draft, Document]] = []
        for place, (draft, child_id) in enumerate(zip(drafts, ids, strict=True), start):
            document = self._document(family, draft, child_id)
            known = documents.setdefault(child_id, document)
            if known is document:
                pairs.append((draft, document))
            elif not self._same(document, known):
                raise NotRepeatable(_differs(family, place, "another item has the same key and other data"))
        existing = await self._inserts.insert_under(pairs)
        if existing:
            await self._compare(family, [documents[one] for one in existing], ids, start)
        gone = set(existing)
        return [document for _, document in pairs if document["_id"] not in gone]

    def _document(self, family: Family, draft: Draft, child_id: str) -> Document:
        document = self._inserts.document(draft)
        document["_id"] = child_id
        document["parent_id"] = family.parent
        document["flow"] = family.flow
        document["node"] = family.node
        document["before"] = family.before
        return document

    async def _compare(self, family: Family, documents: list[Document], ids: Sequence[str], start: int) -> None:
        """Compare children with the stored ones of the same ids, but for those that may have other data since: a person
        has edited it, or the child has begun a further round with it (`Continue`)."""
        fields = {"name": 1, "data": 1, "sealed": 1, "edited_at": 1, "round": 1}
        found = await self._connection.jobs.find_dict(
            {"_id": {"$in": [document["_id"] for document in documents]}}, fields, hint=BY_ID
        )
        for document in documents:
            stored = found.get(document["_id"])
            if stored is not None and not stored.keys() & _CHANGED and not self._same(document, stored):
                place = start + list(ids).index(document["_id"])
                raise NotRepeatable(_differs(family, place, "it has another name or other data than at first"))

    def _same(self, document: Document, stored: Document) -> bool:
        if stored.get("name") != document["name"]:
            return False
        try:
            before = stored if isinstance(stored.get("sealed"), list) else {**stored, "sealed": None}
            return read_back(self._cipher.decrypt_data(before)) == read_back(document["data"])
        except (KeyMissing, Undecryptable):
            return True  # it cannot be compared here

    async def check_last(self, family: Family, total: int) -> None:
        """Raise NotRepeatable where an earlier run has made more children than these."""
        if family.single:
            return
        if family.keyed:
            if await self.count(family, total + 1) > total:
                raise NotRepeatable(_differs(family, total, "a key was there at first that is not there now"))
            return
        beyond = {**family.range, "$gte": family.child_id(total)}
        found = await self._connection.jobs.find_one({"_id": beyond}, {"_id": 1}, sort=[("_id", 1)], hint=BY_ID)
        if found is not None:
            raise NotRepeatable(_differs(family, total, "there was one at first, and now there are no more items"))

    async def sequences_above(self, job: Document) -> dict[str, str]:
        """The sequences of the jobs that wait for this one, directly or through others, each with its job."""
        found: dict[str, str] = {}
        above: Document | None = job
        while above is not None and above.get("before") and isinstance(above.get("parent_id"), str):
            fields = {"seq": 1, "parent_id": 1, "before": 1}
            above = await self._connection.jobs.find_one({"_id": document_id(above["parent_id"])}, fields, hint=BY_ID)
            if above is not None and isinstance(above.get("seq"), str):
                found[above["seq"]] = str(above["_id"])
        return found

    async def count(self, family: Family, most: int) -> int:
        """How many children of a map exist, counted up to `most`, in the index of ids alone."""
        return await self._connection.jobs.count({"_id": family.range}, hint=BY_ID, limit=most)

    async def get(self, ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        """The children among these ids that exist."""
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, hint=BY_ID)

    async def page(self, family: Family, after: str | None) -> list[Document]:
        """The next children of a map behind an id, in the order of their ids, which is that of the items without
        keys."""
        behind = family.range if after is None else {**family.range, "$gt": after}
        return await self._connection.jobs.find_all({"_id": behind}, sort=[("_id", 1)], hint=BY_ID, limit=PAGE)

    async def bad(self, wait: str, limit: int) -> tuple[int, list[Document]]:
        """How many predecessors of a wait ended badly, and the first of them."""
        bad = {"before": wait, "state": {"$in": list(BADLY_ENDED)}}
        found = await self._connection.jobs.find_all(bad, hint=BEFORE_BADLY, limit=limit)
        if len(found) < limit:
            return len(found), found
        return await self._connection.jobs.count(bad, hint=BEFORE_BADLY), found


def _differs(family: Family, place: int, why: str) -> str:
    return (
        f"The children of {family.name!r} differ from those of the first run: item {place:,}: {why}. The items of a "
        "map must be the same in every run, or come from a step: items = await ctx.step(…)."
    )
