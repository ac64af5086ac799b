"""What is known of the database, for a page that shows it: its version, its kind, and the indexes."""

from __future__ import annotations

from mainspring.model.views.about import DatabaseFacts, IndexFacts, Topology
from mainspring.store.connection import Connection


async def read_database_facts(connection: Connection, *, embedded: bool) -> DatabaseFacts:
    """The facts about the database. Lists the indexes of each collection, and reads no document."""
    return DatabaseFacts(
        version=".".join(str(part) for part in connection.version),
        topology=_topology(connection),
        set_name=connection.set_name,
        addresses=tuple(f"{host}:{port}" for host, port in sorted(connection.client.nodes)),
        embedded=embedded,
        database=connection.db.name,
        collection=connection.jobs.name,
        transactions=connection.supports_transactions,
        indexes=tuple(IndexFacts(*one) for one in await connection.indexes.standing()),
    )


def _topology(connection: Connection) -> Topology:
    if connection.sharded:
        return "sharded cluster"
    return "replica set" if connection.replica_set else "standalone"
