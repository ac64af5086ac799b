"""The ids of the jobs of a flow. Pure.

The id of a child is computed from the id of its parent, the name of the wait, and its index or key. So a parent that is
run again after a crash finds the children that it has made, and the results of a map in order are a range of ids.
There is no "/" in an id, since ids are parts of HTTP paths.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Any

from mainspring.errors import StepError

LONGEST_PARENT = 400
"""A parent's id that is longer is represented by its hash in the ids of its children."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_HASHED = "~"
KEY_SIZE = 16
_DIGITS = 8
MOST_ITEMS = 10**_DIGITS
FIRST_ROUND = 1


def wait_id(waiter: str, name: str, round: int = FIRST_ROUND) -> str:
    """The id of a wait, as its predecessors name it in `before`."""
    return f"{waiter}#{_part(name)}" if round == FIRST_ROUND else f"{waiter}#r{round}.{_part(name)}"


def waiter_of(wait: str) -> str:
    """The id of the job that waits. It may contain a "#"; the part behind the last one is the name of the wait."""
    return wait.rpartition("#")[0]


def waits_of(waiter: str) -> tuple[str, str]:
    """The bounds of the ids of a job's waits: the first is not above them, the second is."""
    return f"{waiter}#", f"{waiter}$"


def child_prefix(parent: str, name: str, round: int = FIRST_ROUND) -> str:
    """The beginning of the ids of a wait's children; the id of an only child."""
    return f"{_base(parent, round)}.{_part(name)}"


def grown_prefix(parent: str, round: int = FIRST_ROUND) -> str:
    """The beginning of the ids of jobs that a member adds to its own wait; no name of a wait leads to it."""
    return f"{_base(parent, round)}.{_HASHED}grown"


def _base(parent: str, round: int) -> str:
    base = parent if len(parent) <= LONGEST_PARENT else _HASHED + _hash(parent, 16)
    return base if round == FIRST_ROUND else f"{base}.{_HASHED}r{round}"


def indexed_id(prefix: str, index: int) -> str:
    """The id of a child by its place; padded, so that the order of ids is the order of places."""
    if index >= MOST_ITEMS:
        raise StepError(f"A map has at most {MOST_ITEMS:,} items; split it into several.")
    return f"{prefix}.{index:0{_DIGITS}d}"


def key_digest(key: Any) -> bytes:
    """The digest of a key, the same in every process."""
    try:
        text = json.dumps(key, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise StepError(f"A key of a map is a plain value such as a text or a number: {error}") from None
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_SIZE).digest()


def keyed_id(prefix: str, digest: bytes) -> str:
    """The id of a child by the digest of its key."""
    return f"{prefix}.k{digest.hex()}"


def node_below(node: str | None, name: str) -> str:
    """The path of names below the root."""
    return name if node is None else f"{node}/{name}"


def _part(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _HASHED + _hash(name, 8)


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
