"""The facts that the doctor judges: `store/doctor/` and `client/views/doctor_facts.py` read them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from mainspring.model.schema_versions import SchemaStatus
from mainspring.model.views.problems import ProblemFacts

Topology = Literal["standalone", "replica set", "sharded cluster"]


@dataclass(frozen=True, slots=True)
class OplogFacts:
    """How far back the oplog reaches, and whether it is full: only then old entries are dropped."""

    window: timedelta
    full: bool


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, as this process sees it. None where it could not be read."""

    version: tuple[int, ...]
    topology: Topology
    data_members: int = 1
    arbiters: int = 0
    down: tuple[str, ...] = ()
    """The addresses of the nodes of the replica set that do not answer."""
    majority_lag: timedelta | None = None
    """How far the majority is behind the last write."""
    skew: timedelta = timedelta(0)
    """The wall clock of this machine minus that of the server."""
    uncertainty: timedelta = timedelta(0)
    """Half of the round trip in which the clocks were compared."""
    write_concern: str = ""
    """The write concern of the URI, in words; empty where the URI has none."""
    tls: bool | None = None
    unchecked_by: str | None = None
    """The option of the URI by which another machine may pass for the server."""
    loopback: bool = False
    """Whether all known addresses of the server are on this machine."""
    users: tuple[str, ...] | None = None
    roles: tuple[str, ...] = ()
    zlib: bool | None = None
    """Whether the server decompresses zlib."""
    embedded: bool = False
    oplog: OplogFacts | None = None


@dataclass(frozen=True, slots=True)
class IndexFact:
    """One index: whether Mainspring needs it, whether it can be used, and how often it was since an instant."""

    collection: str
    name: str
    needed: bool
    present: bool
    uses: int | None = None
    since: datetime | None = None
    arrays: tuple[str, ...] = ()
    """The fields among its keys in which arrays were stored that do not belong there."""


@dataclass(frozen=True, slots=True)
class SilentSchedule:
    """A schedule that will not fire again by itself, or whose document cannot be read."""

    id: str
    name: str
    runs: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """The HTTP service: whether it has been used on this database, and its keys."""

    used: bool
    keys: int = 0
    admins: int = 0
    audit_key: str | None = None
    """The id of the key that the audit log is signed with, where this process does not have it."""


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """Everything that one look of the doctor has read."""

    server: ServerFacts
    indexes: tuple[IndexFact, ...]
    work: ProblemFacts | None
    """What the overview is made of; None where it was not read, since indexes are missing."""
    schema: SchemaStatus
    service: ServiceFacts
    at: datetime
    schedules: tuple[SilentSchedule, ...] = ()
    scheduled_names: tuple[tuple[str, str], ...] = ()
    """The id and the job name of schedules that will fire."""
    schedules_read: int = 0
    schedules_complete: bool = True
