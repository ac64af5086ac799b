"""The statements of a token bucket, by which a rate limits how many jobs start in a span of time.

The bucket is refilled for the time since its last update and never holds more than `burst` tokens; a start takes one.
Both are computed on the server, so that the clocks of workers do not matter. `store/limits/gates.py` sends these
statements; `engine/limits/slot_shares.py` decides how many tokens a worker takes.
"""

from __future__ import annotations

from mainspring.model.limits.limits import Rate
from mainspring.store.connection import Document
from mainspring.store.limits.semaphore import KEPT_MS, Want, granted_to_others, number_of, with_mine
from mainspring.store.schema import Expression


def taking_tokens(worker: str, want: Want, rule: Rate, now: Expression) -> list[Document]:
    """Refill the token bucket for the time since the last update, and take as many of its tokens as are wanted."""
    earned = {"$multiply": [{"$subtract": [now, {"$ifNull": ["$at", now]}]}, rule.per_second / 1000]}
    unknown = {"$max": [0, {"$subtract": [number_of(worker), want.mine]}]}
    saved = {"$add": [{"$ifNull": ["$tokens", rule.burst]}, {"$max": [0, earned]}, unknown]}
    given = {"$max": [0, {"$min": [want.now, {"$floor": "$tokens"}]}]}
    lacking = {"$subtract": [{"$min": [want.now, 1]}, {"$subtract": ["$tokens", "$given"]}]}
    wait = {"$ceil": {"$multiply": [1000 / rule.per_second, {"$max": [0, lacking]}]}}
    short = {"$lt": ["$given", want.now]}
    return [
        {"$set": {"tokens": {"$min": [rule.burst, saved]}, "at": now}},
        {"$set": {"given": given}},
        {"$set": {"opens": {"$cond": [short, {"$add": [now, wait]}, "$$REMOVE"]}}},
        {
            "$set": {
                "tokens": {"$subtract": ["$tokens", "$given"]},
                "grants": with_mine(worker, {"$add": [want.mine, "$given"]}, now),
                "full": short,
                "rev": {"$ifNull": ["$rev", 0]},
                "keep_until": {"$add": [now, int(1000 * rule.per * max(1.0, rule.burst / rule.count)) + KEPT_MS]},
                "open_at": {"$cond": ["$line", {"$ifNull": ["$opens", now]}, "$$REMOVE"]},
            }
        },
        {"$unset": "given"},
    ]


def refunding(worker: str, spent: int, now: Expression) -> list[Document]:
    """Give back the tokens of starts that were not made. The grant goes with them, so that repeating is harmless."""
    some = {"$gt": ["$back", 0]}
    return [
        {"$set": {"back": {"$max": [0, {"$subtract": [number_of(worker), spent]}]}}},
        {
            "$set": {
                "tokens": {"$add": [{"$ifNull": ["$tokens", 0]}, "$back"]},
                "grants": granted_to_others(worker),
                "full": {"$cond": [some, False, "$full"]},
                "opens": {"$cond": [some, now, "$opens"]},
                "open_at": {"$cond": [{"$and": ["$line", some]}, now, "$open_at"]},
            }
        },
        {"$unset": "back"},
    ]
