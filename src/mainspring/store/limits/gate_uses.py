"""The current use of limits: which gates are taken, which jobs hold them, and how many wait.

A limit with a key has a gate for each of its values, of which there may be any number. The gates at which jobs wait are
found by seeks in the index of wait lists, the gates whose slots are held by the workers' heartbeats, and the others
among the first ones by name. However many there are, about 2,000 keys are examined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from mainspring.clock import EPOCH
from mainspring.model.limits.controls import GateUse, Holder
from mainspring.model.limits.limits import RATE
from mainspring.model.workers import WorkerStatus
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.limits.wait_lists import beginning
from mainspring.store.schema import BY_ID, LINE
from mainspring.store.shapes import GATE
from mainspring.store.side_by_side import side_by_side

_SCANNED, _WALKED, _WAITING_COUNTED = 100, 50, 600
_SHOWN, _HOLDERS_SHOWN = 80, 5
_FIELDS = {"grants": 1, "line": 1, "limit": 1, "full": 1, "opens": 1}

Held = Mapping[str, list[Holder]]


class GateUses:
    """The store's verb for the use of limits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find(self, forms: Iterable[str], workers: Sequence[WorkerStatus]) -> dict[str, list[GateUse]]:
        """The gates in use of each form: the name of a gate, or the prefix, up to the =, of the gates of a key."""
        wanted, held = list(dict.fromkeys(forms)), _held(workers)
        keyed = [form for form in wanted if form.endswith("=")]
        names = {form: [form] for form in wanted if form not in keyed}
        for prefix in keyed:
            names[prefix] = await self._names(prefix, len(keyed), held)
        every = [name for those in names.values() for name in those]
        gates = {one["_id"]: fit(one, GATE).document for one in await self._gates(every)}
        counted = max(5, _WAITING_COUNTED // max(1, sum(bool(gate.get("line")) for gate in gates.values())))
        found: dict[str, list[GateUse]] = {}
        for form, those in names.items():
            there = [gates[name] for name in those if name in gates]
            uses = await side_by_side(partial(self._use, form=form, held=held, counted=counted), there)
            used = [use for use in uses if use.taken or use.waiting or use.full]
            found[form] = sorted(used, key=lambda use: (-use.waiting, not use.full, -use.taken, use.gate))
        return found

    async def _names(self, prefix: str, sharing: int, held: Held) -> list[str]:
        """The gates of a key: those with waiting jobs, those that running jobs hold, and the first ones by name."""
        waiting = await self._waited_at(prefix, max(5, _WALKED // sharing))
        taken = [name for name in held if name.startswith(prefix)]
        first = await self._connection.gates.find_ids(
            {"_id": beginning(prefix)}, sort=[("_id", 1)], hint=BY_ID, limit=max(10, _SCANNED // sharing)
        )
        return list(dict.fromkeys([*waiting, *taken, *first]))[: max(5, _SHOWN // sharing)]

    async def _waited_at(self, prefix: str, most: int) -> list[str]:
        """The gates with this prefix at which jobs wait: one seek for each."""
        names: list[str] = []
        within = beginning(prefix)
        while len(names) < most:
            behind = within if not names else {"$gt": names[-1], "$lt": within["$lt"]}
            found = await self._connection.jobs.find_one(
                {"line": behind}, {"_id": 0, "line": 1}, sort=[("line", 1)], hint=LINE
            )
            if found is None:
                break
            names.append(found["line"])
        return names

    async def _gates(self, names: Sequence[str]) -> list[Document]:
        return await self._connection.gates.find_all({"_id": {"$in": list(names)}}, _FIELDS, hint=BY_ID)

    async def _use(self, gate: Document, form: str, held: Held, counted: int) -> GateUse:
        name, waiting = gate["_id"], 0
        if gate.get("line"):
            waiting = await self._connection.jobs.count({"line": name}, limit=counted, hint=LINE)
        is_rate = name.startswith(f"{RATE}:")
        taken = 0 if is_rate else sum(int(grant.get("n", 0)) for grant in gate.get("grants", ()))
        opens = gate.get("opens")
        opens = opens if isinstance(opens, datetime) and opens > self._connection.clock.now() else None
        limit = gate.get("limit")
        return GateUse(
            name,
            taken,
            waiting,
            counted,
            name.removeprefix(form) if form.endswith("=") else None,
            opens is not None if is_rate else limit is not None and taken >= limit,
            opens,
            tuple(held.get(name, ())[:_HOLDERS_SHOWN]),
        )


def _held(workers: Iterable[WorkerStatus]) -> Held:
    """The running jobs that hold slots of limits, by gate, those that have run for longest first."""
    held: defaultdict[str, list[Holder]] = defaultdict(list)
    for worker in workers:
        for slot in worker.slots:
            for gate in slot.gates:
                held[gate].append(Holder(slot.job_id, slot.name, worker.id, slot.since))
    for holders in held.values():
        holders.sort(key=lambda one: one.since or EPOCH)
    return held
