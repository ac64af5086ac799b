"""Alert rules: list, create, change, delete, silence and test.

A key with a scope reaches the rules whose own scope is within it, and makes only such rules. Their messages are sent by
jobs that it could have created itself: in its queues, under its names, with secrets that it may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Response

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.data_checks import check_secrets, guard, refusing
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import signed, with_signed
from mainspring.api.problems import Problem
from mainspring.api.wire.alerts import AlertTestOut, RuleChange, RuleIn, RuleOut, SilenceIn, TrialIn
from mainspring.api.wire.base import Answer, ListAnswer, Nothing, span_seconds
from mainspring.client.alerts.destinations import make_destinations
from mainspring.errors import AlertRuleNotFound, MalformedDocument
from mainspring.model.access.api_keys import Scope, make_scope
from mainspring.model.alerts.rule import AlertRule, Destination
from mainspring.model.fields import Fields
from mainspring.model.jobs.reserved_names import HTTP, QUEUES

router = APIRouter(prefix="/api/alerts", tags=["alerts"])
RuleId = Annotated[str, Path(min_length=1, max_length=200, examples=["69b2c3d4e5f6a7b8c9d0e1f2"])]
MOST_OF_A_SCOPE = 20
"""How many rules a key with a scope may have within it: all rules together are bounded, and it must not use them up."""


@router.get("", summary="List alert rules")
async def list_alert_rules(caller: Viewer) -> ListAnswer[RuleOut]:
    """List the alert rules, each with the state of its alert. Secrets in destinations are not shown."""
    found = await caller.scheduler.alerts.all()
    reached = [rule for rule in found if caller.scope.covers(rule.scope)]
    return ListAnswer.of(found, await _shown(caller, reached), everything=caller.scope.everything)


@router.post("", summary="Create an alert rule", status_code=201, response_model=Answer[RuleOut])
async def create_alert_rule(body: RuleIn, caller: Operator, once: Once) -> Response:
    """Create a rule that reports a problem by email, webhook or chat: once when it begins, again every `repeatEvery`,
    and once when it is over. Problems that begin within `groupWindow` share a message."""

    async def make(rule_id: str) -> Made:
        with refusing("to"):
            to = make_destinations([one.given() for one in body.to])
        options = body.options()
        options |= _within(caller, options)
        await _check_jobs(caller, to, options.get("queue"))
        await _check_number(caller)
        with refusing():
            rule = await caller.scheduler.alerts.create(
                body.name, body.kind, [one.given() for one in body.to], rule_id=rule_id, actor=caller.actor, **options
            )
        await caller.note("alert.create", rule.id, after=_told(rule))
        return Made(await _answer(caller, rule))

    return await once.answer(caller, make)


@router.get("/{rule_id}", summary="Get an alert rule")
async def get_alert_rule(rule_id: RuleId, caller: Viewer) -> Answer[RuleOut]:
    """Return a rule with the state of its alert."""
    return await _answer(caller, await _reached(caller, rule_id))


@router.patch("/{rule_id}", summary="Change an alert rule")
async def change_alert_rule(rule_id: RuleId, body: RuleChange, caller: Operator) -> Answer[RuleOut]:
    """Change the given fields of a rule. If the change makes the rule watch something else, its alert starts over."""
    before = await _reached(caller, rule_id)
    options = body.options()
    if {"queues", "prefixes"} & options.keys():
        given = {"queues": before.scope.queues, "prefixes": before.scope.prefixes, **options}
        options |= _within(caller, given)
    to = None if body.to is None else [one.given() for one in body.to]
    with refusing("to"):
        after_to = before.to if to is None else make_destinations(to, before.to)
    if to is not None or "queue" in options:
        await _check_jobs(caller, after_to, options.get("queue", before.queue))
    with refusing():
        after = await caller.scheduler.alerts.edit(rule_id, name=body.name, to=to, **options)
    await caller.note("alert.update", rule_id, before=_told(before), after=_told(after))
    return await _answer(caller, after)


@router.delete("/{rule_id}", summary="Delete an alert rule")
async def delete_alert_rule(rule_id: RuleId, caller: Operator) -> Answer[RuleOut]:
    """Delete a rule and return it. Messages that are already on their way are still sent."""
    before = await _reached(caller, rule_id)
    await caller.scheduler.alerts.delete(rule_id)
    await caller.note("alert.delete", rule_id, before=_told(before))
    return await _answer(caller, before)


@router.post("/{rule_id}/silence", summary="Silence an alert rule")
async def silence_alert_rule(rule_id: RuleId, body: SilenceIn, caller: Operator) -> Answer[RuleOut]:
    """Let a rule send no messages for some time. When the silence ends, the rule reports the current state of its
    alert."""
    before = await _reached(caller, rule_id)
    until = body.until if body.duration is None else body.duration
    assert until is not None
    with refusing("until"):
        after = await caller.scheduler.alerts.silence(rule_id, until, reason=body.reason, actor=caller.actor)
    await caller.note("alert.silence", rule_id, before=_told(before), after=_told(after))
    return await _answer(caller, after)


@router.post("/{rule_id}/unsilence", summary="End the silence of an alert rule")
async def unsilence_alert_rule(rule_id: RuleId, caller: Operator, body: Nothing | None = None) -> Answer[RuleOut]:
    """End the silence of a rule, if it has one."""
    before = await _reached(caller, rule_id)
    after = await caller.scheduler.alerts.unsilence(rule_id)
    await caller.note("alert.unsilence", rule_id, before=_told(before), after=_told(after))
    return await _answer(caller, after)


@router.post("/{rule_id}/test", summary="Test an alert rule")
async def test_alert_rule(rule_id: RuleId, caller: Operator, body: TrialIn | None = None) -> Answer[list[AlertTestOut]]:
    """Send one message, marked as a test, to each destination, even while the rule is silenced, and return the outcomes
    within the timeout. A worker sends it or, if no live worker can, this service."""
    rule = await _reached(caller, rule_id)
    ids = await caller.backend.begin_alert_test(rule)
    await caller.service.alerts.deliver(ids)
    outcomes = await caller.backend.end_alert_test(
        rule, ids, span_seconds((body or TrialIn.model_validate({})).timeout)
    )
    await caller.note("alert.test", rule_id, after={"arrived": [one.arrived for one in outcomes]})
    return Answer(data=[AlertTestOut.of(one) for one in outcomes])


# -- reach -------------------------------------------------------------------------------------------------------------


async def _reached(caller: Caller, rule_id: str) -> AlertRule:
    """A rule within the caller's reach. The error for any other is the same as for one that does not exist."""
    try:
        rule = await caller.scheduler.alerts.get(rule_id)
    except MalformedDocument:
        if caller.scope.everything:
            raise
        raise AlertRuleNotFound(rule_id) from None
    if not caller.scope.covers(rule.scope):
        raise AlertRuleNotFound(rule_id)
    return rule


