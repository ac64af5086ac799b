"""Dead letters in groups by the fingerprint of their error, read within bounds.

However many dead letters are stored, a list of groups examines about 2,000 keys. Where all dead letters can be read at
once, they are. Otherwise the groups are those of the newest ones and of the first fingerprints in their order; each
group's first and last dead letter is one seek, and its number is counted up to a bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mainspring.clock import EPOCH
from mainspring.model.access.api_keys import Scope
from mainspring.model.dead_letters.dead_letters import UNKNOWN, DeadLetterGroup, Selection
from mainspring.model.jobs.job import FAILED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.dead_letters.dead_letters import KEYS, filter_of, read_along
from mainspring.store.fitting import fit
from mainspring.store.schema import BY_ID, GROUPED
from mainspring.store.shapes import JOB
from mainspring.store.side_by_side import side_by_side
from mainspring.store.views.failure_counts import FailureCounts, Failures

_NEWEST = 400
_LOOKED_AT = 1_000
_WALKED = 60
_COUNTED = 800
_FIELDS = {**KEYS, "name": 1, "queue": 1, "tags": 1, "error.type": 1, "error.message": 1}


@dataclass(slots=True)
class _Found:
    """A group while it is read."""

    print: str | None
    last: Document
    count: int = 0
    first: Any = None
    capped: bool = False
    queues: frozenset[str] = frozenset()


class Groups:
    """The store's verbs for groups of dead letters."""

    def __init__(self, connection: Connection, failures: Failures) -> None:
        self._connection = connection
        self._failures = failures

    async def find(self, selection: Selection, scope: Scope, limit: int) -> list[DeadLetterGroup]:
        """The groups of the dead letters that match, the group with the latest one first."""
        found = await self._read(selection, scope)
        samples = await self._samples([one.last["_id"] for one in found])
        fitting = [one for one in found if _fits(samples.get(str(one.last["_id"])), selection, scope)]
        latest = sorted(fitting, key=lambda one: _instant(one.last.get("finished_at")) or EPOCH, reverse=True)[:limit]
        if any(one.count == 0 for one in latest):
            await self._measure(latest, selection)
        counts = await self._failures.read()
        return [_group(one, samples[str(one.last["_id"])], counts, scope) for one in latest]

    async def _read(self, selection: Selection, scope: Scope) -> list[_Found]:
        if not scope.everything or any((selection.queue, selection.tag, selection.text)):
            return await self._look_into(selection, scope)
        newest = await self._newest(selection, KEYS, _NEWEST)
        if len(newest) < _NEWEST or selection.fingerprint is not None:
            whole = len(newest) < _NEWEST
            return [replace(one, count=one.count if whole else 0) for one in _grouped(newest, capped=not whole)]
        known = {one.print: one for one in _grouped(newest, capped=True)}
        others = [print for print in await self._walk() if print not in known]
        ends = await side_by_side(lambda print: self._end(print, selection, -1), others)
        known |= {print: _Found(print, last) for print, last in zip(others, ends, strict=True) if last is not None}
        return [replace(one, count=0) for one in known.values()]

    async def _look_into(self, selection: Selection, scope: Scope) -> list[_Found]:
        """The groups among the newest dead letters, whose documents are read for the filter or the scope."""
        newest = await self._newest(selection, _FIELDS, _LOOKED_AT)
        wanted = [one for one in newest if _matches(fit(one, JOB).document, selection, scope)]
        return _grouped(wanted, capped=len(newest) >= _LOOKED_AT)

    async def _newest(self, selection: Selection, fields: Mapping[str, int], limit: int) -> list[Document]:
        within = Selection(fingerprint=selection.fingerprint, since=selection.since, until=selection.until)
        along = read_along(within.fingerprint)
        return await self._connection.jobs.find_all(filter_of(within), dict(fields), limit=limit, **along)

    async def _walk(self) -> list[str | None]:
        """The first fingerprints in their order, one seek for each."""
        prints: list[str | None] = []
        while len(prints) < _WALKED:
            behind: Document = {"state": FAILED} | ({"fingerprint": {"$gt": prints[-1] or ""}} if prints else {})
            found = await self._connection.jobs.find_one(
                behind, {"_id": 0, "fingerprint": 1}, sort=[("state", 1), ("fingerprint", 1)], hint=GROUPED
            )
            if found is None:
                break
            prints.append(found.get("fingerprint"))
        return prints

    async def _measure(self, found: Sequence[_Found], selection: Selection) -> None:
        """Count each group up to its share of the keys that may be counted, and find its first dead letter."""
        most = max(10, _COUNTED // max(1, len(found)))

        async def measure(one: _Found) -> None:
            within = self._within(one.print, selection)
            one.count = await self._connection.jobs.count(within, hint=GROUPED, limit=most)
            one.capped = one.count >= most
            first = await self._end(one.print, selection, 1)
            one.first = None if first is None else first.get("finished_at")

        await side_by_side(measure, found)

    async def _end(self, print: str | None, selection: Selection, direction: int) -> Document | None:
        """The first dead letter of a group (1), or the last (-1)."""
        order = [(field, direction) for field in ("state", "fingerprint", "finished_at", "_id")]
        return await self._connection.jobs.find_one(self._within(print, selection), KEYS, sort=order, hint=GROUPED)

    def _within(self, print: str | None, selection: Selection) -> Document:
        return filter_of(Selection(fingerprint=print or UNKNOWN, since=selection.since, until=selection.until))

    async def _samples(self, ids: list[DocumentId]) -> dict[str, Document]:
        fields = {"name": 1, "queue": 1, "error.type": 1, "error.message": 1}
        return {
            str(document["_id"]): fit(document, JOB).document
            for document in await self._connection.jobs.find_all({"_id": {"$in": ids}}, fields, hint=BY_ID)
        }


def _grouped(newest: Iterable[Document], *, capped: bool) -> list[_Found]:
    """The groups of dead letters that were read from the newest on."""
    groups: defaultdict[str | None, list[Document]] = defaultdict(list)
    for document in newest:
        print = document.get("fingerprint")
        groups[print if isinstance(print, str) else None].append(document)
    return [
        _Found(
            print,
            those[0],
            len(those),
            those[-1].get("finished_at"),
            capped,
            frozenset(queue for one in those if isinstance(queue := one.get("queue"), str)),
        )
        for print, those in groups.items()
    ]


def _matches(document: Document, selection: Selection, scope: Scope) -> bool:
    message = (document.get("error") or {}).get("message", "")
    return (
        scope.allows(document.get("queue"), document.get("name"))
        and selection.queue in (None, document.get("queue"))
        and (selection.tag is None or selection.tag in (document.get("tags") or ()))
        and (selection.text is None or selection.text.casefold() in message.casefold())
    )


def _fits(sample: Document | None, selection: Selection, scope: Scope) -> bool:
    """Whether a group has the name and the type of error that are looked for, which its fingerprint includes."""
    if sample is None:
        return False
    error = sample.get("error") or {}
    named = selection.name in (None, sample.get("name")) and scope.allows_name(sample.get("name"))
    return named and selection.error in (None, error.get("type"))


def _group(one: _Found, sample: Document, counts: FailureCounts, scope: Scope) -> DeadLetterGroup:
    error = sample.get("error") or {}
    by_queue = {queue: row for queue, row in counts.of(one.print).items() if scope.allows_queue(queue)}
    trend = tuple(sum(hours) for hours in zip(*by_queue.values(), strict=True)) or (0,) * counts.hours
    own = {sample["queue"]} if isinstance(sample.get("queue"), str) else set()
    return DeadLetterGroup(
        one.print or UNKNOWN,
        sample.get("name", ""),
        error.get("type", ""),
        error.get("message", ""),
        one.count,
        _instant(one.first),
        _instant(one.last.get("finished_at")),
        str(sample["_id"]),
        one.capped,
        tuple(sorted({*by_queue, *one.queues, *own})),
        counts.start,
        trend,
    )


def _instant(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
