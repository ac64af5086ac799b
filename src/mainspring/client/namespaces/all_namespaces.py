"""The namespaces of the Scheduler, each imported and made at its first use.

A program that stores jobs uses few of them, and all of them together take about as long to import as the driver.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from mainspring.client.core import Core
    from mainspring.client.jobs import Jobs
    from mainspring.client.namespaces.alerts import Alerts
    from mainspring.client.namespaces.api_keys import ApiKeys
    from mainspring.client.namespaces.audit import AuditLog
    from mainspring.client.namespaces.calendars import Calendars
    from mainspring.client.namespaces.dead_letters import DeadLetters
    from mainspring.client.namespaces.flows import Flows
    from mainspring.client.namespaces.limits import LimitControls
    from mainspring.client.namespaces.monitor import Monitor
    from mainspring.client.namespaces.operations import Operations
    from mainspring.client.namespaces.pauses import Pauses, Targets
    from mainspring.client.namespaces.privacy import PrivacyControls
    from mainspring.client.namespaces.queues import Queues
    from mainspring.client.namespaces.schedules import Schedules
    from mainspring.client.namespaces.secrets import Secrets
    from mainspring.client.namespaces.workers import Workers
    from mainspring.client.per_store import PerStore
    from mainspring.client.views.searching import Searcher
    from mainspring.engine.services.change_feed import ChangeFeed


class Namespaces:
    """The namespaces of one Scheduler, which has these parts."""

    _core: Core
    _jobs: Jobs
    _searcher: Searcher
    _feed: PerStore[ChangeFeed]

    @cached_property
    def schedules(self) -> Schedules:
        """Stored schedules: get, find, pause, resume, trigger, edit, delete, preview, ledger, backfill."""
        from mainspring.client.namespaces.schedules import Schedules

        return Schedules(self._core, self._jobs)

    @cached_property
    def flows(self) -> Flows:
        """Flows, jobs that wait for jobs: get, all, find, cancel, retry."""
        from mainspring.client.namespaces.flows import Flows

        return Flows(self._core, self._jobs)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """Failed jobs: find, groups, retry, discard, and the handler that is told of them."""
        from mainspring.client.namespaces.dead_letters import DeadLetters

        return DeadLetters(self._core, self._jobs)

    @cached_property
    def operations(self) -> Operations:
        """One verb on many jobs: create, preview, get, all, cancel."""
        from mainspring.client.namespaces.operations import Operations

        return Operations(self._core, self._jobs, self._searcher)

    @cached_property
    def queues(self) -> Queues:
        """Queues: all, limit, pause, resume."""
        from mainspring.client.namespaces.queues import Queues

        return Queues(self._core, self._pauses)

    @cached_property
    def limits(self) -> LimitControls:
        """Limits, breakers and pauses of job names at run time."""
        from mainspring.client.namespaces.limits import LimitControls

        return LimitControls(self._core, self._targets, self._pauses)

    @cached_property
    def calendars(self) -> Calendars:
        """Named sets of days that schedules leave out."""
        from mainspring.client.namespaces.calendars import Calendars

        return Calendars(self._core)

    @cached_property
    def api_keys(self) -> ApiKeys:
        """The keys of the HTTP service."""
        from mainspring.client.namespaces.api_keys import ApiKeys

        return ApiKeys(self._core)

    @cached_property
    def secrets(self) -> Secrets:
        """Values that webhooks and handlers refer to by name."""
        from mainspring.client.namespaces.secrets import Secrets

        return Secrets(self._core)

    @cached_property
    def audit(self) -> AuditLog:
        """The audit log: find, head, verify, check, seal."""
        from mainspring.client.namespaces.audit import AuditLog

        return AuditLog(self._core)

    @cached_property
    def privacy(self) -> PrivacyControls:
        """Encryption keys, and the redaction of jobs."""
        from mainspring.client.namespaces.privacy import PrivacyControls

        return PrivacyControls(self._core)

    @cached_property
    def workers(self) -> Workers:
        """The worker processes."""
        from mainspring.client.namespaces.workers import Workers

        return Workers(self._core, self._jobs)

    @cached_property
    def alerts(self) -> Alerts:
        """Alert rules: create, edit, silence, test."""
        from mainspring.client.namespaces.alerts import Alerts

        return Alerts(self._core, self._jobs)

    @cached_property
    def monitor(self) -> Monitor:
        """Health, statistics, recent failures, and changes as they happen."""
        from mainspring.client.namespaces.monitor import Monitor

        return Monitor(self._core, self._jobs, self._feed)

    # -- shared by several of them ---------------------------------------------------------------------------------

    @cached_property
    def _targets(self) -> Targets:
        from mainspring.client.namespaces.pauses import Targets

        return Targets(self._core)

    @cached_property
    def _pauses(self) -> Pauses:
        from mainspring.client.namespaces.pauses import Pauses

        return Pauses(self._core, self._targets)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say where a verb is that a program looks for on the Scheduler itself."""
            no_attribute(self, name)


NAMESPACES = tuple(
    name for name, member in vars(Namespaces).items() if isinstance(member, cached_property) and name[0] != "_"
)
"""The names of the namespaces, in their order."""


def no_attribute(scheduler: object, name: str) -> NoReturn:
    """Raise the error for a name that a Scheduler does not have; it names the namespaces that have it."""
    known = [] if name.startswith("_") else [one for one in NAMESPACES if hasattr(getattr(scheduler, one), name)]
    hint = f". Did you mean {' or '.join(f'scheduler.{one}.{name}' for one in known)}?" if known else ""
    raise AttributeError(f"'Scheduler' object has no attribute {name!r}{hint}", name=name, obj=scheduler)
