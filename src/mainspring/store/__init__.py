"""All access to MongoDB, as verbs of Mainspring. There is one store, without an interface for others."""

from __future__ import annotations

from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection
from mainspring.store.flows.checks import Checks
from mainspring.store.flows.signals import Signals
from mainspring.store.flows.spawners import Spawners
from mainspring.store.flows.spawning import Spawning
from mainspring.store.flows.tree import Trees
from mainspring.store.foreign.mapped import Mapped
from mainspring.store.jobs.claim import Claims
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.edit import Jobs
from mainspring.store.jobs.finish import Finishing
from mainspring.store.jobs.hints import Hints
from mainspring.store.jobs.insert import Inserts
from mainspring.store.jobs.leases import ProgressUpdates, Renewals, Rescues
from mainspring.store.jobs.steps import StoredSteps
from mainspring.store.jobs.transactions import Transactions
from mainspring.store.jobs.upkeep import Upkeep
from mainspring.store.limits.controls import Controls
from mainspring.store.limits.gates import Gates
from mainspring.store.limits.wait_on_insert import WaitOnInsert
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.privacy.keyring import Keyring
from mainspring.store.rare_parts import RareParts
from mainspring.store.refusals import Refused
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.firing import Firing
from mainspring.store.schedules.schedules import Schedules
from mainspring.store.workers import Workers

__all__ = ["Store"]

# Writes that no caller waits for may delay the end of a program by this many seconds.
_SETTLE = 2.0


class Store(RareParts):
    """The verbs, by subject, over one connection. `rare_parts.py` has those that few programs use."""

    def __init__(self, connection: Connection, cipher: Cipher | None = None, audit_keys: Keyring | None = None) -> None:
        self.connection = connection
        self.cipher = cipher or Cipher(Keyring())
        self._audit_keys = audit_keys or Keyring()
        self.clock = connection.clock
        self.dedupe_keys = DedupeKeys(connection)
        refused = Refused[DocumentId]()  # a claim and a wait list leave out the same jobs
        self.gates = Gates(connection, refused)
        self.inserts = Inserts(connection, self.dedupe_keys, WaitOnInsert(self.gates), self.cipher)
        self.mapped = Mapped(connection)
        self.jobs = Jobs(connection, self.dedupe_keys, self.mapped.follow_one)
        self.claims = Claims(connection, refused)
        self.spawning = Spawning(connection, self.inserts, self.cipher)
        self.signals = Signals(connection, self.jobs, self.cipher)
        self.spawners = Spawners(connection)
        self.trees = Trees(connection)
        self.checks = Checks(connection, self.trees)
        self.finishing = Finishing(connection)
        self.rescues = Rescues(connection)
        self.progress_updates = ProgressUpdates(connection)
        self.steps = StoredSteps(connection)
        self.upkeep = Upkeep(connection)
        self.workers = Workers(connection)
        self.controls = Controls(connection)
        self.calendars = Calendars(connection)
        self.firing = Firing(connection, self.inserts, self.jobs, self.upkeep, self.calendars)
        self.schedules = Schedules(connection, self.inserts, self.firing, self.upkeep, self.calendars, self.cipher)
        self.hints = Hints(connection)
        self.transactions = Transactions(connection)

    def renewals(self) -> Renewals:
        """The heartbeat's verbs, on a client of their own; the heartbeat's thread makes and uses them."""
        return Renewals(self.connection)

    async def mend_indexes(self, error: Exception) -> None:
        """Create dropped indexes again where their absence was the cause of an error."""
        await self.connection.indexes.mend(error)

    async def close(self) -> None:
        """Finish the writes that no caller waits for, and close the connection."""
        try:
            if "audit" in vars(self):  # it has been used
                await self.audit.settle(_SETTLE)
        finally:
            await self.connection.close()
