"""All access to MongoDB, as verbs of Mainspring. There is one store, without an interface for others."""

from __future__ import annotations

from mainspring.model.privacy.credentials import mask_credentials
from mainspring.store.access.api_keys import ApiKeys
from mainspring.store.access.audit import Audit
from mainspring.store.access.closed_sessions import ClosedSessions
from mainspring.store.access.idempotency import IdempotencyRecords
from mainspring.store.access.service_secrets import ServiceSecrets
from mainspring.store.alerts.alert_facts import AlertFacts
from mainspring.store.alerts.alert_rules import AlertRules
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection
from mainspring.store.dead_letters.alerts import Alerts
from mainspring.store.dead_letters.dead_letters import DeadLetters
from mainspring.store.dead_letters.groups import Groups
from mainspring.store.dead_letters.recent_failures import RecentFailures
from mainspring.store.dead_letters.redrives import Redrives
from mainspring.store.doctor.schedules import ScheduleReads
from mainspring.store.doctor.server import ServerReads
from mainspring.store.flows.batches import Batches
from mainspring.store.flows.beyond import FlowsBeyond
from mainspring.store.flows.checks import Checks
from mainspring.store.flows.flow_reads import FlowReads
from mainspring.store.flows.layout import Layouts
from mainspring.store.flows.retrying import FlowRetries
from mainspring.store.flows.signals import Signals
from mainspring.store.flows.spawners import Spawners
from mainspring.store.flows.spawning import Spawning
from mainspring.store.flows.tree import Trees
from mainspring.store.foreign.foreign import Foreign
from mainspring.store.foreign.mapped import Mapped
from mainspring.store.importing.source import Imported
from mainspring.store.jobs.aging import Aging
from mainspring.store.jobs.claim import Claims
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.edit import Jobs
from mainspring.store.jobs.finish import Finishing
from mainspring.store.jobs.hints import Hints
from mainspring.store.jobs.insert import Inserts
from mainspring.store.jobs.leases import ProgressUpdates, Renewals, Rescues
from mainspring.store.jobs.retention import Removal
from mainspring.store.jobs.stacks import Stacks
from mainspring.store.jobs.steps import StoredSteps
from mainspring.store.jobs.transactions import Transactions
from mainspring.store.jobs.upkeep import Upkeep
from mainspring.store.limits.controls import Controls
from mainspring.store.limits.gate_uses import GateUses
from mainspring.store.limits.gates import Gates
from mainspring.store.limits.repair import WaitListRepair
from mainspring.store.limits.wait_on_insert import WaitOnInsert
from mainspring.store.migrations import Migrations
from mainspring.store.operations.operations import Operations
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.privacy.keyring import Keyring
from mainspring.store.privacy.reencrypt import Reencryption
from mainspring.store.privacy.secrets import Secrets
from mainspring.store.refusals import Refused
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.firing import Firing
from mainspring.store.schedules.ledger import Ledger
from mainspring.store.schedules.schedules import Schedules
from mainspring.store.schedules.timing import TimingSnapshot
from mainspring.store.schedules.views import ScheduleViews
from mainspring.store.views.change_stream import ChangeStream
from mainspring.store.views.counts import Counts
from mainspring.store.views.created import Created
from mainspring.store.views.explain import Explaining
from mainspring.store.views.failure_counts import Failures
from mainspring.store.views.health import Progress
from mainspring.store.views.oldest_due import OldestDue
from mainspring.store.views.problem_facts import ProblemReads
from mainspring.store.views.queues import Queues
from mainspring.store.views.related import Related
from mainspring.store.views.search import Searching
from mainspring.store.views.statistics import Statistics
from mainspring.store.views.suggestions import Suggesting
from mainspring.store.workers import Workers

__all__ = ["Store"]

# Writes that no caller waits for may delay the end of a program by this many seconds.
_SETTLE = 2.0


