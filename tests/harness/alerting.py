"""Alert rules for tests: a rule with one chat, one evaluation of all rules, and the messages that it has made."""

from __future__ import annotations

from typing import Any

from harness.inside import inside
from harness.looking import Database
from mainspring import AlertRule, Scheduler
from mainspring.engine.alerts.evaluation import evaluate

CHAT = {"type": "chat", "url": "https://chat.example.com/services/T0/B0/canary"}


async def look(scheduler: Scheduler) -> None:
    await evaluate(await inside(scheduler).store())


async def texts(db: Database) -> list[str]:
    """The texts of all messages, in their order."""
    found = [one async for one in db.jobs.find({"alert": True}, hint="_id_")]
    return [text_of(one) for one in sorted(found, key=lambda one: one["created_at"])]


async def messages(db: Database) -> list[str]:
    """The first lines of all messages, in their order."""
    return [text.splitlines()[0] for text in await texts(db)]


def text_of(job: dict[str, Any]) -> str:
    return str(job["data"]["request"]["body"]["text"])


async def rule_of(scheduler: Scheduler, kind: Any, **options: Any) -> AlertRule:
    given = {"group_window": 0, **options}
    return await scheduler.alerts.create("ops", kind, [CHAT], **given)
