"""The effects of a change on the times of a schedule: since when the new times are in force, the fate of firings that
the old times still called for, and whether a declaration in code differs from the one before. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b

from bson import json_util

from mainspring.model.schedules.ledger import SKIPPED, Row
from mainspring.model.schedules.times import Times, is_after_end
from mainspring.store.connection import Document
from mainspring.store.schedules.codec import ASKED, TIMING, encode_row, era_of, is_over

_ERAS_KEPT = 50
MOMENT = timedelta(milliseconds=1)


def is_moved(document: Document, fields: Document) -> bool:
    """Whether other times are in force after a change; also where a schedule that was over gets further runs."""
    if any(key in fields and fields[key] != document.get(key) for key in TIMING):
        return True
    return is_over(document) and not is_over({**document, **fields})


def new_era(document: Document, fields: Document, now: datetime) -> Document:
    """The fields that put other times in force from now on and keep the old ones for the ledger.

    While the rule itself stays, a firing whose jitter is not over stays due, and firings skipped by hand stay skipped.
    """
    waiting = document.get("next_at")
    edge = now if waiting is None or waiting > now else waiting - MOMENT
    since, cursor = (now, now) if "rule" in fields else (edge, max(edge, document["cursor"]))
    ended = era_of(document, document["cursor"] if is_over(document) else edge)
    return {"eras": [*document.get("eras", ()), ended][-_ERAS_KEPT:], "since": since, "cursor": cursor}


def not_fired(document: Document, times: Times, now: datetime) -> list[Document]:
    """The firings that a paused schedule has skipped up to now, as a row of its ledger."""
    first, last = times.next(document["cursor"]), times.previous(now + MOMENT)
    if is_after_end(times.rule):  # only the firing that is next, unless a run is going
        last = first if first is not None and first <= now and not document.get("live") else None
    if first is None or last is None or first > last or is_over(document):
        return []
    row = Row(first, last, SKIPPED, "paused", count=times.count(first, last + MOMENT))
    return [encode_row(document["_id"], row)]


def declaration(app: str, fields: Document) -> Document:
    """A declaration in code, as a fingerprint: it only serves to detect whether the code has changed."""
    text = json_util.dumps({key: fields.get(key) for key in ASKED}, sort_keys=True)
    return {"app": app, "print": blake2b(text.encode(), digest_size=8).hexdigest()}
