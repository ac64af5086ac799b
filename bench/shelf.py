"""Schedules to be measured with: made by the product, then copied.

One of each kind is stored through the product's API. The others are copies of it with ids, rules and times of their
own, where the rules and their documents are made by the product's code; hardly two of them are the same, so that
nothing is gained from reading a rule once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from bench.ground import CHUNK, Document, Place
from mainspring import Cron, Every, Rule, Scheduler
from mainspring.store.schedules.zone_versions import zones_fingerprint
from mainspring.store.schema import BY_ID

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney", "Africa/Cairo")
_DAYS = 3


async def templates(place: Place, name: str, data: dict[str, Any]) -> list[Document]:
    """A schedule of each kind, as the product stores it."""
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        for kind, rule in (("cron", Cron("0 9 * * *", "Europe/Berlin")), ("every", Every("1h"))):
            await scheduler.schedule(name, data, repeat=rule, schedule_id=kind)
    finally:
        await scheduler.stop()
    schedules = place.jobs.database["jobs.schedules"]
    documents = list(schedules.find({}, hint=BY_ID))
    schedules.delete_many({"_id": {"$in": [document["_id"] for document in documents]}})
    return documents


def store(place: Place, documents: Iterable[Document]) -> None:
    schedules, source = place.jobs.database["jobs.schedules"], iter(documents)
    while chunk := list(islice(source, CHUNK)):
        schedules.insert_many(chunk, ordered=False)


def future(place: Place, kinds: Sequence[Document], count: int) -> Iterator[Document]:
    """Schedules that fire within a few days from tomorrow on: not while anything is measured."""
    tomorrow = (place.now() + timedelta(days=1)).replace(microsecond=0)
    for n in range(count):
        at = tomorrow + timedelta(seconds=random.randrange(_DAYS * 86_400))
        yield due_at(kinds[n % len(kinds)], at, n, "future")


def due_at(template: Document, at: datetime, n: int, name: str) -> Document:
    """A schedule whose next firing is at an instant, by a rule that few others have."""
    rule = _every(at, n) if template["rule"]["kind"] == "every" else _cron(at, n)
    before = at - timedelta(hours=1)
    document = {**template, "_id": f"{name}-{n}", "rule": rule.to_document(), "zones": zones_fingerprint(rule.zones)}
    document |= {"next_at": at, "due_at": at, "fire_at": at, "cursor": before, "since": before}
    document["job"] = {**template["job"], "data": {"since": at.timestamp()}}
    return {key: value for key, value in document.items() if value is not None}


def _every(at: datetime, n: int) -> Rule:
    return Every(timedelta(minutes=90, seconds=n), anchor=at)


def _cron(at: datetime, n: int) -> Rule:
    zone = _ZONES[n % len(_ZONES)]
    wall = at.astimezone(ZoneInfo(zone))
    hours = sorted({wall.hour, (wall.hour + 2 + n % 21) % 24})
    days = sorted({wall.day, 1 + n % 28})
    fields = wall.second, wall.minute, ",".join(map(str, hours)), ",".join(map(str, days))
    return Cron(" ".join(map(str, fields)) + " * *", zone)