async def _check_number(caller: Caller) -> None:
    if caller.scope.everything:
        return
    reached = [rule for rule in await caller.scheduler.alerts.all() if caller.scope.covers(rule.scope)]
    if len(reached) >= MOST_OF_A_SCOPE:
        raise Problem(409, f"A key with a scope has at most {MOST_OF_A_SCOPE} alert rules; delete one first.")


def _within(caller: Caller, options: Fields) -> Fields:
    """The scope of a rule: the given one, which is within the caller's, or the caller's own."""
    own = caller.scope
    with refusing():
        asked = make_scope(options.get("queues"), options.get("prefixes"))
    scope = Scope(asked.queues or own.queues, asked.prefixes or own.prefixes)
    if not own.covers(scope):
        raise Problem(403, "The queues or prefixes are out of this key's scope; nothing was changed.", field="queues")
    return {"queues": scope.queues, "prefixes": scope.prefixes}


async def _check_jobs(caller: Caller, to: Iterable[Destination], queue: str | None) -> None:
    """Refuse destinations whose jobs the caller could not create itself."""
    for one in to:
        place = queue or QUEUES[one.job_name]
        if not caller.scope.allows(place, one.job_name):
            text = "Messages are sent by jobs that would be out of this key's scope; give a queue of the key."
            raise Problem(403, text, field="queue")
        if one.job_name == HTTP:
            with refusing("to"):
                guard(caller.service.settings.http_allow).check_url(str(one.data["target"]))
            await check_secrets(caller, HTTP, place, one.data)


# -- showing -----------------------------------------------------------------------------------------------------------


async def _shown(caller: Caller, rules: Iterable[AlertRule]) -> list[RuleOut]:
    now = caller.service.now()
    current = [replace(rule, silence=rule.silenced(now)) for rule in rules]
    seen = await with_signed(caller, await signed(caller, current), "silence")
    return [RuleOut.of(rule, rule.silence) for rule in seen]


async def _answer(caller: Caller, rule: AlertRule) -> Answer[RuleOut]:
    (shown,) = await _shown(caller, [rule])
    return Answer(data=shown)


def _told(rule: AlertRule) -> Fields:
    """The audit entry of a rule, without secrets."""
    told = RuleOut.of(rule, rule.silence).model_dump(mode="json", by_alias=False)
    return {name: value for name, value in told.items() if name not in ("subjects", "jobs", "created_at")}
