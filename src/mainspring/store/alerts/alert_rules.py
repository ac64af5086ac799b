"""Storing alert rules: one document each, with the definition of the rule and the state of its alert.

Every write is a compare-and-set on `rev`, so that one of several evaluations decides a message. A message stays in the
`outbox` of its rule until its jobs are stored; any process may store them, under ids that follow from the rule and the
number of the message, and the second one to do so changes nothing. The collection is `jobs.alert_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import AlertRuleNotFound, ConfigurationError
from mainspring.model.access.api_keys import Scope
from mainspring.model.alerts.episode import TEST, AlertState, Message, Subject
from mainspring.model.alerts.message import job_data
from mainspring.model.alerts.rule import MOST_RULES, AlertRule, Destination, Silence
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.retry import Retry
from mainspring.model.unreadable import Listed
from mainspring.store.codec import document_id
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import read, readable
from mainspring.store.jobs.insert import Inserts
from mainspring.store.schema import BY_ID, LAYOUT
from mainspring.store.shapes import ALERT_RULE

# The job of a message is kept as long as another process may still store it, whatever retention says.
_KEPT = timedelta(minutes=10)
_RETRY = Retry(attempts=8, delay=10.0, max_delay=600.0).to_document()
_ONE_ATTEMPT = Retry(attempts=1).to_document()
_SAME = (
    *("name", "kind", "after", "threshold", "within", "group_window", "repeat_every", "send_resolved", "enabled"),
    *("queue", "actor", "created_at", "updated_at", "rev"),
)


class AlertRules:
    """The store's verbs for alert rules."""

    def __init__(self, connection: Connection, inserts: Inserts) -> None:
        self._connection = connection
        self._rules = connection.alert_rules
        self._inserts = inserts

    async def find(self) -> Listed[AlertRule]:
        """All rules, in the order of their ids."""
        found = await self._rules.find_all({}, sort=[("_id", 1)], hint=BY_ID, limit=MOST_RULES)
        return readable(found, ALERT_RULE, _decode)

    async def get(self, rule_id: str) -> AlertRule:
        return read(await self._found(rule_id), ALERT_RULE, _decode, "The alert rule")

    async def add(self, rule: AlertRule) -> AlertRule:
        """Store a new rule. One that has this id already is returned: the request was repeated."""
        if await self._rules.count({}, hint=BY_ID, limit=MOST_RULES) >= MOST_RULES:
            raise ConfigurationError(f"There are {MOST_RULES} alert rules already; delete one, or widen another.")
        try:
            await self._rules.insert_one(_encode(rule))
        except DuplicateKeyError:
            return await self.get(rule.id)
        return rule

    async def change(self, rule_id: str, changed: Callable[[AlertRule], AlertRule]) -> tuple[AlertRule, AlertRule]:
        """Change a rule; returns it as it was before and as it is now."""

        async def attempt(_: int) -> tuple[AlertRule, AlertRule] | None:
            before = await self.get(rule_id)
            after = await self._replace(before, replace(changed(before), updated_at=self.now()))
            return None if after is None else (before, after)

        return await compare_and_set(attempt, f"alert rule {rule_id!r}")

    async def delete(self, rule_id: str) -> AlertRule | None:
        """Delete a rule, and return it; None where it cannot be read."""
        document = await self._rules.find_one_and_delete({"_id": rule_id})
        if document is None:
            raise AlertRuleNotFound(rule_id)
        return next(iter(readable([document], ALERT_RULE, _decode)), None)

    async def advance(self, rule: AlertRule, state: AlertState) -> AlertRule | None:
        """Store the next state of a rule's alert; None if the rule has changed since it was read."""
        return await self._replace(rule, replace(rule, state=state))

    async def send(self, rule: AlertRule) -> tuple[AlertRule | None, list[Document]]:
        """Store the jobs of the messages in a rule's outbox; returns the rule without them, or None if another process
        was faster, and the jobs that are new."""
        state, made = rule.state, []
        for message in rule.state.outbox:
            documents = self._jobs(rule, message)
            made += await self._inserts.insert_made(documents)
            state = state.sent(message.number, [str(one["_id"]) for one in documents])
        return await self.advance(rule, state), made

    async def send_test(self, rule: AlertRule, message: Message) -> list[Document]:
        """Store the jobs of a test message, which is part of no episode."""
        return await self._inserts.insert_made(self._jobs(rule, message))

    def now(self) -> datetime:
        return truncate(self._connection.clock.now())

    def _jobs(self, rule: AlertRule, message: Message) -> list[Document]:
        return [self._job(rule, message, place) for place in range(len(rule.to))]

    def _job(self, rule: AlertRule, message: Message, place: int) -> Document:
        to = rule.to[place]
        data = job_data(rule, message, to)
        retry = _ONE_ATTEMPT if message.kind == TEST else _RETRY  # a test tells its outcome at once
        draft = Draft(to.job_name, data, queue=rule.queue_for(to), retry=retry, tags=["alert"])
        job_id = job_id_of(rule, message, place)
        kept = truncate(self.now() + _KEPT)
        return {**self._inserts.document(draft), "_id": document_id(job_id), "alert": True, "dedupe_until": kept}

    async def _found(self, rule_id: str) -> Document:
        document = await self._rules.find_one({"_id": rule_id})
        if document is None:
            raise AlertRuleNotFound(rule_id)
        return document

    async def _replace(self, before: AlertRule, after: AlertRule) -> AlertRule | None:
        stored = replace(after, rev=before.rev + 1)
        written = await self._rules.replace_one({"_id": before.id, "rev": before.rev}, _encode(stored))
        return stored if written.matched_count == 1 else None


