"""Reading what the doctor judges about the server: its version, nodes, clock, users, oplog and indexes.

Each read is one command or one seek. What the user of the URI may not read is None; nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, TypeVar

from pymongo.errors import OperationFailure

from mainspring import clock as clocks
from mainspring.errors import ConfigurationError
from mainspring.model.doctor.facts import IndexFact, OplogFacts, ServerFacts, Topology
from mainspring.store.connection import Connection, Document
from mainspring.store.index_definitions import ARRAY_KEYS
from mainspring.store.tls import asks_for_tls, unchecked_by

T = TypeVar("T")
_ALMOST = 0.9
"""The share of its size from which an oplog counts as full: MongoDB drops whole parts of it."""
_BY_ID = "_id_"


class ServerReads:
    """The store's verbs for the doctor's checks of the server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(self, *, embedded: bool) -> ServerFacts:
        """The facts about the server."""
        admin = self._connection.client.admin
        with self._connection.deadline():
            before, sent = clocks.wall(), clocks.monotonic()
            hello = await admin.command("hello", compression=["zlib"])
            trip = timedelta(seconds=clocks.monotonic() - sent)
            login = await _allowed(admin.command("connectionStatus"))
            oplog = await _allowed(self._oplog()) if hello.get("setName") else None
            status = await _allowed(admin.command("replSetGetStatus")) if hello.get("setName") else None
        auth = (login or {}).get("authInfo") or {}
        return ServerFacts(
            version=self._connection.version,
            topology=self._topology(),
            data_members=data_members(hello),
            arbiters=len(hello.get("arbiters", ())),
            down=self._unreached() if status is None else members_down(status),
            majority_lag=majority_lag(hello.get("lastWrite") or {}),
            skew=before + trip / 2 - _aware(hello["localTime"]),
            uncertainty=trip / 2,
            write_concern=_words(self._connection.client.write_concern.document),
            tls=asks_for_tls(self._connection.uri),
            unchecked_by=unchecked_by(self._connection.uri),
            loopback=all(map(is_loopback, self._hosts(hello))),
            users=None if login is None else tuple(str(one.get("user")) for one in auth.get("authenticatedUsers", ())),
            roles=tuple(str(one.get("role")) for one in auth.get("authenticatedUserRoles", ())),
            zlib="zlib" in hello.get("compression", ()),
            embedded=embedded,
            oplog=oplog,
        )

    async def indexes(self) -> list[IndexFact]:
        """The indexes that Mainspring needs, and others on its collections, with the number of their uses."""
        standing = await self._connection.indexes.standing()
        arrays = {(self._connection.jobs.name, index): fields for index, fields in (await self._arrays()).items()}
        found: list[IndexFact] = []
        for collection in dict.fromkeys(name for name, _, _ in standing):
            uses = await self._uses(collection)
            needed = {index: there for name, index, there in standing if name == collection}
            for index, there in needed.items():
                fields = arrays.get((collection, index), ())
                found.append(IndexFact(collection, index, True, there, *_use(uses, index), fields))
            others = [index for index in uses or () if index not in needed and index != _BY_ID]
            found += [IndexFact(collection, index, False, True, *_use(uses, index)) for index in others]
        return found

    async def _uses(self, collection: str) -> dict[str, tuple[int, datetime]] | None:
        """The number of uses of each index, and since when they are counted, summed over the shards."""
        raw = self._connection.db[collection]
        with self._connection.deadline():
            rows = await _allowed(_listed(raw.aggregate([{"$indexStats": {}}])))
        if rows is None:
            return None
        found: dict[str, tuple[int, datetime]] = {}
        for row in rows:
            uses, since = int(row["accesses"]["ops"]), _aware(row["accesses"]["since"])
            other = found.get(row["name"])
            found[row["name"]] = (uses, since) if other is None else (uses + other[0], max(since, other[1]))
        return found

    async def _arrays(self) -> dict[str, tuple[str, ...]]:
        """By index of jobs, the fields among its keys in which arrays were stored that do not belong there. MongoDB
        remembers that for as long as the index exists, and tells it in a plan that is made and not run."""
        jobs = self._connection.jobs.raw
        found: dict[str, tuple[str, ...]] = {}
        with self._connection.deadline():
            for index in await _allowed(_listed(jobs.list_indexes())) or ():
                # A partial index is only in the plan of a query for the documents that it has.
                wanted = {"find": jobs.name, "filter": index.get("partialFilterExpression", {}), "hint": index["name"]}
                told = await _allowed(jobs.database.command("explain", wanted, verbosity="queryPlanner"))
                if told is not None and (fields := array_fields(told, index["name"]) - ARRAY_KEYS):
                    found[index["name"]] = tuple(sorted(fields))
        return found

    async def _oplog(self) -> OplogFacts | None:
        """The span of the oplog, and whether it is full."""
        local = self._connection.client.local
        oplog = local["oplog.rs"]
        ends = [await oplog.find_one({}, {"ts": 1}, sort=[("$natural", order)]) for order in (1, -1)]
        if ends[0] is None or ends[1] is None:
            return None
        sizes = await local.command("collStats", "oplog.rs", scale=1)
        window = ends[1]["ts"].as_datetime() - ends[0]["ts"].as_datetime()
        return OplogFacts(window, is_full(sizes))

    def _unreached(self) -> tuple[str, ...]:
        """The nodes that this process could not reach, where its user may not ask for the state of the replica set."""
        seen = self._connection.client.topology_description.server_descriptions()
        return tuple(f"{host}:{port}" for (host, port), one in sorted(seen.items()) if one.error is not None)

    def _topology(self) -> Topology:
        if self._connection.sharded:
            return "sharded cluster"
        return "replica set" if self._connection.replica_set else "standalone"

    def _hosts(self, hello: Mapping[str, Any]) -> list[str]:
        """The hosts of the server: those of the replica set, or the one that is connected."""
        told = [str(one).rpartition(":")[0] for one in hello.get("hosts", ())]
        return told or [str(host) for host, _ in self._connection.client.nodes] or [""]


