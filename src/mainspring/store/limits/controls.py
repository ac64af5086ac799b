"""Stored controls: pauses, and limits set at run time; breakers are in `store/limits/breakers.py`.

Each control is one document whose id names its kind and target, so that a target never has two of a kind. Every change
sets `told`, which wakes the workers that listen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mainspring.model.limits.breaker import CLOSED, BreakerStatus
from mainspring.model.limits.controls import BREAKER, LIMIT, PAUSE, LimitOverride, Paused, Target
from mainspring.model.limits.limits import JobLimits, Limit, Rate
from mainspring.model.unreadable import Listed
from mainspring.store.connection import Document
from mainspring.store.fitting import Shape, readable
from mainspring.store.limits.breakers import Breakers, control_id, decode_breaker
from mainspring.store.limits.wait_lists import beginning
from mainspring.store.schema import BY_ID
from mainspring.store.shapes import BREAKER as BREAKER_SHAPE
from mainspring.store.shapes import LIMIT as LIMIT_SHAPE
from mainspring.store.shapes import PAUSE as PAUSE_SHAPE

logger = logging.getLogger("mainspring")

_CONTROLS_SHOWN = 500
T = TypeVar("T")


class Controls(Breakers):
    """The store's verbs for controls, breakers included."""

    async def find(self) -> list[Document]:
        """All controls, without the detailed counts of breakers."""
        return await self._connection.controls.find_all({}, {"counts": 0}, sort=[("_id", 1)], hint=BY_ID)

    async def find_pauses(self) -> list[Document]:
        """The pauses, the first ones by their ids."""
        return await self._of_kind(PAUSE)

    async def find_limits(self) -> list[Document]:
        """The limits that were set at run time, the first ones by their ids."""
        return await self._of_kind(LIMIT)

    async def find_breakers(self) -> list[Document]:
        """The stored breakers, the first ones by their ids: there may be one for each value of a key."""
        return await self._of_kind(BREAKER)

    async def _of_kind(self, kind: str) -> list[Document]:
        """The controls of a kind, whose ids begin with it."""
        return await self._connection.controls.find_all(
            {"_id": beginning(f"{kind}:")}, {"counts": 0}, sort=[("_id", 1)], hint=BY_ID, limit=_CONTROLS_SHOWN
        )

    async def find_in_force(self) -> list[Document]:
        """All controls but closed breakers, of which there may be one for each value of a key."""
        closed = {"kind": BREAKER, "state": CLOSED}
        return await self._connection.controls.find_all(
            {"$nor": [closed]}, {"counts": 0}, sort=[("_id", 1)], hint=BY_ID
        )

    async def put_pause(self, target: Target, reason: str, actor: str | None) -> Paused:
        """Pause a target; an existing pause is replaced."""
        fields: Document = {"kind": PAUSE, "scope": target.scope, "target": target.target}
        if target.key is not None:
            fields |= {"key": target.key, "value": target.value}
        return decode_pause(await self._put(control_id(PAUSE, target), fields, reason, actor))

    async def delete_pause(self, target: Target) -> Paused | None:
        """End a pause and return it."""
        document = await self._delete(control_id(PAUSE, target))
        return None if document is None else decode_pause(document)

    async def put_limit(self, target: Target, allowance: JobLimits, reason: str, actor: str | None) -> LimitOverride:
        """Override the limits of a target; an existing override is replaced."""
        fields: Document = {"kind": LIMIT, "scope": target.scope, "target": target.target}
        if allowance.concurrency is not None:
            fields["concurrency"] = allowance.concurrency.to_document()
        if allowance.rate is not None:
            fields["rate"] = allowance.rate.to_document()
        return decode_limit(await self._put(control_id(LIMIT, target), fields, reason, actor))

    async def delete_limit(self, target: Target) -> LimitOverride | None:
        """End an override and return it; the declared limits apply again."""
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
        return await self._connection.controls.find_one_and_delete({"_id": control})


def pauses_in(documents: Iterable[Document]) -> Listed[Paused]:
    return _understood(documents, PAUSE, PAUSE_SHAPE, decode_pause)


def limits_in(documents: Iterable[Document]) -> Listed[LimitOverride]:
    return _understood(documents, LIMIT, LIMIT_SHAPE, decode_limit)


def breakers_in(documents: Iterable[Document]) -> Listed[BreakerStatus]:
    return _understood(documents, BREAKER, BREAKER_SHAPE, decode_breaker)


def _understood(documents: Iterable[Document], kind: str, shape: Shape, decode: Callable[[Document], T]) -> Listed[T]:
    """The controls of a kind. An unreadable control does not count, and does not stop the others."""
    found = readable((document for document in documents if document.get("kind") == kind), shape, decode)
    for one in found.unreadable:
        logger.warning("The control %r cannot be read and does not count: %s", one.id, one.error)
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