class Store:
    """The verbs, by subject, over one connection."""

    def __init__(self, connection: Connection, cipher: Cipher | None = None, audit_keys: Keyring | None = None) -> None:
        self.connection = connection
        self.cipher = cipher or Cipher(Keyring())
        self.clock = connection.clock
        self.dedupe_keys = DedupeKeys(connection)
        refused = Refused[DocumentId]()  # a claim and a wait list leave out the same jobs
        self.gates = Gates(connection, refused)
        self.repair = WaitListRepair(connection, self.gates)
        self.inserts = Inserts(connection, self.dedupe_keys, WaitOnInsert(self.gates), self.cipher)
        self.mapped = Mapped(connection)
        self.jobs = Jobs(connection, self.dedupe_keys, self.mapped.follow_one)
        self.claims = Claims(connection, refused)
        self.spawning = Spawning(connection, self.inserts, self.cipher)
        self.signals = Signals(connection, self.jobs, self.cipher)
        self.spawners = Spawners(connection)
        self.trees = Trees(connection)
        self.flows_beyond = FlowsBeyond(connection)
        self.checks = Checks(connection, self.trees)
        self.layouts = Layouts(connection, self.inserts)
        self.batches = Batches(connection, self.inserts)
        self.flow_retries = FlowRetries(connection, self.jobs)
        self.finishing = Finishing(connection)
        self.rescues = Rescues(connection)
        self.migrations = Migrations(connection)
        self.imported = Imported(connection)
        self.progress_updates = ProgressUpdates(connection)
        self.steps = StoredSteps(connection)
        self.stacks = Stacks(connection)
        self.upkeep = Upkeep(connection)
        self.foreign = Foreign(connection)
        self.removal = Removal(connection)
        self.aging = Aging(connection)
        self.reencryption = Reencryption(connection, self.cipher)
        self.workers = Workers(connection)
        self.controls = Controls(connection)
        self.searching = Searching(connection)
        self.flow_reads = FlowReads(connection, self.searching)
        self.counts = Counts(connection)
        self.suggesting = Suggesting(connection)
        self.related = Related(connection)
        self.recent_failures = RecentFailures(self.searching)
        self.created = Created(self.searching)
        self.calendars = Calendars(connection)
        self.firing = Firing(connection, self.inserts, self.jobs, self.upkeep, self.calendars)
        self.schedules = Schedules(connection, self.inserts, self.firing, self.upkeep, self.calendars, self.cipher)
        self.ledger = Ledger(connection, self.inserts, self.calendars)
        self.schedule_views = ScheduleViews(connection, self.calendars)
        self.timing = TimingSnapshot(connection, self.schedule_views, self.calendars)
        self.hints = Hints(connection)
        self.change_stream = ChangeStream(connection)
        self.transactions = Transactions(connection)
        self.dead_letters = DeadLetters(connection)
        self.redrives = Redrives(connection, self.dedupe_keys, self.dead_letters)
        self.operations = Operations(connection, self.dedupe_keys, self.searching, self.flows_beyond)
        self.alerts = Alerts(connection, self.inserts, self.dead_letters)
        self.alert_rules = AlertRules(connection, self.inserts)
        self.explaining = Explaining(connection, self.workers)
        self.idempotency = IdempotencyRecords(connection)
        self.service_secrets = ServiceSecrets(connection)
        self.api_keys = ApiKeys(connection)
        self.closed_sessions = ClosedSessions(connection)
        self.secrets = Secrets(connection, self.cipher)
        self.statistics = Statistics(connection)
        self.failure_counts = Failures(connection)
        self.dead_letter_groups = Groups(connection, self.failure_counts)
        self.gate_uses = GateUses(connection)
        self.oldest_due = OldestDue(connection, self.claims)
        self.queues = Queues(connection, self.oldest_due, self.workers, self.statistics)
        self.health = Progress(connection, self.claims)
        self.problems = ProblemReads(connection)
        self.alert_facts = AlertFacts(connection, self.problems, self.oldest_due)
        self.doctor_server = ServerReads(connection)
        self.doctor_schedules = ScheduleReads(connection)
        self.audit = Audit(connection, mask_credentials, audit_keys or Keyring())

    def renewals(self) -> Renewals:
        """The heartbeat's verbs, on a client of their own; the heartbeat's thread makes and uses them."""
        return Renewals(self.connection)

    async def close(self) -> None:
        """Finish the writes that no caller waits for, and close the connection."""
        try:
            await self.audit.settle(_SETTLE)
        finally:
            await self.connection.close()
