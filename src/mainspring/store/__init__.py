"""Everything that is said to MongoDB, as our verbs. One store, no other behind an interface."""

from __future__ import annotations

from mainspring.keyring import Keyring
from mainspring.model.audit import mask_secrets
from mainspring.store.access import Access
from mainspring.store.aging import Aging
from mainspring.store.alerts import Alerts
from mainspring.store.audit import Audit
from mainspring.store.calendars import Calendars
from mainspring.store.checkpoints import Checkpoints
from mainspring.store.claim import Claims
from mainspring.store.connection import Connection
from mainspring.store.controls import Controls
from mainspring.store.creations import Creations
from mainspring.store.dead_letters import DeadLetters
from mainspring.store.events import Events
from mainspring.store.explaining import Explaining
from mainspring.store.failures import Failures
from mainspring.store.finish import Finishing
from mainspring.store.firing import Firing
from mainspring.store.gates import Gates
from mainspring.store.inserts import Inserts
from mainspring.store.jobs import Jobs
from mainspring.store.keys import Keys
from mainspring.store.leases import Notes, Renewals, Rescues
from mainspring.store.ledger import Ledger
from mainspring.store.lining import Lining
from mainspring.store.overview import Overview
from mainspring.store.progress import Progress
from mainspring.store.redrives import Redrives
from mainspring.store.removal import Removal
from mainspring.store.replies import Replies
from mainspring.store.resealing import Resealing
from mainspring.store.schedules import Schedules
from mainspring.store.sealing import Sealer
from mainspring.store.searching import Searching
from mainspring.store.secrets import Secrets
from mainspring.store.statistics import Statistics
from mainspring.store.tending import Tending
from mainspring.store.transaction import Transactions
from mainspring.store.watch import Watch
from mainspring.store.workers import Workers

__all__ = ["Store"]

# How long what nobody waits for may hold up the end of a program, in seconds.
_SETTLE = 2.0


class Store:
    """The verbs, by subject, over one connection."""

    def __init__(self, connection: Connection, sealer: Sealer | None = None) -> None:
        self.connection = connection
        self.sealer = sealer or Sealer(Keyring())
        self.clock = connection.clock
        self.keys = Keys(connection)
        self.gates = Gates(connection)
        self.inserts = Inserts(connection, self.keys, Lining(self.gates), self.sealer)
        self.jobs = Jobs(connection, self.keys)
        self.claims = Claims(connection)
        self.finishing = Finishing(connection)
        self.rescues = Rescues(connection)
        self.notes = Notes(connection)
        self.checkpoints = Checkpoints(connection)
        self.tending = Tending(connection)
        self.removal = Removal(connection)
        self.aging = Aging(connection)
        self.resealing = Resealing(connection, self.sealer)
        self.workers = Workers(connection)
        self.controls = Controls(connection)
        self.searching = Searching(connection)
        self.failures = Failures(self.searching)
        self.creations = Creations(self.searching)
        self.overview = Overview(connection, self.claims, self.workers)
        self.calendars = Calendars(connection)
        self.firing = Firing(connection, self.inserts, self.jobs, self.tending, self.calendars)
        self.schedules = Schedules(connection, self.inserts, self.firing, self.tending, self.calendars, self.sealer)
        self.ledger = Ledger(connection, self.inserts, self.calendars)
        self.watch = Watch(connection)
        self.events = Events(connection)
        self.transactions = Transactions(connection)
        self.dead_letters = DeadLetters(connection)
        self.redrives = Redrives(connection, self.keys, self.dead_letters)
        self.alerts = Alerts(connection, self.inserts, self.dead_letters)
        self.explaining = Explaining(connection, self.workers)
        self.replies = Replies(connection)
        self.access = Access(connection)
        self.secrets = Secrets(connection, self.sealer)
        self.statistics = Statistics(connection)
        self.progress = Progress(connection, self.claims)
        self.audit = Audit(connection, mask_secrets)

    def renewals(self) -> Renewals:
        """The heartbeat's verbs, on a client of their own; to be made and used in its thread."""
        return Renewals(self.connection)

    async def close(self) -> None:
        """Finish what nobody waits for, and close the connection."""
        await self.audit.settle(_SETTLE)
        await self.connection.close()
