"""Findings about the server: version, topology, writes, clock, oplog, indexes, TLS, users. Pure.

Each function returns the findings of one check, at least one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.model.doctor.advisories import ADVISORIES, ENDED, Advisory
from mainspring.model.doctor.facts import IndexFact, ServerFacts
from mainspring.model.doctor.findings import Finding
from mainspring.model.views.judging import duration_of

_SKEW = timedelta(seconds=1)
_LAG = timedelta(seconds=10)
_SHORT_OPLOG = timedelta(hours=2)
_LONG_ENOUGH = timedelta(hours=1)
"""For how long the server must have counted before an index without a use counts as unused."""
_ALWAYS_USED = ("claim", "lease")
"""The indexes that a live worker reads all the time."""
_MIGHTY = frozenset({"root", "__system", "dbOwner", "dbAdminAnyDatabase", "userAdminAnyDatabase"})


def check_version(server: ServerFacts) -> Iterator[Finding]:
    """The version of the server, and the advisories that concern it."""
    version = ".".join(map(str, server.version))
    known = [one for one in ADVISORIES if one.affects(server.version) and _concerns(one, server)]
    for advisory in known:
        status = "problem" if not server.loopback else "warning"
        text = f"MongoDB {version} lacks the fix of {advisory.id}: {advisory.text}."
        cure = f"{advisory.cure(server.version)}".capitalize()
        if advisory.needs_zlib:
            cure += ", or start it with --networkMessageCompressors disabled"
        yield Finding("server version", status, text, f"{cure}.")  # type: ignore[arg-type]
    ended = ENDED.get((server.version[0], server.version[1]))
    if ended is not None and not server.embedded:
        text = f"MongoDB {server.version[0]}.{server.version[1]} has had no fixes since {ended}."
        yield Finding("server version", "warning", text, "Upgrade to a series that MongoDB supports, such as 8.0.")
    elif not known:
        yield Finding("server version", "ok", f"MongoDB {version}; none of the advisories known here concerns it.")


def _concerns(advisory: Advisory, server: ServerFacts) -> bool:
    if advisory.needs_zlib:
        return server.zlib is not False
    if advisory.needs_user and server.embedded:
        return False
    return not advisory.needs_tls or server.tls is True


def check_topology(server: ServerFacts) -> Iterator[Finding]:
    """Replica set or standalone, and how many nodes may be lost."""
    if server.topology == "standalone":
        yield Finding(
            "topology",
            "problem" if not server.loopback else "warning",
            "The server is standalone: a job is lost with its disk, and there are no transactions, no change streams "
            "and no exactly-once jobs.",
            "Make it a replica set: start mongod with --replSet and call rs.initiate() once.",
        )
        return
    if server.topology == "sharded cluster":
        yield Finding("topology", "ok", "The server is a sharded cluster.")
        return
    members = server.data_members
    if server.down:
        text = f"{len(server.down)} of the {members + server.arbiters} nodes of the replica set "
        text += f"{'does' if len(server.down) == 1 else 'do'} not answer: {', '.join(server.down)}. Without a majority "
        text += "of nodes there is no primary, and all work stops."
        yield Finding("topology", "problem", text, "Start it again, or replace it: rs.remove(), then rs.add().")
    elif members == 1:
        text = "The replica set has one node: jobs survive a crash of the server, not the loss of its disk."
        cure = "" if server.embedded else "Add two nodes for production: rs.add()."
        yield Finding("topology", "ok" if server.embedded else "warning", text, cure)
    elif server.arbiters:
        text = (
            f"The replica set has {members} nodes with data and {server.arbiters} arbiter: while a node with data is "
        )
        text += "down, writes wait for a majority that the arbiter cannot give."
        yield Finding("topology", "warning", text, "Replace the arbiter by a node with data.")
    elif members == 2:
        text = "The replica set has two nodes: when either is down, there is no primary."
        yield Finding("topology", "warning", text, "Add a third node: rs.add().")
    else:
        yield Finding("topology", "ok", f"The replica set has {members} nodes with data.")


def check_writes(server: ServerFacts) -> Iterator[Finding]:
    """Whether a majority confirms writes, and the write concern of the URI."""
    if server.majority_lag is not None and server.majority_lag > _LAG:
        yield Finding(
            "write concern",
            "problem",
            f"The majority of the replica set is {duration_of(server.majority_lag)} behind: schedule() and every "
            "worker wait for it.",
            "Check rs.status(): a node is down, or cannot keep up.",
        )
    elif server.write_concern:
        yield Finding(
            "write concern",
            "ok",
            f"Mainspring writes with majority and journal; the {server.write_concern} of the URI concerns only your "
            "own writes.",
        )
    else:
        yield Finding(
            "write concern", "ok", "Mainspring writes with majority and journal, and the majority is up to date."
        )


def check_clock(server: ServerFacts) -> Iterator[Finding]:
    """The clock of this machine beside the server's."""
    skew = abs(server.skew)
    if skew > _SKEW + server.uncertainty:
        side = "ahead of" if server.skew > timedelta(0) else "behind"
        yield Finding(
            "clock skew",
            "warning",
            f"The clock of this machine is {duration_of(skew)} {side} the server's. Mainspring goes by the server's; a "
            "run_at that your program computes from datetime.now() is wrong by as much.",
            "Synchronise the clocks (NTP), and use delay= or scheduler.now() for times.",
        )
    else:
        yield Finding("clock skew", "ok", f"The clocks agree to {max(1, round(skew.total_seconds() * 1000))} ms.")