async def _allowed(reading: Awaitable[T]) -> T | None:
    """The outcome of a read; None where this user may not read it."""
    try:
        return await reading
    except (ConfigurationError, OperationFailure):
        return None


async def _listed(cursor: Awaitable[Any]) -> list[Document]:
    rows: list[Document] = await (await cursor).to_list()
    return rows


def _use(uses: Mapping[str, tuple[int, datetime]] | None, index: str) -> tuple[int | None, datetime | None]:
    return (None, None) if uses is None else uses.get(index, (None, None))


def array_fields(plan: Any, index: str) -> set[str]:
    """The fields among the keys of an index that are arrays in some document, by a plan that uses the index."""
    if isinstance(plan, list):
        return {field for one in plan for field in array_fields(one, index)}
    if not isinstance(plan, Mapping):
        return set()
    if plan.get("indexName") == index and isinstance(plan.get("multiKeyPaths"), Mapping):
        return {field for arrays in plan["multiKeyPaths"].values() for field in arrays}
    return {field for one in plan.values() for field in array_fields(one, index)}


def data_members(hello: Mapping[str, Any]) -> int:
    """The number of nodes with data; members without a priority are passive, and have data, too."""
    return len(hello.get("hosts", ())) + len(hello.get("passives", ())) or 1


def members_down(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses of the nodes that the others do not reach."""
    return tuple(str(one.get("name")) for one in status.get("members", ()) if not one.get("health", 1))


def is_full(sizes: Mapping[str, Any]) -> bool:
    """Whether the oplog has its largest size, so that MongoDB drops old entries."""
    return bool(sizes["size"] >= _ALMOST * sizes.get("maxSize", float("inf")))


def majority_lag(last_write: Mapping[str, Any]) -> timedelta | None:
    """How far the majority is behind the newest write; None where the server does not say."""
    newest, confirmed = last_write.get("lastWriteDate"), last_write.get("majorityWriteDate")
    return newest - confirmed if isinstance(newest, datetime) and isinstance(confirmed, datetime) else None


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _words(concern: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in concern.items()
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    host = host.strip("[]")
    if host == "localhost" or host.startswith("/"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
