"""`scheduler.alerts`: rules by which an operator is told of problems, by email, webhook or chat.

A worker evaluates them, and so does the HTTP service (`engine/alerts/evaluation.py`). The messages are sent by jobs of
the types webhook and email, so that a worker with these handlers, or the service, has to be there.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Unpack

from mainspring.client.alerts.destinations import make_destinations
from mainspring.client.alerts.trial import AlertTest, begin_trial, end_trial
from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.clock import truncate
from mainspring.config.settings import check_actor, check_name
from mainspring.errors import ConfigurationError
from mainspring.model.alerts.rule import (
    AlertKind,
    AlertRule,
    RuleOptions,
    Silence,
    check_kind,
    check_options,
    options_of,
)
from mainspring.model.jobs.draft import check_instant
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs

_WATCHED = ("kind", "scope", "after", "threshold", "within", "enabled")
"""The fields of a rule whose change begins its alert anew."""


@spelled_verbs
class Alerts:
    """The verbs for alert rules."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    async def create(
        self,
        name: str,
        kind: AlertKind,
        to: Sequence[Mapping[str, Any]],
        *,
        rule_id: str | None = None,
        actor: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> AlertRule:
        """Store an alert rule. `kind` is the problem that it watches: "dead_letters", "schedule_missed", "queue_late",
        "no_worker" or "breaker_open". `to` lists its destinations: `{"type": "email", "to": ["ops@example.com"]}`,
        `{"type": "webhook", "url": …, "headers": {…}, "sign_with": […]}` or `{"type": "chat", "url": …}`. A chat
        receives a JSON object with `text`, the format of Slack and others. `RuleOptions` lists the options. `rule_id`
        is the id of the rule: if a rule has this id already, it is returned, so that a repeated call is safe."""
        checked, where = check_kind(kind), make_destinations(to)
        fields = check_options(checked, options)
        store = await self._core.store()
        now = store.alert_rules.now()
        identity = secrets.token_hex(6) if rule_id is None else check_name(rule_id, "rule_id")
        label, signer = check_name(name, "a rule's name"), check_actor(actor)
        return await store.alert_rules.add(AlertRule(identity, label, checked, where, now, now, actor=signer, **fields))

    async def edit(
        self,
        rule_id: str,
        *,
        name: str | None = None,
        to: Sequence[Mapping[str, Any]] | None = None,
        **options: Unpack[RuleOptions],
    ) -> AlertRule:
        """Change a rule; options that you do not pass stay as they are. A destination that you pass back as it was
        shown keeps its hidden values. If the change makes the rule watch something else, or disables it, its alert
        starts over, and no message says that the previous alert is over. Raise AlertRuleNotFound."""

        def changed(rule: AlertRule) -> AlertRule:
            fields = check_options(rule.kind, options, options_of(rule))
            after = replace(
                rule,
                name=rule.name if name is None else check_name(name, "a rule's name"),
                to=rule.to if to is None else make_destinations(to, rule.to),
                **fields,
            )
            anew = any(getattr(after, one) != getattr(rule, one) for one in _WATCHED)
            return replace(after, state=rule.state.reset()) if anew else after

        _, after = await (await self._core.store()).alert_rules.change(rule_id, changed)
        return after

    async def delete(self, rule_id: str) -> AlertRule | None:
        """Delete a rule, and return it; None if its document could not be read. Raise AlertRuleNotFound."""
        return await (await self._core.store()).alert_rules.delete(rule_id)

    async def get(self, rule_id: str) -> AlertRule:
        """Return a rule with the state of its alert. Raise AlertRuleNotFound."""
        return await (await self._core.store()).alert_rules.get(rule_id)

    async def all(self) -> Listed[AlertRule]:
        """List all rules. `unreadable` of the list names documents that cannot be read."""
        return await (await self._core.store()).alert_rules.find()

    async def silence(
        self, rule_id: str, until: datetime | Seconds, *, reason: str = "", actor: str | None = None
    ) -> AlertRule:
        """Let a rule send no messages until an instant, or for some time. When the silence ends, the rule reports the
        current state: that its alert is on, or that an alert it reported earlier is over. Raise AlertRuleNotFound."""
        signer, store = check_actor(actor), await self._core.store()
        now = store.alert_rules.now()
        end = _end(until, now)
        if len(reason) > _LONGEST_REASON:
            raise ConfigurationError(f"A reason has at most {_LONGEST_REASON:,} characters.")
        silence = Silence(truncate(end), reason, signer, now)
        _, after = await store.alert_rules.change(rule_id, lambda rule: replace(rule, silence=silence))
        return after

    async def unsilence(self, rule_id: str) -> AlertRule:
        """End the silence of a rule, if it has one. Raise AlertRuleNotFound."""
        store = await self._core.store()
        _, after = await store.alert_rules.change(rule_id, lambda rule: replace(rule, silence=None))
        return after

    async def test(self, rule_id: str, *, timeout: Seconds = 10.0) -> list[AlertTest]:
        """Send one message, marked as a test, to each destination, and return the outcomes within the timeout. A worker
        with the handlers for webhooks and email sends it, even while the rule is silenced. Raise AlertRuleNotFound."""
        rule = await self.get(rule_id)
        ids = await begin_trial(self._core, rule)
        return await end_trial(self._jobs, rule, ids, seconds(timeout, "timeout"))


_LONGEST_REASON = 2000


def _end(until: datetime | Seconds, now: datetime) -> datetime:
    end = (
        check_instant(until, "until")
        if isinstance(until, datetime)
        else now + timedelta(seconds=seconds(until, "until"))
    )
    if end <= now:
        raise ConfigurationError("until must be in the future; unsilence() ends a silence.")
    return end
