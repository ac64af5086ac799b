"""Whether callers whose requests are still being answered may go on: a stream, a long poll or a bulk outlives the
moment at which its key was looked at.

While there is any, what each was recognised by is looked up again twice a second, with one read for all of them, in
every process of the service: a key that is revoked, rotated, changed, deleted or expired ends them within a second, and
so does a closed session. While the database does not answer, they are held: nothing is told or stored until it is known
again that they may go on (docs/decisions/0035-callers-are-looked-up-again.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from mainspring.api.middleware.authentication import Authenticator, Lapse, Principal, unknown
from mainspring.clock import monotonic
from mainspring.errors import Unavailable

logger = logging.getLogger("mainspring.api")

LOOK_EVERY = 0.5
LONGEST_UNSURE = 2.0
"""For how many seconds a caller is believed while the database does not answer."""
LONGEST_WAIT = 2.0
"""For how many seconds a bulk or a long poll waits for its caller to be known again before it is answered with 503."""
T = TypeVar("T")


class Stay:
    """One request that goes on for a while."""

    def __init__(self, principal: Principal, certainty: asyncio.Event) -> None:
        self.principal = principal
        self._certainty = certainty
        self.over: asyncio.Future[Lapse] = asyncio.get_running_loop().create_future()
        """Done when the caller is not recognised any more."""

    @property
    def sure(self) -> bool:
        """Whether the caller was looked up lately."""
        return self._certainty.is_set()

    def end(self, lapse: Lapse) -> None:
        if not self.over.done():
            self.over.set_result(lapse)

    def check(self) -> None:
        """Raise a Problem of 401 where the caller is not recognised any more."""
        if self.over.done():
            raise unknown(self.over.result().value)

    async def first(self, *others: asyncio.Future[Any]) -> None:
        """Wait until one of these is done, or the caller is not recognised any more."""
        awaited: set[asyncio.Future[Any]] = {self.over, *others}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)

    async def until_sure(self, *others: asyncio.Future[Any]) -> None:
        """Wait while the caller cannot be looked up, but no longer than until one of these is done or it is known that
        the caller is not recognised any more."""
        if not self.sure:
            known = asyncio.ensure_future(self._certainty.wait())
            try:
                await self.first(known, *others)
            finally:
                known.cancel()

    async def becomes_sure(self) -> bool:
        """Whether the caller is known, if need be after a short wait: when the database is back, requests that the
        service accepts again and looks at its callers follow one another by up to LOOK_EVERY. Raises a Problem of 401
        where the caller is not recognised any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT):
                await self.until_sure()
        self.check()
        return self.sure

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work. Raises a Problem where the caller is not recognised any more before that, and
        Unavailable where that is not known."""
        task = asyncio.ensure_future(work)
        try:
            await self.first(task)
            if not await self.becomes_sure():
                raise unsure()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


def unsure() -> Unavailable:
    """Raised in place of an answer to a caller that cannot be looked up."""
    return Unavailable("The key of this request cannot be looked up again: MongoDB does not answer.")


class Revalidation:
    """All requests of a process that go on for a while, and the eye that is kept on them."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._stays: set[Stay] = set()
        self._certainty = asyncio.Event()
        """Set while callers can be looked up."""
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def stay(self, principal: Principal) -> Iterator[Stay]:
        """Keep an eye on a caller for as long as its request goes on."""
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
        """No error ends it: callers that cannot be looked up are held until they can be."""
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
