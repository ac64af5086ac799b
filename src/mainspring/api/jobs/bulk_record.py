"""The record of a bulk request with an `Idempotency-Key`: the outcome of each line, kept for a day.

The ids of the jobs follow from the key and the line, so that none is stored twice even if the process died before it
could record them. The record, written a chunk at a time, distinguishes a repeated line from another one at the same
place, and outlives the job. A refused line is not recorded: the client may correct it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.body_splitter import Item, TooLong
from mainspring.api.jobs.idempotency import NAME, open_record, record_of
from mainspring.api.problems import Problem
from mainspring.errors import MainspringError
from mainspring.model.access.idempotency import Reply

# Fingerprints of other requests are hashes; this one distinguishes a bulk from another request with the same key.
_BULK = "bulk"
_DONE = 200


@dataclass(frozen=True, slots=True)
class Before:
    """A line whose job is known by its id alone, mostly since an earlier request has stored it."""

    job_id: str
    fresh: bool = False
    """Whether this request has stored it."""


Line = tuple[int, str]
"""The number of a line, and the fingerprint of its content."""


class BulkRecord:
    """The record of one bulk request."""

    def __init__(self, caller: Caller, key: str, reply: Reply) -> None:
        self._backend = caller.backend
        self._key = key
        self._reply = reply
        self._length: int | None = None if reply.body is None else json.loads(reply.body)["lines"]

    @classmethod
    async def open(cls, caller: Caller, key: str) -> BulkRecord:
        """The record under a caller's key; a new one if there is none."""
        record = record_of(caller, key)
        return cls(caller, record, await open_record(caller, record, _BULK))

    @property
    def complete(self) -> bool:
        """Whether an earlier request has sent the body to its end."""
        return self._length is not None

    def job_id(self, line: int) -> str:
        """The id of the job that a line makes: the time of the first request, then a hash of its seed and the line."""
        return self._reply.seed[:8] + hashlib.sha256(self._place(line).encode()).hexdigest()[:16]

    async def known(self, lines: Sequence[Line]) -> dict[int, Before | Problem]:
        """The lines that an earlier request has stored, and the refusals of lines that differ from it."""
        if self._reply.fresh or not lines:
            return {}
        found = await self._backend.find_replies([self._place(line) for line, _ in lines])
        known = {line: self._judge(line, print, found.get(self._place(line))) for line, print in lines}
        return {line: verdict for line, verdict in known.items() if verdict is not None}

    async def keep(self, made: Mapping[Line, str]) -> None:
        """Record which jobs some lines have made."""
        replies = {self._place(line): Reply(print, job_id, _DONE) for (line, print), job_id in made.items()}
        await self._backend.keep_replies(replies)

    async def close(self, length: int) -> None:
        """Record that the body has ended. If this write fails, a longer body later is taken for its continuation."""
        with suppress(MainspringError):
            await self._backend.keep_reply(self._key, _DONE, json.dumps({"lines": length}))

    def _place(self, line: int) -> str:
        return f"{self._reply.seed}:{line}"

    def _judge(self, line: int, print: str, reply: Reply | None) -> Before | Problem | None:
        if reply is not None:
            return Before(reply.seed) if reply.is_for(print) else other_item()
        if self._length is not None and line > self._length:
            return Problem(422, f"This {NAME} came with {self._length:,} lines before; use a new one.", field=NAME)
        return None


def other_item() -> Problem:
    """The refusal of a line that differs from the one of an earlier request."""
    return Problem(422, f"This {NAME} came with another item at this line before; use a new one.", field=NAME)


def print_of(item: Item) -> str:
    """A hash of a line's content, independent of its spaces and the order of its fields."""
    if isinstance(item, TooLong):
        return ""
    try:
        plain = json.dumps(json.loads(item), sort_keys=True).encode()
    except (ValueError, RecursionError):
        plain = item
    return hashlib.sha256(plain).hexdigest()[:32]
