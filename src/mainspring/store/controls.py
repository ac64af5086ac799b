"""Stored controls: pauses, and limits set at run time; breakers are in `store/breakers.py`.

One document each, under an id that says what it is for, so that there is never more than one. Every change sets
`told`, which wakes the workers that listen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mainspring.model.breaker import CLOSED, BreakerStatus
from mainspring.model.controls import BREAKER, LIMIT, PAUSE, GateUse, LimitOverride, Paused, Target
from mainspring.model.limits import RATE, Allowance, Limit, Rate
from mainspring.store.breakers import Breakers, control_id, decode_breaker
from mainspring.store.collections import BY_ID, LINE
from mainspring.store.connection import Document

logger = logging.getLogger("mainspring")

_GATES_SHOWN, _WAITING_COUNTED = 100, 1000
T = TypeVar("T")


class Controls(Breakers):
    """The store's verbs for controls, breakers included."""

    async def find(self) -> list[Document]:
        """All controls, without what breakers have counted in detail."""
        with self._connection.deadline():
            cursor = self._connection.controls.find({}, {"counts": 0}, sort=[("_id", 1)], hint=BY_ID)
            return await cursor.to_list(None)

    async def find_in_force(self) -> list[Document]:
        """All controls but closed breakers, of which there may be one for each value of a key."""
        closed = {"kind": BREAKER, "state": CLOSED}
        with self._connection.deadline():
            cursor = self._connection.controls.find({"$nor": [closed]}, {"counts": 0}, sort=[("_id", 1)], hint=BY_ID)
            return await cursor.to_list(None)

    async def put_pause(self, target: Target, reason: str, actor: str | None) -> Paused:
        """Pause something; a pause that is there already is replaced."""
        fields: Document = {"kind": PAUSE, "scope": target.scope, "target": target.target}
        if target.key is not None:
            fields |= {"key": target.key, "value": target.value}
        return decode_pause(await self._put(control_id(PAUSE, target), fields, reason, actor))

    async def delete_pause(self, target: Target) -> Paused | None:
        """End a pause; returns what it was."""
        document = await self._delete(control_id(PAUSE, target))
        return None if document is None else decode_pause(document)

    async def put_limit(self, target: Target, allowance: Allowance, reason: str, actor: str | None) -> LimitOverride:
        """Override the limits of something; an override that is there already is replaced."""
        fields: Document = {"kind": LIMIT, "scope": target.scope, "target": target.target}
        if allowance.concurrency is not None:
            fields["concurrency"] = allowance.concurrency.to_document()
        if allowance.rate is not None:
            fields["rate"] = allowance.rate.to_document()
        return decode_limit(await self._put(control_id(LIMIT, target), fields, reason, actor))

    async def delete_limit(self, target: Target) -> LimitOverride | None:
        """Let what is declared count again; returns what overrode it."""
        document = await self._delete(control_id(LIMIT, target))
        return None if document is None else decode_limit(document)

    async def _put(self, control: str, fields: Document, reason: str, actor: str | None) -> Document:
        now = self._connection.clock.expression()
        chosen = fields | {"reason": reason} | ({} if actor is None else {"actor": actor})
        literal = {key: {"$literal": value} for key, value in chosen.items()}
        replaced = {"$replaceWith": {"_id": "$_id", **literal, "at": now, "told": now}}
        document = await self._update(control, {}, [replaced], upsert=True)
        assert document is not None
        return document

    async def _delete(self, control: str) -> Document | None:
        with self._connection.deadline():
            return await self._connection.controls.find_one_and_delete({"_id": control})

    # -- how limits are used ---------------------------------------------------------------------------------------

    async def uses(self, names: Sequence[str], prefixes: Sequence[str]) -> list[GateUse]:
        """How the gates of these names, or whose names begin so, are used: the first hundred that are."""
        places: list[Document] = [{"_id": {"$in": list(names)}}]
        places += [{"_id": {"$gte": prefix, "$lt": prefix + "\uffff"}} for prefix in prefixes]
        used = {"$or": [{"grants.n": {"$gt": 0}}, {"line": True}]}
        with self._connection.deadline():
            cursor = self._connection.gates.find(
                {"$and": [{"$or": places}, used]}, {"grants": 1, "line": 1}, sort=[("_id", 1)], hint=BY_ID
            ).limit(_GATES_SHOWN)
            return [await self._use(gate) for gate in await cursor.to_list(_GATES_SHOWN)]

    async def _use(self, gate: Document) -> GateUse:
        waiting = 0
        if gate.get("line"):
            waiting = await self._connection.jobs.count_documents(
                {"line": gate["_id"]}, limit=_WAITING_COUNTED, hint=LINE
            )
        slots = () if gate["_id"].startswith(f"{RATE}:") else gate.get("grants", ())
        return GateUse(gate["_id"], sum(int(grant["n"]) for grant in slots), waiting)


def pauses_in(documents: Iterable[Document]) -> list[Paused]:
    return _understood(documents, PAUSE, decode_pause)


def limits_in(documents: Iterable[Document]) -> list[LimitOverride]:
    return _understood(documents, LIMIT, decode_limit)


def breakers_in(documents: Iterable[Document]) -> list[BreakerStatus]:
    return _understood(documents, BREAKER, decode_breaker)


def _understood(documents: Iterable[Document], kind: str, decode: Callable[[Document], T]) -> list[T]:
    """The controls of a kind. One that cannot be understood is left out: it must not stop the others."""
    found: list[T] = []
    for document in documents:
        if document.get("kind") == kind:
            try:
                found.append(decode(document))
            except Exception as error:
                logger.warning("The control %r cannot be understood and does not count: %r", document["_id"], error)
    return found


def decode_pause(document: Mapping[str, Any]) -> Paused:
    key = document.get("key")
    return Paused(
        document["scope"],
        document["target"],
        key,
        document.get("value") if key is not None else None,
        document["at"],
        document.get("reason", ""),
        document.get("actor"),
    )


def decode_limit(document: Mapping[str, Any]) -> LimitOverride:
    concurrency, rate = document.get("concurrency"), document.get("rate")
    return LimitOverride(
        document["scope"],
        document["target"],
        None if concurrency is None else Limit.from_document(concurrency),
        None if rate is None else Rate.from_document(rate),
        document["at"],
        document.get("reason", ""),
        document.get("actor"),
    )
