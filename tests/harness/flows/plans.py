"""Flows made by chance from a seed, and the outcome that each must have, by rules written down here once more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Item = dict[str, Any]
"""The data of one job: `v`, a number of its own, and `how` it behaves."""

_LEAVES = ("leaf", "leaf", "gated")
MENDED = "mended"
"""The file in the folder of the history without which some jobs fail."""
MANY = 40
"""A map with more items than these has plain ones, which need not be told one by one."""


@dataclass(slots=True)
class Plan:
    """One flow. `state` and `value` are those of its root at its end; None where chance decides."""

    kind: str
    what: Any
    state: str | None = None
    value: int | None = None
    nodes: dict[str, str] = field(default_factory=dict)
    """Of a declared flow: how each node must end."""
    cancel_after: float | None = None
    retried: bool = False
    """Whether it fails at first, and is retried when everything is mended."""

    @property
    def certain(self) -> bool:
        return self.state is not None


class Maker:
    """Makes plans. Each job of a seed has a number of its own."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._numbers = count(1)
        self._deaths = 2

    def plans(self, flows: int, largest: int) -> list[Plan]:
        kinds = ["tree", "tree", "narrow", "graph", "graph", "chain", "batch"]
        made = [self._plan(kinds[place % len(kinds)], largest) for place in range(flows)]
        for plan in self.dice.sample(made, max(1, flows // 6)):
            if not plan.retried:
                plan.cancel_after, plan.state = self.dice.uniform(0.0, 2.5), None
        return made

    def _plan(self, kind: str, largest: int) -> Plan:
        if kind in ("tree", "narrow"):
            item = self.tree(kind, 2 if kind == "tree" else 1, largest)
            ended, value = outcome(kind, item)
            plan = Plan(kind, item, ended, value)
        elif kind == "graph":
            plan = self._graph()
        elif kind == "chain":
            items = [self.leaf(trouble=0.15) for _ in range(self.dice.randint(2, 6))]
            ends = [outcome("leaf", item)[0] for item in items]
            plan = Plan("chain", items, "failed" if "failed" in ends else "completed")
        else:
            items = [self.leaf(trouble=0.1) for _ in range(self.dice.randint(0, 40))]
            bad = sum(outcome("leaf", item)[0] == "failed" for item in items)
            tolerate = self.dice.choice([0, 2, 0.25])
            ended = "completed" if bad <= _tolerated(tolerate, len(items)) else "failed"
            callbacks = {name: self.leaf(die=False) for name in ("on_success", "on_failure", "on_done")}
            plan = Plan("batch", {"items": items, "tolerate": tolerate, "callbacks": callbacks}, ended)
        if plan.state == "failed" and _mends(plan.what) and not _is_broken(plan.what):
            plan.retried = True
        return plan

    # -- jobs ------------------------------------------------------------------------------------------------------

    def leaf(self, trouble: float = 0.0, die: bool = True) -> Item:
        how: dict[str, Any] = {"seconds": self.dice.choice([0, 0, 0, 0.01, 0.05, 0.2])}
        if self.dice.random() < trouble:
            how["fail"] = self.dice.choice(["always", "first", MENDED])
        elif self.dice.random() < 0.05:
            how["grow"] = self.dice.randint(1, 2)
        if die and self._deaths and self.dice.random() < 0.02:
            self._deaths -= 1
            how["die"] = True
        return {"v": next(self._numbers), "how": how}

    def tree(self, kind: str, depth: int, largest: int) -> Item:
        ops = [self._operation(kind, f"op{place}", depth, largest) for place in range(self.dice.randint(1, 4))]
        how: dict[str, Any] = {"ops": ops}
        if self.dice.random() < 0.2:
            how["rounds"] = 2
        if self._deaths and self.dice.random() < 0.15:
            self._deaths -= 1
            how["die"] = True
        return {"v": next(self._numbers), "how": how}

    def _operation(self, kind: str, name: str, depth: int, largest: int) -> dict[str, Any]:
        chosen = self.dice.choice(["map", "map", "call", "gather", "step", "signal", "sleep"])
        if chosen == "step":
            return {"op": "step", "name": name, "v": next(self._numbers)}
        if chosen == "signal":
            return self._signal(name)
        if chosen == "sleep":
            return {"op": "sleep", "name": name, "seconds": self.dice.choice([0.05, 0.5])}
        if chosen == "call":
            return self._call(kind, name, depth)
        if chosen == "map":
            return self._map(kind, name, depth, largest)
        parts = [
            self._call(kind, f"{name}-{n}", depth)
            if self.dice.random() < 0.5
            else self._map(kind, f"{name}-{n}", depth, 10)
            for n in range(self.dice.randint(2, 3))
        ]
        if self.dice.random() < 0.3:
            parts.append({**self._signal(f"{name}-s"), "values": [next(self._numbers)]})
        for part in parts:
            part["fail_fast"] = False  # a gather is not caught
        return {"op": "gather", "name": name, "parts": parts}

    def _signal(self, name: str) -> dict[str, Any]:
        """Waits for one or two signals of the same name, or for one that is never sent until its time is over."""
        values = [next(self._numbers) for _ in range(self.dice.choice([0, 1, 2]))]
        operation: dict[str, Any] = {"op": "signal", "name": name, "signal": f"for-{name}", "values": values}
        operation["early"] = self.dice.random() < 0.5
        return operation

    def _call(self, kind: str, name: str, depth: int) -> dict[str, Any]:
        job = kind if depth > 0 and self.dice.random() < 0.5 else self.dice.choice(_LEAVES)
        item = self.tree(kind, depth - 1, 8) if job == kind else self.leaf(trouble=0.1)
        return {"op": "call", "name": name, "job": job, "item": item, "catch": self.dice.random() < 0.5}

    def _map(self, kind: str, name: str, depth: int, largest: int) -> dict[str, Any]:
        size = self.dice.choice([0, 1, 3, 10, 20, largest])
        job = kind if depth > 0 and size <= 3 and self.dice.random() < 0.6 else self.dice.choice(_LEAVES)
        trouble = self.dice.choice([0.0, 0.0, 0.1])
        items: Any
        if size > MANY:
            items = {"first": next(self._numbers), "many": size}
            self._numbers = count(items["first"] + size)
        else:
            items = [self.tree(kind, depth - 1, 8) if job == kind else self.leaf(trouble) for _ in range(size)]
        operation = {"op": "map", "name": name, "job": job, "items": items, "keyed": self.dice.random() < 0.4}
        operation["catch"] = self.dice.random() < 0.6
        operation["tolerate"] = self.dice.choice([0, 0, 1, 0.1])
        # Jobs that are cancelled by chance would make all sums above uncertain; a caught wait counts as nothing.
        operation["fail_fast"] = operation["catch"] and self.dice.random() < 0.3
        if size and self._deaths and self.dice.random() < 0.2:
            self._deaths -= 1
            operation["die_at"] = self.dice.randrange(size)
        return operation

    # -- graphs ----------------------------------------------------------------------------------------------------

    def _graph(self) -> Plan:
        nodes: list[dict[str, Any]] = []
        ends: dict[str, str] = {}
        for place in range(self.dice.randint(2, 10)):
            after = self.dice.sample([node["name"] for node in nodes], self.dice.randint(0, min(3, len(nodes))))
            node: dict[str, Any] = {"name": f"n{place}", "after": after}
            node["when"] = (
                self.dice.choice(["success", "success", "success", "done", "failure"]) if after else "success"
            )
            roll = self.dice.random()
            if roll < 0.2:
                node |= {"job": "tree", "item": self.tree("tree", 1, 12)}
            elif roll < 0.35:
                node |= {"job": "leaf", "over": [self.leaf(trouble=0.1) for _ in range(self.dice.choice([0, 1, 8]))]}
                node |= {"tolerate": self.dice.choice([0, 1])}
            else:
                node |= {"job": self.dice.choice(_LEAVES), "item": self.leaf(trouble=0.2)}
                node["refers"] = bool(after) and node["when"] == "success" and self.dice.random() < 0.4
            nodes.append(node)
            ends[node["name"]] = _end_of_node(node, ends)
        state = "failed" if {"failed", "cancelled"} & set(ends.values()) else "completed"
        plan = Plan("graph", nodes, state, nodes=ends)
        plan.retried = state == "failed" and _mends(nodes) and not _is_broken(nodes)
        return plan


# -- the outcomes that plans must have ---------------------------------------------------------------------------------


def outcome(job: str, item: Item, mended: bool = False) -> tuple[str, int]:
    """How a job ends, and the value that it returns."""
    how = item["how"]
    if "ops" not in how:
        fails = how.get("fail") == "always" or (how.get("fail") == MENDED and not mended)
        return ("failed", 0) if fails else ("completed", item["v"])
    total = item["v"]
    for operation in how["ops"]:
        added = _added(operation, mended)
        if added is None:
            return "failed", 0
        total += added
    return "completed", total


def _added(operation: dict[str, Any], mended: bool) -> int | None:
    """What an operation adds; None where its job fails of it."""
    if operation["op"] == "step":
        return int(operation["v"])
    if operation["op"] == "sleep":
        return 0
    if operation["op"] == "gather":
        parts = [_of_wait(part, mended) for part in operation["parts"]]
        # One part that raises ends the gather, which is never caught.
        return None if any(bad for bad, _ in parts) else sum(value for _, value in parts)
    bad, value = _of_wait(operation, mended)
    if not bad:
        return value
    if not operation["catch"]:
        return None
    return 0 if operation.get("fail_fast") or operation["op"] == "call" else value


def _of_wait(operation: dict[str, Any], mended: bool) -> tuple[bool, int]:
    """Whether a wait raises, and the sum of the children that complete, or of the signals."""
    if operation["op"] == "signal":
        return False, sum(operation["values"])
    items = items_of(operation)
    ends = [outcome(operation["job"], item, mended) for item in items]
    bad = sum(state != "completed" for state, _ in ends)
    tolerated = 0 if operation["op"] == "call" else _tolerated(operation["tolerate"], len(items))
    return bad > tolerated, sum(value for _, value in ends)


def items_of(operation: Mapping[str, Any]) -> list[Item]:
    """The data of the children of a wait."""
    if operation["op"] == "call":
        return [operation["item"]]
    items = operation["items"]
    if isinstance(items, list):
        return items
    return [{"v": v, "how": {}} for v in range(items["first"], items["first"] + items["many"])]


def signals_of(item: Item) -> Iterator[tuple[str, int, bool]]:
    """The signals that a job waits for: their names, their payloads, and whether they come early."""
    for operation in item["how"].get("ops") or ():
        for one in operation.get("parts") or [operation]:
            if one["op"] == "signal":
                yield from ((one["signal"], value, one["early"]) for value in one["values"])


def _tolerated(tolerate: float, total: int) -> int:
    return int(tolerate * total) if isinstance(tolerate, float) else tolerate


def _end_of_node(node: dict[str, Any], ends: dict[str, str], mended: bool = False) -> str:
    """completed, failed, cancelled or skipped."""
    before = [ends[name] for name in node["after"]]
    bad = any(end in ("failed", "cancelled") for end in before)
    if node["when"] == "success" and before:
        if bad:
            return "cancelled"
        if "skipped" in before:
            return "skipped"
    if node["when"] == "failure" and not bad:
        return "skipped"
    if "over" in node:
        failed = sum(outcome("leaf", item, mended)[0] == "failed" for item in node["over"])
        return "failed" if failed > node["tolerate"] else "completed"
    return outcome(node["job"], node["item"], mended)[0]


def _items(what: Any) -> Iterator[Item]:
    if isinstance(what, dict):
        if "v" in what and "how" in what:
            yield what
        for value in what.values():
            yield from _items(value)
    elif isinstance(what, list):
        for value in what:
            yield from _items(value)


def _mends(what: Any) -> bool:
    return any(item["how"].get("fail") == MENDED for item in _items(what))


def _is_broken(what: Any) -> bool:
    """Whether a job fails for ever, so that a retry does not help for certain."""
    return any(item["how"].get("fail") == "always" for item in _items(what))


def after_retry(plan: Plan) -> str:
    """How a flow ends that was retried when everything was mended. Jobs that had caught a failure keep their results,
    so that its value is not certain."""
    return outcome(plan.kind, plan.what, mended=True)[0] if plan.kind in ("tree", "narrow") else "completed"
