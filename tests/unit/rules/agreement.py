"""What the questions that one can ask a rule have to do with each other, whatever the rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise

from mainspring.rules import Rule

MOST = 2000


def utc(text: str) -> datetime:
    """An instant written as short as possible: 2030-01-01, or 2030-01-01T09:00."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def check(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    """Ask a rule about a span in every way, and return its firings."""
    found = list(islice(rule.between(start, end), MOST))
    if len(found) == MOST:
        end = found[-1]
        found = found[:-1]
    assert all(start <= at < end for at in found)
    assert all(one < other for one, other in pairwise(found)), "in order, each once"
    assert all(type(at.tzinfo) is timezone and at.microsecond % 1000 == 0 for at in found)
    assert rule.count(start, end) == len(found)
    assert _forwards(rule, start, end) == found
    assert _backwards(rule, start, end) == found[::-1]
    for at in found[:: max(1, len(found) // 7)]:
        assert list(rule.between(at, at + timedelta(microseconds=1))) == [at]
        assert rule.count(at, end) == len(found) - found.index(at)
        assert rule.count(start, at) == found.index(at)
    return found


def _forwards(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = rule.next(start - timedelta(microseconds=1))
    while at is not None and at < end:
        found.append(at)
        at = rule.next(at)
    return found


def _backwards(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = rule.previous(end)
    while at is not None and at >= start:
        found.append(at)
        at = rule.previous(at)
    return found
