"""Audit entries of the service beside changes: refused keys, sessions, exports, and reads of the log.

Their number is bounded, so that no client can fill the log. The service writes the head of the audit log to its own log
every hour.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.requests import HTTPConnection

from mainspring.api.audit.sampling import Sampler
from mainspring.api.middleware.authentication import KEY_HEADER
from mainspring.api.middleware.request_bounds import address_of
from mainspring.client.namespaces.audit import AuditStanding
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.clock import monotonic
from mainspring.errors import InvalidKey, MainspringError
from mainspring.model.access.api_keys import key_id
from mainspring.model.access.audit import AUDIT_LOG, HEAD_EVERY, Entry, describe_head

logger = logging.getLogger(AUDIT_LOG)

_MINUTE, _HOUR = 60.0, 3600.0
_sleep = asyncio.sleep
_NAMED = 20
_NOT_SIGNED = (
    "The audit log is not signed: a program that can write to the database can write a new one. Set "
    "MAINSPRING_AUDIT_KEYS or MAINSPRING_AUDIT_KEYS_FILE; `mainspring generate-key` prints a key"
)
_NOT_SEALED = (
    "The audit log has rows that were written without its key: before there was one, or by a program that has none. "
    "If they are in order, `mainspring audit seal` accepts them"
)


class Trail:
    """The sampled audit entries of one service."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._backend = ServiceBackend(scheduler)
        self._refused = Sampler("key.refused", each=5, most=30, seconds=_MINUTE)
        self.sessions = Sampler("session", each=10, most=1000, seconds=_HOUR)
        self.exports = Sampler("job.export", each=60, most=1000, seconds=_HOUR)
        self.reads = Sampler("audit.read", each=1, most=100, seconds=_HOUR)

    async def check(self) -> AuditStanding:
        """Whether the audit log is signed. Raise AuditKeyMissing if this process lacks the key to continue it."""
        return await self._scheduler.audit.check()

    def warn(self, standing: AuditStanding) -> None:
        """Log a warning if the audit log, or a part of it, is not signed."""
        if standing != "keyed":
            logger.warning(_NOT_SIGNED if standing == "plain" else _NOT_SEALED)

    async def note_refused_key(self, request: HTTPConnection) -> None:
        """Add a row for a request with an unknown, expired or revoked key."""
        if not self._refused.admits(address_of(request)):
            return
        named, address = _named(request), None if request.client is None else request.client.host
        logger.warning("An API key was refused: %s, from %s", named, address)
        await self._append(Entry("unknown", self._refused.action, named, address))

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Report the head of the log and the number of rows left out now and then; at the end, the remaining number."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
            await self.tell_left_out(all=True)

    async def tell_left_out(self, *, all: bool = False) -> None:
        """Add a row with the number of rows left out since the last time."""
        for sampler in (self._refused, self.sessions, self.exports, self.reads):
            left = sampler.take_left_out(all=all)
            if left:
                count, named = left.total(), dict(left.most_common(_NAMED))
                if sampler is self._refused:
                    logger.warning("%d more API keys were refused, from %s", count, ", ".join(named))
                await self._append(Entry("service", sampler.action, "*", after={"leftOut": count, "of": named}))

    async def tell_head(self) -> None:
        """Write the head of the audit log to the service's log."""
        try:
            end = await self._scheduler.audit.head()
        except MainspringError as error:
            logger.warning("The end of the audit log could not be read: %s", error)
            return
        if end.n:
            logger.info(describe_head(end))

    async def _keep(self) -> None:
        told_at = float("-inf")
        while True:
            if monotonic() - told_at >= HEAD_EVERY:
                told_at = monotonic()
                await self.tell_head()
            await _sleep(_MINUTE)
            await self.tell_left_out()

    async def _append(self, entry: Entry) -> None:
        """Add a row; if that fails, only log it: the answer to the client does not depend on it."""
        try:
            await self._backend.note_change(entry)
        except MainspringError as error:
            logger.warning("A row %s was not added to the audit log: %s", entry.action, error)


def _named(request: HTTPConnection) -> str:
    """The id in the text of the request's key; the id is not secret."""
    text = request.headers.get("authorization", "").partition(" ")[2].strip() or request.headers.get(KEY_HEADER, "")
    try:
        return key_id(text)
    except InvalidKey:
        return "unreadable"
