"""One connection to MongoDB: its client, its collections with their write concerns, what the server can do.

Made by the Scheduler, once per process and event loop (the driver's client belongs to both). Keeps true: every handle
writes with `w: "majority", j: true` and reads from the primary, whatever the URI or the server says; every operation
has a deadline; the server is 6.0 or newer; the indexes exist.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pymongo
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.errors import (
    ConfigurationError as DriverConfigurationError,
)
from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    InvalidURI,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.operations import IndexModel
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from mainspring import clock as clocks
from mainspring.clock import Clock, ServerClock
from mainspring.config import DEFAULT_DATABASE, Settings
from mainspring.errors import ConfigurationError, Unavailable, UnsupportedServer
from mainspring.store.collections import (
    AUDIT_INDEXES,
    GATE_INDEXES,
    JOB_INDEXES,
    KEY_INDEXES,
    LEDGER_INDEXES,
    REDRIVE_INDEXES,
    REPLY_INDEXES,
    SCHEDULE_INDEXES,
    STAT_INDEXES,
    WORKER_INDEXES,
)

Document = dict[str, Any]
logger = logging.getLogger("mainspring")

OLDEST_SERVER = (6, 0)
DURABLE = WriteConcern("majority", j=True)
# Whatever another program has stored can be read: one date of the year 300,000, or one text that is no UTF-8, must not
# keep a whole batch from being decoded.
CODEC: CodecOptions[Document] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
    unicode_decode_error_handler="replace",
)
_HANDLE: dict[str, Any] = {
    "codec_options": CODEC,
    "write_concern": DURABLE,
    "read_preference": ReadPreference.PRIMARY,
    "read_concern": ReadConcern("local"),
}
_OUTAGE = (
    ConnectionFailure,
    NetworkTimeout,
    NotPrimaryError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    ExecutionTimeout,
    WriteConcernError,
)
# Codes of errors that pass by themselves: an unreachable or changing primary, a killed or conflicting operation.
_PASSING = {
    *(6, 7, 24, 50, 89, 91, 112, 117, 133, 134, 175, 189, 202, 246, 262),
    *(9001, 10058, 10107, 11600, 11601, 11602, 13388, 13435, 13436),
}
# A server that changes says so at once, and an error makes the driver look again; in between it need not ask often.
_LOOK_AT_SERVERS = 30_000
# How often the server's clock is asked at most, until the answer comes within so many seconds.
_READINGS, _GOOD_READING = 3, 0.1
DUPLICATE, _UNAUTHORIZED, _INDEX_CONFLICTS = 11000, 13, (85, 86)
# A hint that names no index is a bad value; without a hint, a server that refuses table scans has no plan.
_NO_SUCH_INDEX = (2, 27, 291)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound every operation inside, turn an outage of whatever kind into `Unavailable`, and lose no cancellation."""
    asked = _asked_to_stop()
    try:
        with pymongo.timeout(seconds):
            yield
    except _OUTAGE as error:
        raise Unavailable(
            f"MongoDB did not answer within {seconds:g} s or cannot be reached: {_brief(error)}"
        ) from error
    except OperationFailure as error:
        if error.has_error_label("RetryableWriteError") or error.code in _PASSING:
            raise Unavailable(f"MongoDB could not carry out the operation now: {error}") from error
        if error.code == _UNAUTHORIZED:
            raise ConfigurationError(f"This MongoDB user lacks a right that Mainspring needs: {error}") from error
        raise
    # The driver waits with `asyncio.wait_for`, which in Python 3.11 forgets a cancellation that comes just as the
    # answer does. Whoever asks in a loop would then go on for ever.
    if _asked_to_stop() > asked:
        raise asyncio.CancelledError


