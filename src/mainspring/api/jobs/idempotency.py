"""`Idempotency-Key`: a repeated request with the same key gets the answer of the first one and has no effect.

An endpoint that creates something, or whose effect must not happen twice, takes `Once` and gives it the function:

    async def create(body: Creation, caller: Operator, once: Once) -> Response:
        return await once.answer(caller, lambda job_id: make(caller, body, job_id))

The endpoint must create the job or other thing under the id that it is given, so that there is only one even if the
process died before it could store the answer. The answer is stored for a day, without the secret that it may show.
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

from mainspring.api.dependencies import Caller
from mainspring.api.problems import Problem, as_problem
from mainspring.errors import MainspringError
from mainspring.model.access.idempotency import Reply

REPLAYED = "Idempotency-Replayed"
NAME = "Idempotency-Key"
_SERVER_ERRORS = 500

Key = Annotated[
    str | None,
    Header(
        alias=NAME,
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A text of your choice, new for each creation or action. For 24 hours, a repeated request with "
        "the same key has no effect and gets the same answer, with the header Idempotency-Replayed.",
    ),
]
# Concurrent requests with one key wait for each other, so that the second one gets the answer of the first.
_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Made:
    """The response to a request that created something."""

    body: BaseModel
    status: int = 201
    kept: BaseModel | None = None
    """The answer to a repeated request, if `body` may be shown only once."""


Make = Callable[[str], Awaitable[Made]]


class OnceOnly:
    """A request and its idempotency key, if it has one."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key

    async def answer(self, caller: Caller, make: Make) -> Response:
        """Call `make` and answer, or answer as before."""
        if self._key is None:
            made = await make(new_id(caller.service.now()))
            return _respond(made.status, _written(made.body))
        key = record_of(caller, self._key)
        print = await self._print()
        turn = _turns.setdefault(key, asyncio.Lock())
        async with turn:
            return await self._answer_once(caller, make, key, print)

    async def _answer_once(self, caller: Caller, make: Make, key: str, print: str) -> Response:
        reply = await open_record(caller, key, print)
        if reply.status is not None:
            return _respond(reply.status, reply.body or "", replayed=True)
        caller.request_id, caller.again = reply.seed, not reply.fresh
        try:
            made = await make(reply.seed)
        except (Problem, MainspringError) as error:
            # A first try that is refused has made nothing. After any other error, this or an earlier try may have.
            if reply.fresh and _status(error) < _SERVER_ERRORS:
                await caller.backend.forget_reply(key)
            raise
        await caller.backend.keep_reply(key, made.status, _written(made.kept or made.body))
        return _respond(made.status, _written(made.body))

    async def _print(self) -> str:
        """A hash of the request, independent of the body's spaces and the order of its fields."""
        body = await self._request.body()
        plain = json.dumps(json.loads(body), sort_keys=True) if body else "{}"  # a body may be left out
        return _hash(self._request.method, self._request.url.path, plain)


async def _once(request: Request, key: Key = None) -> OnceOnly:
    return OnceOnly(request, key)


Once = Annotated[OnceOnly, Depends(_once)]


def record_of(caller: Caller, key: str) -> str:
    """The key of the stored record of a request; each caller has its own."""
    return _hash(caller.actor, key)


async def open_record(caller: Caller, record: str, print: str) -> Reply:
    """Open the record of a request, or refuse the request if a different one had the same key."""
    reply = await caller.backend.open_reply(record, print)
    if not reply.is_for(print):
        raise Problem(422, f"This {NAME} came with another request before; use a new one.", field=NAME)
    return reply


def new_id(now: datetime) -> str:
    """An id for a new job, schedule or request: the time to some microseconds, by which lists are ordered, and 48
    random bits."""
    return f"{int(now.timestamp() * 0x10000):012x}{secrets.token_hex(6)}"


def _written(body: BaseModel) -> str:
    return body.model_dump_json(by_alias=True)


def _respond(status: int, text: str, *, replayed: bool = False) -> Response:
    headers = {REPLAYED: "true"} if replayed else {}
    return Response(text, status, headers, media_type="application/json")


def _status(error: Exception) -> int:
    problem = as_problem(error) if isinstance(error, MainspringError) else error
    return problem.status if isinstance(problem, Problem) else _SERVER_ERRORS


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
