"""The state of a rule's alert, and the step that an evaluation takes from it. Pure.

    ok ──(a subject is found)──▶ pending ──(it has held, and others were gathered)──▶ firing ──(all are gone)──▶ ok

An episode begins with the first message and ends with the message that it is over. `step` decides the next state from
the subjects that were found now; a message is part of that state (`outbox`) until its jobs are stored. Of several
processes that evaluate at once, the compare-and-set on the rule's document lets one decide. All of them may store the
jobs of a message, whose ids follow from its number: it is sent once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

MessageKind = Literal["firing", "repeat", "resolved", "test"]
FIRING: Final = "firing"
REPEAT: Final = "repeat"
RESOLVED: Final = "resolved"
TEST: Final = "test"
Status = Literal["ok", "pending", "firing"]
MOST_SUBJECTS = 100
"""The subjects of an alert that are kept and told; the evaluation finds fewer than that many."""
_JOBS_KEPT = 15


@dataclass(frozen=True, slots=True)
class Finding:
    """A subject for which the condition of a rule holds now. `since` is None where only the evaluations tell how long
    it has held; otherwise the time of the rule (`after`) has passed already."""

    key: str
    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of an alert: when it was found, reported in a message, and perhaps gone again."""

    key: str
    text: str
    since: datetime
    told: bool = False
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an alert. `number` counts the messages of a rule: the ids of its jobs follow from it."""

    number: int
    kind: MessageKind
    at: datetime
    since: datetime
    """When the first subject was found."""
    episode: int
    subjects: tuple[Subject, ...]


@dataclass(frozen=True, slots=True)
class AlertState:
    """The state of a rule's alert."""

    episode: int = 0
    """The number of the episode, the current or the last one."""
    since: datetime | None = None
    """When the current episode began: its first message was decided then."""
    subjects: tuple[Subject, ...] = ()
    gathering_since: datetime | None = None
    """When a subject was first found that no message has told yet."""
    told_at: datetime | None = None
    """When the last message was decided."""
    messages: int = 0
    """The number of messages so far."""
    outbox: tuple[Message, ...] = ()
    """The messages whose jobs are not known to be stored."""
    jobs: tuple[str, ...] = ()
    """The ids of the jobs that sent the last messages, the latest first."""

    @property
    def status(self) -> Status:
        return "firing" if self.since is not None else "pending" if self.subjects else "ok"

    @property
    def current(self) -> tuple[Subject, ...]:
        """The subjects for which the condition held at the last evaluation."""
        return tuple(one for one in self.subjects if one.gone_at is None)

    def reset(self) -> AlertState:
        """The state of a rule that watches something else from now on. Its numbers continue, so that no id is used
        twice."""
        return AlertState(episode=self.episode, messages=self.messages, told_at=self.told_at, jobs=self.jobs)

    def sent(self, number: int, jobs: Sequence[str]) -> AlertState:
        """The state after the jobs of a message are stored."""
        left = tuple(one for one in self.outbox if one.number != number)
        return replace(self, outbox=left, jobs=(*jobs, *(one for one in self.jobs if one not in jobs))[:_JOBS_KEPT])


class Timing(Protocol):
    """The durations of a rule, in seconds."""

    @property
    def after(self) -> float: ...

    @property
    def group_window(self) -> float: ...

    @property
    def repeat_every(self) -> float | None: ...

    @property
    def send_resolved(self) -> bool: ...


def step(state: AlertState, found: Sequence[Finding], now: datetime, rule: Timing, *, silenced: bool) -> AlertState:
    """The state after an evaluation that found these subjects; the same object where nothing has changed. While the
    rule is silenced, subjects come and go, and no message is decided: that waits for the end of the silence."""
    present = {one.key: one for one in found[:MOST_SUBJECTS]}
    subjects = _followed(state.subjects, present, now)
    seen = state if subjects == state.subjects else replace(state, subjects=subjects)
    if silenced:
        return seen
    if not seen.current:
        return _quiet(seen, now, rule)
    return _active(seen, present, now, rule)


def _followed(known: Sequence[Subject], present: dict[str, Finding], now: datetime) -> tuple[Subject, ...]:
    """The subjects after an evaluation: those known, and those found for the first time. One that was never told and is
    gone is forgotten."""
    followed: list[Subject] = []
    for one in known:
        if one.key in present:
            followed.append(one if one.gone_at is None else replace(one, gone_at=None))
        elif one.told:
            followed.append(one if one.gone_at is not None else replace(one, gone_at=now))
    keys = {one.key for one in followed}
    fresh = [Subject(one.key, one.text, one.since or now) for one in present.values() if one.key not in keys]
    return (*followed, *fresh)


def _quiet(state: AlertState, now: datetime, rule: Timing) -> AlertState:
    """No subject is left: the episode is over once that has lasted for the window."""
    if any(not _settled(one, now, rule) for one in state.subjects):
        return state
    if state.since is None:
        return state if state.gathering_since is None else replace(state, subjects=(), gathering_since=None)
    over = replace(state, since=None, subjects=(), gathering_since=None)
    return _told(over, RESOLVED, state.subjects, state.since, now) if rule.send_resolved else over


def _active(state: AlertState, present: dict[str, Finding], now: datetime, rule: Timing) -> AlertState:
    kept = tuple(one for one in state.subjects if one.gone_at is None or not _settled(one, now, rule))
    fresh = [one for one in kept if one.gone_at is None and not one.told and _is_ripe(one, present, now, rule)]
    since = None if not fresh else state.gathering_since or now
    if kept != state.subjects or since != state.gathering_since:
        state = replace(state, subjects=kept, gathering_since=since)
    if since is not None and now - since >= timedelta(seconds=rule.group_window):
        return _fire(state, FIRING, present, now, rule)
    again = rule.repeat_every is not None and state.since is not None and state.told_at is not None
    if again and now - (state.told_at or now) >= timedelta(seconds=rule.repeat_every or 0):
        return _fire(state, REPEAT, present, now, rule)
    return state


def _fire(state: AlertState, kind: MessageKind, present: dict[str, Finding], now: datetime, rule: Timing) -> AlertState:
    """The state with a message about all subjects that count now, in the words of now."""
    told = [
        replace(one, told=True, text=present[one.key].text)
        for one in state.current
        if one.told or _is_ripe(one, present, now, rule)
    ]
    keys = {one.key: one for one in told}
    subjects = tuple(keys.get(one.key, one) for one in state.subjects)
    begun = state.since is not None
    firing = replace(
        state,
        subjects=subjects,
        gathering_since=None,
        since=state.since if begun else now,
        episode=state.episode if begun else state.episode + 1,
    )
    return _told(firing, kind, told, min((one.since for one in told), default=now), now)


def _told(
    state: AlertState, kind: MessageKind, subjects: Sequence[Subject], since: datetime, now: datetime
) -> AlertState:
    number = state.messages + 1
    message = Message(number, kind, now, since, state.episode, tuple(subjects))
    return replace(state, messages=number, told_at=now, outbox=(*state.outbox, message))


def _is_ripe(one: Subject, present: dict[str, Finding], now: datetime, rule: Timing) -> bool:
    finding = present.get(one.key)
    judged = finding is not None and finding.since is not None
    return judged or now - one.since >= timedelta(seconds=rule.after)


def _settled(one: Subject, now: datetime, rule: Timing) -> bool:
    return one.gone_at is not None and now - one.gone_at >= timedelta(seconds=rule.group_window)
