"""The order in which several processes of pytest run the tests.

xdist's `worksteal` gives each process a share of the list, and a process that has nothing left takes the last tests of
another. So the tests that wait for processes, leases and elections stand at the head of the shares: they run while the
other processes keep the cores busy, and short tests are left for the end. The tests that do harm to the replica set of
three nodes are in one share, and so are those with a browser: only one process starts such a set, or a browser. One
share at least begins with other tests: where all tests start processes at once, they only wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_STARTS_PROCESSES = ("cluster", "acceptance", "attack", "mongod", "dashboard")
_SYSTEM = (*_STARTS_PROCESSES, "specs")
_THREE_NODES = "three_nodes"


def is_of_the_system(item: Any) -> bool:
    """Whether a test is of the product as a whole: processes that are killed, browsers, attacks, model checking."""
    return _folder(item) in _SYSTEM


def in_shares(items: Sequence[Any], processes: int) -> list[Any]:
    """The tests in the order in which they are dealt out to so many processes."""
    heads: list[list[Any]] = [[] for _ in range(processes)]
    for item in items:
        if _folder(item) in _STARTS_PROCESSES:
            heads[_group(item) % max(1, processes - 1)].append(item)
    taken = {item for head in heads for item in head}
    others = [item for item in items if item not in taken]
    others.sort(key=lambda item: item.get_closest_marker("slow") is None)
    ordered: list[Any] = []
    for place, head in enumerate(heads):
        room = (len(items) - len(ordered)) // (processes - place) - len(head)
        ordered += head + others[: max(0, room)]
        del others[: max(0, room)]
    return ordered + others


def _group(item: Any) -> int:
    """Which of the groups of tests that start processes a test is in; each group takes minutes."""
    if _folder(item) != "cluster":
        return 3 if _folder(item) == "dashboard" else 2
    return 0 if _THREE_NODES in item.fixturenames else 1


def _folder(item: Any) -> str:
    """The folder of `tests` that a test is in."""
    folder: str = item.nodeid.split("/")[1]
    return folder
