"""One connection to MongoDB: its client, its collections with their write concerns, the server's capabilities.

Made by the Scheduler, once per process and event loop (the driver's client belongs to both). Keeps true: every handle
writes with `w: "majority", j: true` and reads from the primary, whatever the URI or the server says; every operation
has a deadline; the server is 6.0 or newer; the indexes exist, or are being built (`store/indexes.py`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pymongo
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection as BlockingCollection
from pymongo.errors import (
    ConfigurationError as DriverConfigurationError,
)
from pymongo.errors import (
    InvalidURI,
    OperationFailure,
    PyMongoError,
)
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from mainspring import clock as clocks
from mainspring.clock import Clock, ServerClock
from mainspring.config.settings import DEFAULT_DATABASE, Settings
from mainspring.errors import ConfigurationError, Unavailable, UnsupportedServer
from mainspring.model.schema_versions import refusal
from mainspring.store.collection import UNAUTHORIZED, Collection, deadline
from mainspring.store.foreign.mirror import Mirror
from mainspring.store.index_definitions import (
    AUDIT_INDEXES,
    CONTROL_INDEXES,
    GATE_INDEXES,
    JOB_INDEXES,
    KEY_INDEXES,
    LEDGER_INDEXES,
    OPERATION_INDEXES,
    REDRIVE_INDEXES,
    REPLY_INDEXES,
    SCHEDULE_INDEXES,
    SESSION_INDEXES,
    SIGNAL_INDEXES,
    STAT_INDEXES,
    WORKER_INDEXES,
    map_indexes,
)
from mainspring.store.indexes import Indexes
from mainspring.store.locks import Locks
from mainspring.store.schema import SCHEMA
from mainspring.store.schema import Document as Document
from mainspring.store.tls import cure_of, unusable_file

logger = logging.getLogger("mainspring")

OLDEST_SERVER = (6, 0)
DURABLE = WriteConcern("majority", j=True)
# Any value of another program can be decoded: one date of the year 300,000, or one text that is no UTF-8, must not fail
# a whole batch.
CODEC: CodecOptions[Document] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
    unicode_decode_error_handler="replace",
)
_HANDLE: Document = {
    "codec_options": CODEC,
    "write_concern": DURABLE,
    "read_preference": ReadPreference.PRIMARY,
    "read_concern": ReadConcern("local"),
}
# A server reports a change at once, and an error makes the driver check again; in between it need not check often.
_LOOK_AT_SERVERS = 30_000
# The most readings of the server's clock, until a reply comes within this many seconds.
_READINGS, _GOOD_READING = 3, 0.1


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
        self.set_name: str | None = None
        self.sharded = False
        self.version: tuple[int, ...] = ()
        self.mirror = Mirror(settings.field_map)
        self.db: AsyncDatabase[Document] = client.get_database(_database_name(client, settings), **_HANDLE)
        self.jobs = self._collection()
        self.keys = self._collection("keys")
        self.workers = self._collection("workers")
        self.locks = self._collection("locks")
        self.schedules = self._collection("schedules")
        self.gates = self._collection("gates")
        self.controls = self._collection("controls")
        self.ledger = self._collection("ledger")
        self.calendars = self._collection("calendars")
        self.redrives = self._collection("redrives")
        self.operations = self._collection("operations")
        self.alerts = self._collection("alerts")
        self.alert_rules = self._collection("alert_rules")
        self.stats = self._collection("stats")
        self.replies = self._collection("replies")
        self.service = self._collection("service")
        self.access = self._collection("access")
        self.sessions = self._collection("sessions")
        self.audit = self._collection("audit")
        self.audit_head = self._collection("audit.head")
        self.secrets = self._collection("secrets")
        self.signals = self._collection("signals")
        wanted = [
            (self.jobs, JOB_INDEXES),
            (self.keys, KEY_INDEXES),
            (self.workers, WORKER_INDEXES),
            (self.schedules, SCHEDULE_INDEXES),
            (self.ledger, LEDGER_INDEXES),
            (self.gates, GATE_INDEXES),
            (self.controls, CONTROL_INDEXES),
            (self.redrives, REDRIVE_INDEXES),
            (self.operations, OPERATION_INDEXES),
            (self.stats, STAT_INDEXES),
            (self.audit, AUDIT_INDEXES),
            (self.replies, REPLY_INDEXES),
            (self.sessions, SESSION_INDEXES),
            (self.signals, SIGNAL_INDEXES),
            *((self.jobs, map_indexes(map)) for map in (settings.field_map,) if map is not None),
        ]
        self.indexes = Indexes(wanted, Locks(self.locks, clock), settings.operation_timeout)

    @classmethod
    async def open(
        cls,
        settings: Settings,
        clock: Clock,
        *,
        uri: str | None = None,
        client: AsyncMongoClient[Document] | None = None,
    ) -> Connection:
        """Connect, check the server and create missing indexes."""
        owned = client is None
        if client is None:
            client = _make_client(uri or "", settings)
        self = cls(client, settings, clock, owned=owned, uri=uri)
        try:
            with deadline(settings.operation_timeout):
                await self._check_server()
                await self._check_schema()
            await self.indexes.ensure()
        except PyMongoError as error:
            await self.close()
            raise _explain(error) from error
        except Unavailable as error:
            await self.close()
            raise _told(error, uri) from error.__cause__
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close the clients that this connection opened; a client that the program passed stays open."""
        await self.indexes.close()
        if self._beat_client is not None:
            self._beat_client.close()
            self._beat_client = None
        if self._owned:
            await self.client.close()

    def deadline(self, session: AsyncClientSession | None = None) -> AbstractContextManager[None]:
        """The deadline of an operation, or of several that share it. In a transaction the driver's errors are raised as
        they are: their labels say what to run again."""
        timeout = self.settings.operation_timeout
        return deadline(timeout, self.indexes.missing) if session is None else pymongo.timeout(timeout)

    def _collection(self, suffix: str = "") -> Collection:
        name = ".".join(filter(None, (self.settings.collection, suffix)))
        return Collection(self.db[name], self.deadline)

    @property
    def supports_transactions(self) -> bool:
        return self.replica_set or self.sharded

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncClientSession | None]:
        """A session whose reads all see the same moment, as a majority has it. None on a standalone server, whose reads
        are in order at least."""
        if not self.supports_transactions:
            yield None
            return
        async with self.client.start_session(snapshot=True) as session:
            yield session

    async def read_clock(self) -> None:
        """Read the server's time, so that the clock follows it.

        A slow reply is imprecise: it may have waited for the election of a primary. Then the time is read again.
        """
        for _ in range(_READINGS):
            sent = clocks.monotonic()
            hello = await self.client.admin.command("hello")
            self._learn(hello, sent)
            if clocks.monotonic() - sent < _GOOD_READING:
                break

    def beat_handles(self) -> tuple[BlockingCollection[Document], BlockingCollection[Document]]:
        """The jobs and workers collections on a client of the heartbeat's own, for use in its thread."""
        if self._beat_client is None:
            self._beat_client = self._make_beat_client()
        db = self._beat_client.get_database(self.db.name, **_HANDLE)
        return db[self.jobs.name], db[self.workers.name]

    def _make_beat_client(self) -> MongoClient[Document]:
        limit = int(self.settings.renew_timeout * 1000)
        options: Document = {
            "maxPoolSize": 2,
            # Every beat but the first has a shorter deadline of its own; before the first, the worker has no slots.
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
        await self.read_clock()  # not from the first reply, whose latency includes connecting
        self.set_name = hello.get("setName")
        self.replica_set = self.set_name is not None
        self.sharded = hello.get("msg") == "isdbgrid"
        info = await self.client.admin.command("buildInfo")
        self.version = tuple(info["versionArray"][:3])
        if self.version < OLDEST_SERVER:
            raise UnsupportedServer(
                f"MongoDB {info['version']} is too old; Mainspring needs 6.0 or newer. Upgrade the server, "
                "or leave the URI out to use the embedded one."
            )

    async def _check_schema(self) -> None:
        """Refuse a database that only newer libraries may use."""
        record = await self.locks.find_one({"_id": SCHEMA}, {"minimum": 1})
        reason = None if record is None else refusal(record.get("minimum"))
        if reason is not None:
            raise ConfigurationError(reason)

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


def check_client(client: Any) -> None:
    """Refuse a client that cannot be used, before it sends anything."""
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
    except OSError as error:
        raise ConfigurationError(unusable_file(uri, error)) from error


def _database_name(client: AsyncMongoClient[Document], settings: Settings) -> str:
    if settings.database is not None:
        return settings.database
    return client.get_default_database(DEFAULT_DATABASE).name


def _explain(error: PyMongoError) -> Exception:
    if isinstance(error, OperationFailure) and error.code in (18, 8000):
        return ConfigurationError(f"MongoDB refused the user name or password in the URI: {error}")
    if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
        return ConfigurationError(f"This MongoDB user lacks a right that Mainspring needs (readWrite): {error}")
    if isinstance(error, DriverConfigurationError) and "wire version" in str(error):
        return UnsupportedServer(str(error))
    if isinstance(error, DriverConfigurationError):
        return ConfigurationError(f"The MongoDB URI cannot be used: {error}")
    return Unavailable(f"MongoDB cannot be used: {error}")


def _told(error: Unavailable, uri: str | None) -> Unavailable:
    """The error with the address that was tried, where the driver does not name it, such as of a server that does not
    reply; and with what to do where TLS is the reason."""
    if uri is None:
        return error
    text, cure = str(error), cure_of(str(error), uri)
    if uri.startswith("mongodb://"):
        hosts = [f"{host}:{port}" if port else str(host) for host, port in parse_uri(uri)["nodelist"]]
        text = text if hosts[0] in text else f"{text} ({', '.join(hosts)})"
    return Unavailable(text if cure is None else f"{text.rstrip(' .:')}. {cure}")
