"""The feed of changes: one change stream for all followers in this process, and one more for each that catches up.

A new follower joins the shared feed. A follower that comes back reads on a stream of its own from its old place, joins
the shared feed when it is close to now, reads on until it meets the changes that the feed has kept for it since, and
goes on with these: no change is missed or sent twice. A follower that reads too slowly is dropped with a gap, and can
come back in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta

from mainspring.engine.service import cancel_task
from mainspring.errors import MainspringError, Unavailable
from mainspring.model.views.changes import BEAT, GAP, Change, ChangeFilter
from mainspring.store import Store
from mainspring.store.views.change_stream import ChangeReader, HistoryLost

logger = logging.getLogger("mainspring")

MOST_KEPT = 1000
"""The most changes that wait for a reader; a reader with more is dropped."""
# The waiting changes at which the stream pauses for its readers, and the longest pause, in turns of the event loop.
_CROWD, _TURNS = MOST_KEPT // 10, 10
# The most changes by which the shared stream may be behind a reader that catches up.
_REMEMBERED = 10_000
_PATIENCE, _SHORT = 1.0, 0.1
_NEAR = timedelta(seconds=2)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class Reader:
    """One follower, and the changes that wait for it."""

    def __init__(self, interest: ChangeFilter) -> None:
        self._interest = interest
        self._news = asyncio.Event()
        self.waiting: deque[Change] = deque()
        self.slow = False
        self.ended = False

    def give(self, changes: Sequence[Change]) -> None:
        wanted = () if self.slow else [change for change in changes if self._interest.wants(change)]
        if not wanted:
            return
        if len(self.waiting) + len(wanted) > MOST_KEPT:
            self.waiting.clear()
            self.slow = True
        else:
            self.waiting.extend(wanted)
        self._news.set()

    def end(self) -> None:
        """End the reader: no more changes follow."""
        self.ended = True
        self._news.set()

    def skip(self, seen: set[str | None]) -> None:
        """Drop changes that the reader has read on its own stream already."""
        while self.waiting and self.waiting[0].id in seen:
            self.waiting.popleft()

    async def any_within(self, timeout: float | None) -> bool:
        """Whether a change arrives within so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


class ChangeFeed:
    """The one stream that all readers of a process share. It is open while there are readers."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.readers: set[Reader] = set()
        self._task: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._place: str | None = None

    # -- following -------------------------------------------------------------------------------------------------

    async def follow(
        self, interest: ChangeFilter, after: str | None, beat: float | None
    ) -> AsyncGenerator[Change, None]:
        """Changes from now on, or after a place. With `beat`, also a beat after each silence of so many seconds."""
        self.store.change_stream.check()
        reader = Reader(interest)
        seen: deque[str | None] = deque(maxlen=_REMEMBERED)
        try:
            if after is None:
                await self._join(reader)
            else:
                async for change in self._catch_up(reader, interest, after, seen):
                    if change.type != BEAT or beat is not None:
                        yield change
            if beat is not None and after is None:
                yield self._silence()
            async for change in self._live(reader, set(seen), beat):
                yield change
        finally:
            self.readers.discard(reader)

    async def _catch_up(
        self, reader: Reader, interest: ChangeFilter, after: str, seen: deque[str | None]
    ) -> AsyncIterator[Change]:
        try:
            async with self.store.change_stream.open(after, _SHORT) as stream:
                yield Change(BEAT, after, self.store.clock.now())
                while True:
                    changes = await stream.batch()
                    if not changes and reader in self.readers:
                        return
                    if not changes:
                        await self._join(reader)  # and read once more, for changes from before the reader joined
                    for change in changes:
                        if reader not in self.readers and self._is_near(change):
                            await self._join(reader)
                        if reader.waiting:
                            reader.skip(set(seen))
                        if reader.waiting and reader.waiting[0].id == change.id:
                            return
                        if interest.wants(change):
                            seen.append(change.id)
                            yield change
        except HistoryLost:
            await self._join(reader)
            yield Change(GAP, self._place, self.store.clock.now(), "history")

    async def _live(self, reader: Reader, seen: set[str | None], beat: float | None) -> AsyncIterator[Change]:
        while not reader.ended:
            reader.skip(seen)
            while reader.waiting:
                seen.clear()
                yield reader.waiting.popleft()
            if reader.slow:
                yield Change(GAP, None, self.store.clock.now(), "slow")
                return
            if not await reader.any_within(beat):
                yield self._silence()

    def _silence(self) -> Change:
        """The beat of a reader without waiting changes: it has received all changes up to the feed's place."""
        return Change(BEAT, self._place, self.store.clock.now())

    def _is_near(self, change: Change) -> bool:
        return self.store.clock.now() - change.at < _NEAR

    # -- the stream ------------------------------------------------------------------------------------------------

    async def _join(self, reader: Reader) -> None:
        """Give a reader all changes from here on. Raises Unavailable if no stream can be opened."""
        self.readers.add(reader)
        if self._task is None or self._task.done():
            self._opened.clear()
            self._place = None
            self._task = asyncio.create_task(self._run(), name="mainspring-following")
        try:
            async with asyncio.timeout(self.store.connection.settings.operation_timeout):
                await self._opened.wait()
        except TimeoutError:
            raise Unavailable("The stream of changes cannot be opened now.") from None

    async def close(self) -> None:
        """End all readers."""
        for reader in self.readers:
            reader.end()
        self.readers.clear()
        task, self._task = self._task, None
        if task is not None:
            await cancel_task(task)

    async def _run(self) -> None:
        """Read the stream for as long as there are readers. No error ends it."""
        place: str | None = None
        pause = _FIRST_PAUSE
        while self.readers:  # a reader may have joined while the stream was being closed: go on from its place
            try:
                async with self.store.change_stream.open(place, _PATIENCE) as stream:
                    await self._begin(stream, gap=place is None and self._opened.is_set())
                    pause = _FIRST_PAUSE
                    while self.readers:
                        await self._tell(await stream.batch())
                        place = self._place = stream.place
            except (HistoryLost, MainspringError) as error:
                logger.info("The stream of changes broke (%s); it is opened anew", error)
                place = self._place if isinstance(error, Unavailable) else None
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _begin(self, stream: ChangeReader, *, gap: bool) -> None:
        self._place = stream.place
        if gap:
            await self._tell([Change(GAP, self._place, self.store.clock.now(), "history")])
        self._opened.set()

    async def _tell(self, changes: Sequence[Change]) -> None:
        """Give changes to the readers, so many at a time as they have room for, and let them read in between."""
        for start in range(0, len(changes), _CROWD):
            some = changes[start : start + _CROWD]
            for reader in self.readers:
                reader.give(some)
            await self._let_read()

    async def _let_read(self) -> None:
        """Pause for the readers, but not for one that reads nothing: changes that were read together come in one burst,
        without a pause in which a reader could take them."""
        for _ in range(_TURNS):
            if all(len(reader.waiting) < _CROWD for reader in self.readers):
                return
            await asyncio.sleep(0)
