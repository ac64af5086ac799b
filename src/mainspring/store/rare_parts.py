"""The parts of the store that few programs use, each imported and made at its first use.

A program that only stores jobs needs none of them, and all of them together take about as long to import as the driver.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.store.access.api_keys import ApiKeys
    from mainspring.store.access.audit import Audit
    from mainspring.store.access.closed_sessions import ClosedSessions
    from mainspring.store.access.idempotency import IdempotencyRecords
    from mainspring.store.access.service_secrets import ServiceSecrets
    from mainspring.store.alerts.alert_facts import AlertFacts
    from mainspring.store.alerts.alert_rules import AlertRules
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
    from mainspring.store.flows.flow_reads import FlowReads
    from mainspring.store.flows.layout import Layouts
    from mainspring.store.flows.retrying import FlowRetries
    from mainspring.store.foreign.foreign import Foreign
    from mainspring.store.importing.source import Imported
    from mainspring.store.jobs.aging import Aging
    from mainspring.store.jobs.claim import Claims
    from mainspring.store.jobs.dedupe import DedupeKeys
    from mainspring.store.jobs.edit import Jobs
    from mainspring.store.jobs.insert import Inserts
    from mainspring.store.jobs.retention import Removal
    from mainspring.store.jobs.stacks import Stacks
    from mainspring.store.limits.gate_uses import GateUses
    from mainspring.store.limits.gates import Gates
    from mainspring.store.limits.repair import WaitListRepair
    from mainspring.store.migrations import Migrations
    from mainspring.store.operations.operations import Operations
    from mainspring.store.privacy.cipher import Cipher
    from mainspring.store.privacy.keyring import Keyring
    from mainspring.store.privacy.reencrypt import Reencryption
    from mainspring.store.privacy.secrets import Secrets
    from mainspring.store.schedules.calendars import Calendars
    from mainspring.store.schedules.ledger import Ledger
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


class RareParts:
    """The verbs of these parts, over the connection and the other parts of one Store."""

    connection: Connection
    cipher: Cipher
    calendars: Calendars
    claims: Claims
    dedupe_keys: DedupeKeys
    gates: Gates
    inserts: Inserts
    jobs: Jobs
    workers: Workers
    _audit_keys: Keyring

    # -- views of jobs and queues ------------------------------------------------------------------------------------

    @cached_property
    def searching(self) -> Searching:
        from mainspring.store.views.search import Searching

        return Searching(self.connection)

    @cached_property
    def counts(self) -> Counts:
        from mainspring.store.views.counts import Counts

        return Counts(self.connection)

    @cached_property
    def suggesting(self) -> Suggesting:
        from mainspring.store.views.suggestions import Suggesting

        return Suggesting(self.connection)

    @cached_property
    def related(self) -> Related:
        from mainspring.store.views.related import Related

        return Related(self.connection)

    @cached_property
    def recent_failures(self) -> RecentFailures:
        from mainspring.store.dead_letters.recent_failures import RecentFailures

        return RecentFailures(self.searching)

    @cached_property
    def created(self) -> Created:
        from mainspring.store.views.created import Created

        return Created(self.searching)

    @cached_property
    def change_stream(self) -> ChangeStream:
        from mainspring.store.views.change_stream import ChangeStream

        return ChangeStream(self.connection)

    @cached_property
    def explaining(self) -> Explaining:
        from mainspring.store.views.explain import Explaining

        return Explaining(self.connection, self.workers)

    @cached_property
    def statistics(self) -> Statistics:
        from mainspring.store.views.statistics import Statistics

        return Statistics(self.connection)

    @cached_property
    def failure_counts(self) -> Failures:
        from mainspring.store.views.failure_counts import Failures

        return Failures(self.connection)

    @cached_property
    def gate_uses(self) -> GateUses:
        from mainspring.store.limits.gate_uses import GateUses

        return GateUses(self.connection)

    @cached_property
    def oldest_due(self) -> OldestDue:
        from mainspring.store.views.oldest_due import OldestDue

        return OldestDue(self.connection, self.claims)

    @cached_property
    def queues(self) -> Queues:
        from mainspring.store.views.queues import Queues

        return Queues(self.connection, self.oldest_due, self.workers, self.statistics)

    @cached_property
    def health(self) -> Progress:
        from mainspring.store.views.health import Progress

        return Progress(self.connection, self.claims)

    @cached_property
    def problems(self) -> ProblemReads:
        from mainspring.store.views.problem_facts import ProblemReads

        return ProblemReads(self.connection)

    @cached_property
    def stacks(self) -> Stacks:
        from mainspring.store.jobs.stacks import Stacks

        return Stacks(self.connection)

    # -- schedules ---------------------------------------------------------------------------------------------------

    @cached_property
    def ledger(self) -> Ledger:
        from mainspring.store.schedules.ledger import Ledger

        return Ledger(self.connection, self.inserts, self.calendars)

    @cached_property
    def schedule_views(self) -> ScheduleViews:
        from mainspring.store.schedules.views import ScheduleViews

        return ScheduleViews(self.connection, self.calendars)

    @cached_property
    def timing(self) -> TimingSnapshot:
        from mainspring.store.schedules.timing import TimingSnapshot

        return TimingSnapshot(self.connection, self.schedule_views, self.calendars)

    # -- flows -------------------------------------------------------------------------------------------------------

    @cached_property
    def flows_beyond(self) -> FlowsBeyond:
        from mainspring.store.flows.beyond import FlowsBeyond

        return FlowsBeyond(self.connection)

    @cached_property
    def layouts(self) -> Layouts:
        from mainspring.store.flows.layout import Layouts

        return Layouts(self.connection, self.inserts)

    @cached_property
    def batches(self) -> Batches:
        from mainspring.store.flows.batches import Batches

        return Batches(self.connection, self.inserts)

    @cached_property
    def flow_retries(self) -> FlowRetries:
        from mainspring.store.flows.retrying import FlowRetries

        return FlowRetries(self.connection, self.jobs)

    @cached_property
    def flow_reads(self) -> FlowReads:
        from mainspring.store.flows.flow_reads import FlowReads

        return FlowReads(self.connection, self.searching)

    # -- dead letters, operations, alerts ----------------------------------------------------------------------------

    @cached_property
    def dead_letters(self) -> DeadLetters:
        from mainspring.store.dead_letters.dead_letters import DeadLetters

        return DeadLetters(self.connection)

    @cached_property
    def redrives(self) -> Redrives:
        from mainspring.store.dead_letters.redrives import Redrives

        return Redrives(self.connection, self.dedupe_keys, self.dead_letters)

    @cached_property
    def dead_letter_groups(self) -> Groups:
        from mainspring.store.dead_letters.groups import Groups

        return Groups(self.connection, self.failure_counts)

    @cached_property
    def operations(self) -> Operations:
        from mainspring.store.operations.operations import Operations

        return Operations(self.connection, self.dedupe_keys, self.searching, self.flows_beyond)

    @cached_property
    def alerts(self) -> Alerts:
        from mainspring.store.dead_letters.alerts import Alerts

        return Alerts(self.connection, self.inserts, self.dead_letters)

    @cached_property
    def alert_rules(self) -> AlertRules:
        from mainspring.store.alerts.alert_rules import AlertRules

        return AlertRules(self.connection, self.inserts)

    @cached_property
    def alert_facts(self) -> AlertFacts:
        from mainspring.store.alerts.alert_facts import AlertFacts

        return AlertFacts(self.connection, self.problems, self.oldest_due)

    # -- access and privacy ------------------------------------------------------------------------------------------

    @cached_property
    def idempotency(self) -> IdempotencyRecords:
        from mainspring.store.access.idempotency import IdempotencyRecords

        return IdempotencyRecords(self.connection)

    @cached_property
    def service_secrets(self) -> ServiceSecrets:
        from mainspring.store.access.service_secrets import ServiceSecrets

        return ServiceSecrets(self.connection)

    @cached_property
    def api_keys(self) -> ApiKeys:
        from mainspring.store.access.api_keys import ApiKeys

        return ApiKeys(self.connection)

    @cached_property
    def closed_sessions(self) -> ClosedSessions:
        from mainspring.store.access.closed_sessions import ClosedSessions

        return ClosedSessions(self.connection)

    @cached_property
    def secrets(self) -> Secrets:
        from mainspring.store.privacy.secrets import Secrets

        return Secrets(self.connection, self.cipher)

    @cached_property
    def reencryption(self) -> Reencryption:
        from mainspring.store.privacy.reencrypt import Reencryption

        return Reencryption(self.connection, self.cipher)

    @cached_property
    def audit(self) -> Audit:
        from mainspring.model.privacy.credentials import mask_credentials
        from mainspring.store.access.audit import Audit

        return Audit(self.connection, mask_credentials, self._audit_keys)

    # -- upkeep, and documents of other programs ---------------------------------------------------------------------

    @cached_property
    def repair(self) -> WaitListRepair:
        from mainspring.store.limits.repair import WaitListRepair

        return WaitListRepair(self.connection, self.gates)

    @cached_property
    def removal(self) -> Removal:
        from mainspring.store.jobs.retention import Removal

        return Removal(self.connection)

    @cached_property
    def aging(self) -> Aging:
        from mainspring.store.jobs.aging import Aging

        return Aging(self.connection)

    @cached_property
    def foreign(self) -> Foreign:
        from mainspring.store.foreign.foreign import Foreign

        return Foreign(self.connection)

    @cached_property
    def migrations(self) -> Migrations:
        from mainspring.store.migrations import Migrations

        return Migrations(self.connection)

    @cached_property
    def imported(self) -> Imported:
        from mainspring.store.importing.source import Imported

        return Imported(self.connection)

    @cached_property
    def doctor_server(self) -> ServerReads:
        from mainspring.store.doctor.server import ServerReads

        return ServerReads(self.connection)

    @cached_property
    def doctor_schedules(self) -> ScheduleReads:
        from mainspring.store.doctor.schedules import ScheduleReads

        return ScheduleReads(self.connection)
