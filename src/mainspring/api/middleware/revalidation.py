"""Repeated checks of callers whose requests last long: a stream, a long poll or a bulk may outlive its key.

While there are such requests, every process of the service looks up their keys and sessions again twice a second, with
one read for all of them: a key that is revoked, rotated, changed, deleted or expired ends its requests within a second,
and so does a closed session. While the database does not answer, the requests are suspended: nothing is sent or stored
until a lookup shows that the caller is valid (docs/decisions/0035-callers-are-looked-up-again.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from mainspring.api.middleware.authentication import Authenticator, Lapse, Principal, unknown
from mainspring.clock import monotonic
from mainspring.engine.service import cancel_task
from mainspring.errors import Unavailable

logger = logging.getLogger("mainspring.api")

LOOK_EVERY = 0.5
LONGEST_UNSURE = 2.0
"""For how many seconds a caller counts as valid while the database does not answer."""
LONGEST_WAIT = 2.0
"""For how many seconds a bulk or a long poll waits for the next lookup of its caller before it is answered with 503."""
T = TypeVar("T")


class Stay:
    """One request that lasts long."""

    def __init__(self, principal: Principal, certainty: asyncio.Event) -> None:
        self.principal = principal
        self._certainty = certainty
        self.over: asyncio.Future[Lapse] = asyncio.get_running_loop().create_future()
        """Done when the caller is no longer valid."""

    @property
    def sure(self) -> bool:
        """Whether the lookups of callers have succeeded lately."""
        return self._certainty.is_set()

    def end(self, lapse: Lapse) -> None:
        if not self.over.done():
            self.over.set_result(lapse)

    def check(self) -> None:
        """Raise a Problem of 401 if the caller is no longer valid."""
        if self.over.done():
            raise unknown(self.over.result().value)

    async def first(self, *others: asyncio.Future[Any]) -> None:
        """Wait until one of these is done, or the caller is no longer valid."""
        awaited: set[asyncio.Future[Any]] = {self.over, *others}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)

    async def until_sure(self, *others: asyncio.Future[Any]) -> None:
        """Wait while the caller cannot be looked up, but no longer than until one of these is done or the caller is no
        longer valid."""
        if not self.sure:
            known = asyncio.ensure_future(self._certainty.wait())
            try:
                await self.first(known, *others)
            finally:
                known.cancel()

    async def becomes_sure(self) -> bool:
        """Whether the caller could be looked up, if necessary after a short wait: when the database is back, the
        service may accept a request up to LOOK_EVERY before its next lookup. Raise a Problem of 401 if the caller is no
        longer valid."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT):
                await self.until_sure()
        self.check()
        return self.sure

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await some work and return its result. Raise a Problem if the caller becomes invalid before that, and
        Unavailable if the caller cannot be looked up."""
        task = asyncio.ensure_future(work)
        try:
            await self.first(task)
            if not await self.becomes_sure():
                raise unsure()
            return await task
        finally:
            if not task.done():
                await cancel_task(task)


def unsure() -> Unavailable:
    """The error that replaces the answer to a caller that cannot be looked up."""
    return Unavailable("The key of this request cannot be looked up again: MongoDB does not answer.")


class Revalidation:
    """All long requests of a process, and the loop that looks up their callers."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._stays: set[Stay] = set()
        self._certainty = asyncio.Event()
        """Set while callers can be looked up."""
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def stay(self, principal: Principal) -> Iterator[Stay]:
        """Look up a caller again and again for the length of the block."""
        stay = Stay(principal, self._certainty)
        self._stays.add(stay)
        if self._looking is None:
            self._certainty.set()
            self._looking = asyncio.create_task(self._keep_looking(), name="mainspring-standing")
        try:
            yield stay
        finally:
            self._stays.discard(stay)
            stay.over.cancel()
            if not self._stays:
                self._looking.cancel()
                self._looking = None

    async def _keep_looking(self) -> None:
        """Look up the callers in a loop, which no error ends: requests wait until their callers can be looked up."""
        sure_at = monotonic()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._look()
                sure_at = monotonic()
                self._certainty.set()
            except Exception as error:
                logger.warning("Callers of streams could not be looked up again: %s", error)
                if monotonic() - sure_at >= LONGEST_UNSURE:
                    self._certainty.clear()

    async def _look(self) -> None:
        stays = list(self._stays)
        lapses = await asyncio.gather(*(self._authenticator.lapse(stay.principal) for stay in stays))
        for stay, lapse in zip(stays, lapses, strict=True):
            if lapse is not None:
                stay.end(lapse)
