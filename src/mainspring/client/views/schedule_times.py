"""Parts of `scheduler.schedules`: the next firings of a rule, the window of a backfill, the spec after an edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.client.core import Core
from mainspring.clock import truncate
from mainspring.config.checks import check_whole
from mainspring.engine.handler import check_data, stored_version
from mainspring.errors import CalendarNotFound, InvalidJob, InvalidSchedule
from mainspring.model.jobs.draft import check_attempts, check_instant, make_draft
from mainspring.model.jobs.options import TemplateChanges
from mainspring.model.privacy.encrypted_values import encrypt_like
from mainspring.model.schedules.ledger import Entry
from mainspring.model.schedules.schedule import (
    Firing,
    Spec,
    make_spec,
)
from mainspring.model.schedules.times import Times, is_after_end
from mainspring.rules import Rule, rule_from_document
from mainspring.rules.calendars.calendar import Calendar
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.schedules.codec import draft_of, options_of
from mainspring.store.schedules.ledger import WHICH

PREVIEWED_AT_MOST = 10_000


def edited_spec(
    core: Core,
    document: Document,
    repeat: Rule | Mapping[str, Any] | None,
    data: Mapping[str, Any] | None,
    given: TemplateChanges,
    options: Mapping[str, Any],
) -> Spec:
    """The specification of a stored schedule after an edit."""
    draft = draft_of(document)
    fresh = make_draft(draft.name, data, **given)
    draft = replace(draft, **{key: getattr(fresh, key) for key in given})
    check_attempts(draft)
    if data is not None:
        handler = core.handlers.own(draft.name)
        data = check_data(handler, data)
        draft = replace(draft, data=data, data_v=draft.data_v if handler is None else stored_version(handler))
        draft.encrypt = core.privacy.encrypt(draft.name, encrypt_like(document["job"].get("data")))
    kept = {**options_of(document), **options}
    return make_spec(document["_id"], draft, repeat or rule_from_document(document["rule"]), kept)


async def calendar_of(store: Store, name: str) -> Calendar:
    """The calendar of a name, which a rule refers to."""
    found = await store.calendars.get(name)
    if found is None:
        raise CalendarNotFound(name)
    return found.calendar


def firings(times: Times, after: datetime, count: int) -> list[Firing]:
    """The next firings after an instant."""
    check_whole(count, "count", 0, PREVIEWED_AT_MOST)
    found: list[Firing] = []
    while len(found) < count and (at := times.next(after)) is not None:
        found.append(_firing(times, at))
        after = at
    return found


def _firing(times: Times, at: datetime) -> Firing:
    shown = at if is_after_end(times.rule) else times.rule.next(at - timedelta(milliseconds=1)) or at  # in its zone
    due, notes = times.due(at), times.rule.notes(at)
    if due != at:
        notes = (*notes, f"jitter moves it by {(due - at).total_seconds():.3f} s")
    return Firing(shown, due.astimezone(shown.tzinfo), notes)


def window(store: Store, start: datetime, end: datetime, which: str) -> tuple[datetime, datetime]:
    """The window of a backfill, checked."""
    if which not in WHICH:
        raise InvalidSchedule(f"which must be one of {', '.join(WHICH)}, not {which!r}.")
    start, end = truncate(instant(start, "start")), truncate(instant(end, "end"))
    if end <= start:
        raise InvalidSchedule(f"The window ends ({end.isoformat()}) before it begins ({start.isoformat()}).")
    if start > store.clock.now():
        raise InvalidSchedule("A backfill is about the past, and this window begins in the future.")
    return start, end


async def to_backfill(
    store: Store, document: Document, start: datetime, end: datetime, which: str, enough: int
) -> list[Entry]:
    """The firings of a window that a backfill would make jobs of, at least `enough` of them if there are so many."""
    found: list[Entry] = []
    past = min(end, truncate(store.clock.now()))
    async for batch in store.ledger.to_backfill(document, start, past, which):
        found += batch
        if len(found) >= enough:
            break
    return found


def instant(value: datetime, name: str) -> datetime:
    """An instant of the caller, checked, in UTC."""
    try:
        return check_instant(value, name).astimezone(UTC)
    except InvalidJob as error:
        raise InvalidSchedule(str(error)) from None
