"""Creating missing indexes, in one process, without a deadline, while all other processes work.

A process lists the existing indexes when it connects. Where some are missing, one process creates them: the one that
has the lock `indexes`, whose lease it renews during the build; should it die, the server goes on, and the next process
waits for the same build. A connection waits for it as long as for any operation, and then goes on without: a query that
needs an index which is still being built raises `Unavailable`, as in any other outage, and everything else works
(docs/decisions/0028-indexes-beside-the-work.md).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError
from pymongo.operations import IndexModel

from mainspring.clock import monotonic
from mainspring.errors import ConfigurationError, MainspringError, Unavailable
from mainspring.store.collection import NO_SUCH_INDEX, Collection, deadline
from mainspring.store.index_definitions import EARLIER_FILTERS, EARLIER_KEYS
from mainspring.store.locks import Locks
from mainspring.store.schema import Document

Wanted = Sequence[tuple[Collection, Sequence[IndexModel]]]
logger = logging.getLogger("mainspring")

_LOCK, _HOLD = "indexes", 30.0
_NO_COLLECTION, _CONFLICTS = 26, (85, 86)
# The build was aborted, or conflicts with another one: it is tried again.
_ABORTED = (276, 12586, 12587)
_FIRST_LOOK, _LONGEST_PAUSE = 0.05, 2.0
_TELL_EVERY = 10.0
_TRY_AGAIN = 30.0
_UNBOUNDED = 0.0


class Indexes:
    """The indexes of one connection's collections."""

    def __init__(self, wanted: Wanted, locks: Locks, timeout: float) -> None:
        self._wanted = wanted
        self._locks = locks
        self._timeout = self._patience = timeout
        self._owner = secrets.token_hex(8)
        self._building: asyncio.Task[None] | None = None
        self._waited_for = 0
        self._missing: tuple[str, ...] = ()

    def missing(self) -> tuple[str, ...]:
        """The indexes that are being built now, as far as this process knows."""
        return self._missing

    async def standing(self) -> list[tuple[str, str, bool]]:
        """The collection and the name of each needed index, and whether it can be used now."""
        missing = set(_names(await self._look(self._wanted)))
        wanted = [(collection.name, index.document["name"]) for collection, some in self._wanted for index in some]
        return [(*one, ".".join(one) not in missing) for one in wanted]

    async def names(self, collection: Collection) -> set[str]:
        """The names of all indexes of a collection that can be used now."""
        with deadline(self._timeout):
            return set(await _present(collection))

    async def ensure(self) -> None:
        """Create missing indexes. Returns when all exist, or after a while: then a task goes on building."""
        missing = await self._look(self._wanted)
        if not missing:
            return
        if self._building is None or self._building.done():
            self._missing = _names(missing)
            # In a context of its own: a deadline of the caller must not end the build.
            self._building = asyncio.create_task(self._keep_building(), context=Context())
        self._waited_for += 1
        try:
            done, _ = await asyncio.wait({self._building}, timeout=self._patience)
        finally:
            self._waited_for -= 1
        if done:
            self._building.result()
        else:
            logger.warning(
                "MongoDB is building the indexes %s. This process goes on; operations that need them fail until then.",
                ", ".join(self._missing),
            )

    async def make(self, collection: Collection, indexes: Sequence[IndexModel]) -> None:
        """Create indexes that only some features need, however long it takes."""
        await asyncio.create_task(self._build([(collection, indexes)]), context=Context())

    async def mend(self, error: Exception) -> None:
        """Create the indexes again when an error shows that they, or the collection, were dropped meanwhile."""
        if isinstance(error, OperationFailure) and error.code in NO_SUCH_INDEX:
            try:
                await self.ensure()
            except (MainspringError, PyMongoError) as another:
                logger.warning("The dropped indexes could not be created again: %s", another)

    async def close(self) -> None:
        """Stop waiting for a build, which goes on in the server."""
        building, self._building = self._building, None
        if building is not None:
            building.cancel()
            with suppress(asyncio.CancelledError, MainspringError, PyMongoError):
                await building

    # -- building --------------------------------------------------------------------------------------------------

    async def _keep_building(self) -> None:
        """Build until all indexes exist. An error is raised while a caller waits; later it is logged and retried."""
        while True:
            try:
                await self._build(self._wanted)
                self._missing = ()
                return
            except (MainspringError, PyMongoError) as error:
                if self._waited_for:
                    raise
                logger.error("The indexes %s are not there yet: %s", ", ".join(self._missing), error)
            await asyncio.sleep(_TRY_AGAIN)

    async def _build(self, wanted: Wanted) -> None:
        """Create missing indexes, or wait for the process that does."""
        pause, told_at = _FIRST_LOOK, monotonic()
        while missing := await self._look(wanted):
            if await self._locks.take(_LOCK, self._owner, _HOLD):
                try:
                    for collection, indexes in await self._look(wanted):
                        await self._create(collection, indexes)
                    return
                finally:
                    with suppress(MainspringError):  # the lock ends by itself
                        await self._locks.drop(_LOCK, self._owner)
            if monotonic() >= told_at + _TELL_EVERY:
                told_at = monotonic()
                logger.info("Another process creates the indexes %s", ", ".join(_names(missing)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _create(self, collection: Collection, indexes: Sequence[IndexModel]) -> None:
        """Create indexes of one collection, renew the lock meanwhile and log the progress."""
        began, names = monotonic(), _names([(collection, indexes)])
        creating = asyncio.ensure_future(self._send(collection, indexes))
        try:
            while not (await asyncio.wait({creating}, timeout=_TELL_EVERY))[0]:
                with suppress(MainspringError):  # the build goes on even if the lock is lost
                    await self._locks.take(_LOCK, self._owner, _HOLD)
                far, seconds = await _progress(collection), monotonic() - began
                logger.info("Building the indexes %s: %s after %.0f s", ", ".join(names), far, seconds)
            creating.result()
            self._missing = tuple(name for name in self._missing if name not in names)
        finally:
            creating.cancel()

    async def _send(self, collection: Collection, indexes: Sequence[IndexModel]) -> None:
        try:
            with deadline(_UNBOUNDED):
                await _drop_earlier(collection, indexes)
                await collection.raw.create_indexes(list(indexes))
        except ConfigurationError as error:
            raise ConfigurationError(
                f"This MongoDB user may not create indexes, and {', '.join(_names([(collection, indexes)]))} are "
                "missing; grant createIndex, or let an administrator start Mainspring once."
            ) from error
        except OperationFailure as error:
            raise _explained(collection, indexes, error) from error

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _look(self, wanted: Wanted) -> list[tuple[Collection, list[IndexModel]]]:
        """The missing indexes. An index with the same name and another shape counts as missing: creating it fails with
        the server's reason."""
        missing = []
        with deadline(self._timeout):
            for collection, indexes in wanted:
                present = await _present(collection)
                lacking = [index for index in indexes if not _is_same(index, present)]
                if lacking:
                    missing.append((collection, lacking))
        return missing


async def _present(collection: Collection) -> dict[str, Mapping[str, Any]]:
    """The indexes that can be used; the driver's own list includes indexes that are still being built."""
    try:
        listed = await collection.raw.database.command("listIndexes", collection.name, includeBuildUUIDs=True)
    except OperationFailure as error:
        if error.code == _NO_COLLECTION:
            return {}
        raise
    return {index["name"]: index for index in listed["cursor"]["firstBatch"] if "buildUUID" not in index}


def _is_same(index: IndexModel, present: Mapping[str, Mapping[str, Any]]) -> bool:
    found, asked = present.get(index.document["name"]), index.document
    if found is None or list(found["key"].items()) != list(asked["key"].items()):
        return False
    return all(found.get(option) == asked.get(option) for option in ("partialFilterExpression", "expireAfterSeconds"))


async def _drop_earlier(collection: Collection, indexes: Sequence[IndexModel]) -> None:
    """Drop an index that an earlier version of Mainspring has made under the same name, with another shape."""
    present = await _present(collection)
    for name in [index.document["name"] for index in indexes]:
        if name in present and _is_earlier(name, present[name]):
            logger.info("Replacing the index %s.%s of an earlier version", collection.name, name)
            await collection.raw.drop_index(name)


def _is_earlier(name: str, found: Mapping[str, Any]) -> bool:
    same_filter = found.get("partialFilterExpression") in EARLIER_FILTERS.get(name, ())
    return same_filter or list(found["key"]) == EARLIER_KEYS.get(name)


def _names(wanted: Wanted) -> tuple[str, ...]:
    return tuple(f"{collection.name}.{index.document['name']}" for collection, some in wanted for index in some)


async def _progress(collection: Collection) -> str:
    """The server's progress with a build, where this user has the right to read it."""
    stages: list[Document] = [
        {"$currentOp": {"allUsers": True, "idleConnections": False}},
        {"$match": {"ns": collection.full_name, "progress.total": {"$gt": 0}}},
    ]
    try:
        with deadline(_TELL_EVERY):
            found = await (await collection.raw.database.client.admin.aggregate(stages)).to_list(1)
    except (MainspringError, PyMongoError):
        return "under way"
    return f"{found[0]['progress']['done'] / found[0]['progress']['total']:.0%} scanned" if found else "under way"


def _explained(collection: Collection, indexes: Sequence[IndexModel], error: OperationFailure) -> Exception:
    said = (error.details or {}).get("errmsg")
    if error.code in _ABORTED:
        return Unavailable(f"MongoDB has ended the building of indexes on {collection.full_name}: {said}")
    if error.code in _CONFLICTS:
        return ConfigurationError(
            f"{collection.full_name} has an index of the same name as one of Mainspring's but of another shape; "
            f"drop it, or choose another collection: {said}"
        )
    names = ", ".join(_names([(collection, indexes)]))
    return ConfigurationError(f"MongoDB refuses to create the indexes {names}: {said}")