def _asked_to_stop() -> int:
    """How many cancellations of this task are under way; the heartbeat's thread has no task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


class Connection:
    """The open connection. `await Connection.open(…)` makes one."""

    def __init__(
        self,
        client: AsyncMongoClient[Document],
        settings: Settings,
        clock: Clock,
        *,
        owned: bool,
        uri: str | None,
    ) -> None:
        self.client = client
        self.settings = settings
        self.clock = clock
        self.uri = uri
        self._owned = owned
        self._beat_client: MongoClient[Document] | None = None
        self.replica_set = False
        self.sharded = False
        self.version: tuple[int, ...] = ()
        self.db: AsyncDatabase[Document] = client.get_database(_database_name(client, settings), **_HANDLE)
        base = settings.collection
        self.jobs: AsyncCollection[Document] = self.db[base]
        self.keys: AsyncCollection[Document] = self.db[f"{base}.keys"]
        self.workers: AsyncCollection[Document] = self.db[f"{base}.workers"]
        self.locks: AsyncCollection[Document] = self.db[f"{base}.locks"]
        self.schedules: AsyncCollection[Document] = self.db[f"{base}.schedules"]
        self.gates: AsyncCollection[Document] = self.db[f"{base}.gates"]
        self.controls: AsyncCollection[Document] = self.db[f"{base}.controls"]
        self.ledger: AsyncCollection[Document] = self.db[f"{base}.ledger"]
        self.calendars: AsyncCollection[Document] = self.db[f"{base}.calendars"]
        self.redrives: AsyncCollection[Document] = self.db[f"{base}.redrives"]
        self.alerts: AsyncCollection[Document] = self.db[f"{base}.alerts"]
        self.stats: AsyncCollection[Document] = self.db[f"{base}.stats"]
        self.replies: AsyncCollection[Document] = self.db[f"{base}.replies"]
        self.access: AsyncCollection[Document] = self.db[f"{base}.access"]
        self.audit: AsyncCollection[Document] = self.db[f"{base}.audit"]
        self.audit_head: AsyncCollection[Document] = self.db[f"{base}.audit.head"]

    @classmethod
    async def open(
        cls,
        settings: Settings,
        clock: Clock,
        *,
        uri: str | None = None,
        client: AsyncMongoClient[Document] | None = None,
    ) -> Connection:
        """Connect, check the server and make sure of the indexes."""
        owned = client is None
        if client is None:
            client = _make_client(uri or "", settings)
        self = cls(client, settings, clock, owned=owned, uri=uri)
        try:
            with deadline(settings.operation_timeout):
                await self._check_server()
                await self._make_indexes()
        except PyMongoError as error:
            await self.close()
            raise _explain(error) from error
        except Unavailable as error:
            await self.close()
            raise _addressed(error, uri) from error.__cause__
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close what this connection opened; a client that was handed in stays open."""
        if self._beat_client is not None:
            self._beat_client.close()
            self._beat_client = None
        if self._owned:
            await self.client.close()

    def deadline(self) -> Any:
        """The deadline of an ordinary operation."""
        return deadline(self.settings.operation_timeout)

    def deadline_in_transaction(self) -> Any:
        """The same for an operation in a transaction: whoever runs it wants the driver's errors, by whose labels it is
        known what to run again."""
        return pymongo.timeout(self.settings.operation_timeout)

    @property
    def supports_transactions(self) -> bool:
        return self.replica_set or self.sharded

    async def read_clock(self) -> None:
        """Ask the server for its time, so that the clock stays true to it.

        An answer that took long tells little: the way there may have been the election of a primary. Ask again then.
        """
        for _ in range(_READINGS):
            sent = clocks.monotonic()
            hello = await self.client.admin.command("hello")
            self._learn(hello, sent)
            if clocks.monotonic() - sent < _GOOD_READING:
                break

    def beat_handles(self) -> tuple[Collection[Document], Collection[Document]]:
        """The jobs and workers collections on a client of the heartbeat's own, for use in its thread."""
        if self._beat_client is None:
            self._beat_client = self._make_beat_client()
        db = self._beat_client.get_database(self.db.name, **_HANDLE)
        return db[self.jobs.name], db[self.workers.name]

    def _make_beat_client(self) -> MongoClient[Document]:
        limit = int(self.settings.renew_timeout * 1000)
        options: dict[str, Any] = {
            "maxPoolSize": 2,
            # Every beat has a shorter deadline of its own but the first, before which nothing is held.
            "serverSelectionTimeoutMS": int(self.settings.operation_timeout * 1000),
            "connectTimeoutMS": limit,
            "heartbeatFrequencyMS": _LOOK_AT_SERVERS,
        }
        if self.uri is not None:
            return MongoClient(self.uri, **options, appname="mainspring-heartbeat")
        given = dict(getattr(self.client, "_init_kwargs", {}))
        if not given:
            raise ConfigurationError("This client's address cannot be read; give Scheduler the uri as well.")
        given.pop("_connect", None)
        return MongoClient(**{**given, **options})

    async def _check_server(self) -> None:
        hello = await self.client.admin.command("hello")
        await self.read_clock()  # not by the first answer, whose time includes connecting
        self.replica_set = "setName" in hello
        self.sharded = hello.get("msg") == "isdbgrid"
        info = await self.client.admin.command("buildInfo")
        self.version = tuple(info["versionArray"][:3])
        if self.version < OLDEST_SERVER:
            raise UnsupportedServer(
                f"MongoDB {info['version']} is too old; Mainspring needs 6.0 or newer. Upgrade the server, "
                "or leave the URI out to use the embedded one."
            )

    def _learn(self, hello: Mapping[str, Any], sent: float) -> None:
        local_time: datetime = hello["localTime"]
        if local_time.tzinfo is None:
            local_time = local_time.replace(tzinfo=UTC)
        self.clock.learn(local_time, sent, clocks.monotonic())

    async def keep_clock(self, max_age: float = 30.0) -> None:
        """Read the server's clock again when the last reading is old."""
        if isinstance(self.clock, ServerClock) and self.clock.age > max_age:
            with self.deadline():
                await self.read_clock()

    async def mend(self, error: Exception) -> None:
        """Make the indexes anew when an error tells that somebody has dropped them, or the collection, meanwhile."""
        if isinstance(error, OperationFailure) and error.code in _NO_SUCH_INDEX:
            try:
                with self.deadline():
                    await self._make_indexes()
            except Exception as another:
                logger.warning("The indexes could not be made anew: %s", another)

    async def _make_indexes(self) -> None:
        for collection, indexes in (
            (self.jobs, JOB_INDEXES),
            (self.keys, KEY_INDEXES),
            (self.workers, WORKER_INDEXES),
            (self.schedules, SCHEDULE_INDEXES),
            (self.ledger, LEDGER_INDEXES),
            (self.gates, GATE_INDEXES),
            (self.redrives, REDRIVE_INDEXES),
            (self.stats, STAT_INDEXES),
            (self.audit, AUDIT_INDEXES),
            (self.replies, REPLY_INDEXES),
        ):
            await self.make_indexes(collection, indexes)

    async def make_indexes(self, collection: AsyncCollection[Document], indexes: list[IndexModel]) -> None:
        """Make sure of these indexes."""
        try:
            await collection.create_indexes(indexes)
        except OperationFailure as error:
            await self._excuse(collection, indexes, error)

    async def _excuse(
        self, collection: AsyncCollection[Document], indexes: list[IndexModel], error: OperationFailure
    ) -> None:
        """Without the right to make indexes it is enough that they are there."""
        if error.code == _UNAUTHORIZED:
            try:
                present = await collection.index_information()
            except OperationFailure:
                present = {}
            missing = [index.document["name"] for index in indexes if index.document["name"] not in present]
            if not missing:
                return
            raise ConfigurationError(
                f"This MongoDB user may not create indexes, and {collection.name} lacks {', '.join(missing)}; "
                "grant createIndex on it, or let an administrator start Mainspring once."
            ) from error
        if error.code in _INDEX_CONFLICTS:
            raise ConfigurationError(
                f"{collection.full_name} has an index of the same name as one of Mainspring's but of another shape; "
                f"drop it, or choose another collection: {error.details and error.details.get('errmsg')}"
            ) from error
        raise error


