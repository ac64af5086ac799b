"""The order in which several processes of pytest run the tests.

xdist's `worksteal` gives each process a share of the list, and a process that has nothing left takes the last tests of
another. So the tests that wait for processes, leases and elections stand at the head of the shares: they run while the
other processes keep the cores busy, and short tests are left for the end. Only two shares begin with tests that start
processes: more of them at once would only wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_STARTS_PROCESSES = (("cluster",), ("acceptance", "attack", "mongod"))


def in_shares(items: Sequence[Any], processes: int) -> list[Any]:
    """The tests in the order in which they are dealt out to so many processes."""
    heads: list[list[Any]] = [[] for _ in range(processes)]
    for place, folders in enumerate(_STARTS_PROCESSES):
        heads[place % processes] += [item for item in items if _folder(item) in folders]
    taken = {item for head in heads for item in head}
    others = [item for item in items if item not in taken]
    others.sort(key=lambda item: item.get_closest_marker("slow") is None)
    ordered: list[Any] = []
    for place, head in enumerate(heads):
        room = (len(items) - len(ordered)) // (processes - place) - len(head)
        ordered += head + others[: max(0, room)]
        del others[: max(0, room)]
    return ordered + others


def _folder(item: Any) -> str:
    """The folder of `tests` that a test is in."""
    folder: str = item.nodeid.split("/")[1]
    return folder
