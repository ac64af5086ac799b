"""`Idempotency-Key`: a request that comes again with the same key is answered as it was before, and nothing is done.

An endpoint that creates something takes `Once` and hands over what makes it:

    async def create(body: Creation, caller: Operator, once: Once) -> Response:
        return await once.answer(caller, lambda job_id: make(caller, body, job_id))

What is made must get the id that it is handed, so that it is made once even if the process died before it could keep
the answer. Not for answers that are shown a single time, such as new keys: the answer is stored for a day.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from weakref import WeakValueDictionary

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel

from mainspring.api.problems import Problem, as_problem
from mainspring.api.service import Caller
from mainspring.errors import MainspringError

REPLAYED = "Idempotency-Replayed"
_NAME = "Idempotency-Key"
_SERVER_ERRORS = 500

Key = Annotated[
    str | None,
    Header(
        alias=_NAME,
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A text of your choice, new for each thing to be created. The same request with the same key is "
        "answered as before for 24 hours, with the header Idempotency-Replayed, and creates nothing.",
    ),
]
# Those that come at once with one key wait for each other, so that the second is given the answer to the first.
_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Made:
    """What an endpoint has made, and the answer that tells of it."""

    body: BaseModel
    status: int = 201


Make = Callable[[str], Awaitable[Made]]


class OnceOnly:
    """A request, and the key that it came with."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key

    async def answer(self, caller: Caller, make: Make, *, print: str | None = None) -> Response:
        """Make it, or answer as before. `print` tells what is asked for, where that is not the body."""
        if self._key is None:
            return _respond(*_written(await make(new_id(caller.service.now()))))
        key = _hash(caller.actor, self._key)
        print = print or await self._print()
        turn = _turns.setdefault(key, asyncio.Lock())
        async with turn:
            return await self._answer_once(caller, make, key, print)

    async def _answer_once(self, caller: Caller, make: Make, key: str, print: str) -> Response:
        reply = await caller.scheduler.open_reply(key, print)
        if not reply.is_for(print):
            raise Problem(422, f"This {_NAME} came with another request before; use a new one.", field=_NAME)
        if reply.status is not None:
            return _respond(reply.status, reply.body or "", replayed=True)
        try:
            status, text = _written(await make(reply.seed))
        except (Problem, MainspringError) as error:
            if _status(error) < _SERVER_ERRORS:  # refused; otherwise it may have been made
                await caller.scheduler.forget_reply(key)
            raise
        await caller.scheduler.keep_reply(key, status, text)
        return _respond(status, text)

    async def _print(self) -> str:
        """A hash of what is asked for; the same however the body is spaced and ordered."""
        body = await self._request.body()
        plain = json.dumps(json.loads(body), sort_keys=True) if body else ""
        return _hash(self._request.method, self._request.url.path, plain)


async def _once(request: Request, key: Key = None) -> OnceOnly:
    return OnceOnly(request, key)


Once = Annotated[OnceOnly, Depends(_once)]


def new_id(now: datetime) -> str:
    """An id of the form that created things have: the second, then 64 random bits."""
    return f"{int(now.timestamp()):08x}{secrets.token_hex(8)}"


def _written(made: Made) -> tuple[int, str]:
    return made.status, made.body.model_dump_json(by_alias=True)


def _respond(status: int, text: str, *, replayed: bool = False) -> Response:
    headers = {REPLAYED: "true"} if replayed else {}
    return Response(text, status, headers, media_type="application/json")


def _status(error: Exception) -> int:
    problem = as_problem(error) if isinstance(error, MainspringError) else error
    return problem.status if isinstance(problem, Problem) else _SERVER_ERRORS


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