def check_client(client: Any) -> None:
    """Refuse a client that cannot be used, before anything is asked of it."""
    if isinstance(client, MongoClient):
        raise ConfigurationError(
            "client must be an AsyncMongoClient (from pymongo import AsyncMongoClient); a blocking MongoClient cannot "
            "be shared with the event loop. Give the uri instead, also for mainspring.sync.Scheduler."
        )
    if not isinstance(client, AsyncMongoClient):
        raise ConfigurationError(f"client must be pymongo's AsyncMongoClient, not {type(client).__name__}.")


def _make_client(uri: str, settings: Settings) -> AsyncMongoClient[Document]:
    limit = int(settings.operation_timeout * 1000)
    try:
        return AsyncMongoClient(
            uri,
            appname="mainspring",
            serverSelectionTimeoutMS=limit,
            connectTimeoutMS=limit,
            heartbeatFrequencyMS=_LOOK_AT_SERVERS,
        )
    except (InvalidURI, DriverConfigurationError, ValueError) as error:
        raise ConfigurationError(f"The MongoDB URI cannot be used: {error}") from error


def _database_name(client: AsyncMongoClient[Document], settings: Settings) -> str:
    if settings.database is not None:
        return settings.database
    return client.get_default_database(DEFAULT_DATABASE).name


def _brief(error: Exception) -> str:
    """What the driver says, without its picture of the whole deployment and the timeouts that it was given."""
    return re.split(r" \(configured timeouts:|, Timeout: ", str(error), maxsplit=1)[0]


def _explain(error: PyMongoError) -> Exception:
    if isinstance(error, OperationFailure) and error.code in (18, 8000):
        return ConfigurationError(f"MongoDB refused the user name or password in the URI: {error}")
    if isinstance(error, OperationFailure) and error.code == _UNAUTHORIZED:
        return ConfigurationError(f"This MongoDB user lacks a right that Mainspring needs (readWrite): {error}")
    if isinstance(error, DriverConfigurationError) and "wire version" in str(error):
        return UnsupportedServer(str(error))
    if isinstance(error, DriverConfigurationError):
        return ConfigurationError(f"The MongoDB URI cannot be used: {error}")
    return Unavailable(f"MongoDB cannot be used: {error}")


def _addressed(error: Unavailable, uri: str | None) -> Unavailable:
    """The error with the address that was tried, where the driver does not tell it: a server that says nothing."""
    if uri is None or not uri.startswith("mongodb://"):
        return error
    hosts = [f"{host}:{port}" if port else str(host) for host, port in parse_uri(uri)["nodelist"]]
    return error if hosts[0] in str(error) else Unavailable(f"{error} ({', '.join(hosts)})")