def check_oplog(server: ServerFacts) -> Iterator[Finding]:
    """How long a follower of changes may be away."""
    if server.topology == "standalone":
        yield Finding("oplog", "skipped", "A standalone server has no oplog.")
    elif server.oplog is None:
        yield Finding(
            "oplog",
            "skipped",
            "The oplog cannot be read by this user.",
            "Grant read on the database local to the user of the doctor.",
        )
    elif server.oplog.full and server.oplog.window < _SHORT_OPLOG:
        yield Finding(
            "oplog",
            "warning",
            f"The oplog reaches back {duration_of(server.oplog.window)}: a node or a follower of changes that is away "
            "for longer cannot catch up.",
            "Raise it: db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 24}).",
        )
    else:
        more = "" if server.oplog.full else ", and it is not full yet"
        yield Finding("oplog", "ok", f"The oplog reaches back {duration_of(server.oplog.window)}{more}.")


def check_indexes(indexes: tuple[IndexFact, ...], at: datetime, *, workers: bool) -> Iterator[Finding]:
    """Missing indexes, needed ones that cannot sort or that no query uses, and others that cost writes."""
    missing = [one for one in indexes if one.needed and not one.present]
    if missing:
        yield Finding(
            "indexes",
            "problem",
            f"These indexes are missing or being built: {_names(missing)}.",
            "Start a worker, which creates them, and look for 'Building the indexes' in its log.",
        )
    spoiled = [one for one in indexes if one.arrays]
    yield from map(_spoiled, spoiled)
    idle = [one for one in indexes if one.needed and one.name in _ALWAYS_USED and _unused(one, at)]
    if idle and workers:
        text = f"Workers are alive, and no query has used {_names(idle)} for more than an hour."
        yield Finding("indexes", "warning", text, "Restart the workers, and look at their logs for errors.")
    others = [one for one in indexes if not one.needed]
    unused = [one for one in others if _unused(one, at)]
    if unused:
        text = (
            f"Mainspring does not need {_names(unused)}, and no query has used them for more than an hour; every write "
        )
        text += "keeps them."
        yield Finding("indexes", "warning", text, "Drop them, unless one of your programs needs them.")
    if not missing and not spoiled and not (idle and workers) and not unused:
        needed = [one for one in indexes if one.needed]
        used = sum(bool(one.uses) for one in needed)
        counted = any(one.uses is not None for one in needed)
        more = f"; {used} of them were used since the server started" if counted else ""
        yield Finding("indexes", "ok", f"All {len(needed)} indexes are there{more}.")


def _spoiled(index: IndexFact) -> Finding:
    """An index that cannot sort, since another program has stored arrays in one of its keys."""
    jobs = f"db.getCollection({index.collection!r})"
    text = f"A program has stored an array in {' and '.join(index.arrays)} of jobs. Since then MongoDB cannot sort by "
    text += f"the index {_names([index])}, and reads that use it walk over thousands of its entries."
    arrays = f"{{$or: [{', '.join(f'{{{field!r}: {{$type: 4}}}}' for field in index.arrays)}]}}"
    cure = f"Correct the jobs that still have one: {jobs}.find({arrays}). Then drop the index: "
    cure += (
        f"{jobs}.dropIndex({index.name!r}). The next process that connects, or a worker that misses it, makes it again."
    )
    return Finding("indexes", "warning", text, cure)


def check_tls(server: ServerFacts) -> Iterator[Finding]:
    """Whether the connection is encrypted, and with the right server."""
    if server.tls and server.unchecked_by is not None and not server.loopback:
        yield Finding(
            "TLS",
            "problem",
            f"The connection is encrypted, but with {server.unchecked_by} in the URI another machine may pass for the "
            "server, and read and change everything.",
            f"Take {server.unchecked_by} out of the URI, and name your CA's file there: tlsCAFile=/path/to/ca.pem.",
        )
    elif server.tls:
        yield Finding("TLS", "ok", "The connection is encrypted.")
    elif server.loopback:
        yield Finding("TLS", "ok", "The connection is not encrypted, and does not leave this machine.")
    elif server.tls is None:
        yield Finding("TLS", "skipped", "It is unknown whether the connection of the given client is encrypted.")
    else:
        yield Finding(
            "TLS",
            "warning",
            "The connection to another machine is not encrypted: the data of jobs and the keys' hashes can be read "
            "in transit.",
            "Start the server with --tlsMode requireTLS, and add tls=true to the URI.",
        )


def check_users(server: ServerFacts) -> Iterator[Finding]:
    """Whether the server asks for a password, and the rights of the user."""
    if server.users is None:
        yield Finding("authentication", "skipped", "The server does not say which user this is.")
    elif not server.users:
        yield Finding(
            "authentication",
            "warning" if server.loopback else "problem",
            "The server requires no password: every program that reaches it can read and change all jobs."
            if not server.loopback
            else "The server requires no password: every user of this machine can read and change all jobs.",
            "Start the server with --auth or a key file, create a user with readWrite, and put it into the URI.",
        )
    elif mighty := sorted(_MIGHTY.intersection(server.roles)):
        text = f"The user {server.users[0]!r} has the role {mighty[0]!r}, which Mainspring does not need."
        cure = "" if server.embedded else "Give it readWrite on its own database: docs/howto/mongodb.md#rights."
        yield Finding("authentication", "ok" if server.embedded else "warning", text, cure)
    else:
        yield Finding("authentication", "ok", f"The server requires a password; this is the user {server.users[0]!r}.")


def _unused(index: IndexFact, at: datetime) -> bool:
    return index.uses == 0 and index.since is not None and at - index.since > _LONG_ENOUGH


def _names(indexes: list[IndexFact]) -> str:
    return ", ".join(f"{one.collection}.{one.name}" for one in indexes)