def job_id_of(rule: AlertRule, message: Message, place: int) -> str:
    """The id of the job that sends a message to one of the rule's destinations: the same in every process. A rule that
    is deleted and made again under the same id was made at another time."""
    kind = TEST if message.kind == TEST else ""
    seed = f"{rule.id}\n{rule.created_at.isoformat()}\n{kind}{message.number}\n{place}"
    return blake2b(seed.encode(), digest_size=12).hexdigest()


# -- documents -----------------------------------------------------------------------------------------------------


def _encode(rule: AlertRule) -> Document:
    document: Document = {"_id": rule.id, "v": LAYOUT, **{name: getattr(rule, name) for name in _SAME}}
    document |= rule.scope.to_document()
    document["to"] = [{"type": one.type, "data": dict(one.data)} for one in rule.to]
    document["state"] = _encode_state(rule.state)
    if rule.silence is not None:
        silence = rule.silence
        document["silence"] = _given(until=silence.until, reason=silence.reason, actor=silence.actor, at=silence.at)
    return {name: value for name, value in document.items() if value is not None}


def _encode_state(state: AlertState) -> Document:
    return _given(
        episode=state.episode,
        since=state.since,
        subjects=[_encode_subject(one) for one in state.subjects],
        gathering_since=state.gathering_since,
        told_at=state.told_at,
        messages=state.messages,
        outbox=[
            {
                "number": one.number,
                "kind": one.kind,
                "at": one.at,
                "since": one.since,
                "episode": one.episode,
                "subjects": [_encode_subject(each) for each in one.subjects],
            }
            for one in state.outbox
        ],
        jobs=list(state.jobs),
    )


def _encode_subject(one: Subject) -> Document:
    return _given(key=one.key, text=one.text, since=one.since, told=one.told or None, gone_at=one.gone_at)


def _given(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _decode(document: Document) -> AlertRule:
    silence = document.get("silence")
    fields = {name: document[name] for name in _SAME if name in document}
    return AlertRule(
        id=str(document["_id"]),
        to=tuple(map(_destination, document["to"])),
        scope=Scope.from_document(document),
        silence=None if silence is None else _silence(silence),
        state=_decode_state(document.get("state") or {}),
        **fields,
    )


def _destination(stored: Mapping[str, Any]) -> Destination:
    """A stored destination. One that cannot be shown, since another program has changed it, is refused here."""
    found = Destination(stored["type"], stored["data"])
    assert found.shown
    return found


def _silence(silence: Mapping[str, Any]) -> Silence:
    return Silence(silence["until"], silence.get("reason", ""), silence.get("actor"), silence["at"])


def _decode_state(state: Mapping[str, Any]) -> AlertState:
    return AlertState(
        episode=state.get("episode", 0),
        since=state.get("since"),
        subjects=_decode_subjects(state.get("subjects", ())),
        gathering_since=state.get("gathering_since"),
        told_at=state.get("told_at"),
        messages=state.get("messages", 0),
        outbox=tuple(
            Message(
                one["number"],
                one["kind"],
                one["at"],
                one["since"],
                one["episode"],
                _decode_subjects(one.get("subjects", ())),
            )
            for one in state.get("outbox", ())
        ),
        jobs=tuple(state.get("jobs", ())),
    )


def _decode_subjects(subjects: Iterable[Mapping[str, Any]]) -> tuple[Subject, ...]:
    return tuple(
        Subject(one["key"], one["text"], one["since"], one.get("told", False), one.get("gone_at")) for one in subjects
    )
