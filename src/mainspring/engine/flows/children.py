"""The worker's side of a handler that waits: stores its children, and finds out whether a wait is over.

One `Children` serves one attempt, on the event loop of the worker. It writes nothing to the job itself: the suspension
that it notes becomes the outcome of the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mainspring.clock import monotonic, truncate
from mainspring.engine.flows.verbs import Asked, Begun, Heard, Portion, Settled, SignalAsked
from mainspring.engine.handlers import Named
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.errors import ClaimLost, InvalidJob, StepError, Unavailable
from mainspring.model.fields import Fields
from mainspring.model.flows import ids
from mainspring.model.flows.decide import Ends
from mainspring.model.flows.family import Family
from mainspring.model.flows.waits import MOST_WAITS, Predecessors, Waits, read_waits
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.guarantee import AT_MOST_ONCE
from mainspring.model.jobs.job import COMPLETED, Job
from mainspring.model.limits.limits import SequenceGate
from mainspring.store import Store
from mainspring.store.codec import document_id
from mainspring.store.connection import Document
from mainspring.store.flows.batches import ITEMS
from mainspring.store.flows.checks import FAST
from mainspring.store.flows.spawners import Spawner

T = TypeVar("T")
DraftChildren = Callable[[Named, Sequence[Any], Fields], Awaitable[list[Draft]]]
"""Makes checked drafts of children: of one name, with data each, and the same options."""

_PAUSE = 0.1
_ERRORS = 10
_NOT_OF_CHILDREN = (
    *("dedupe_key", "dedupe_window", "dedupe_namespace", "debounce", "debounce_max", "throttle"),
    *("session", "parent_id", "job_id"),
)
ONCE = (
    "A handler with guarantee='at_most_once' may be started once only, so that it cannot wait for children: it would "
    "have to be run again after the wait. Let a job with another guarantee wait, and call this one as its child."
)
_OUTSIDE = "Let a job outside of the sequence wait for both, or do the work in a step."


class Children:
    """The waits of one attempt."""

    def __init__(
        self, claimed: ClaimedJob, store: Store, draft: DraftChildren, made: Callable[[list[Document]], None]
    ) -> None:
        self._claimed = claimed
        self._store = store
        self._draft = draft
        self._made = made
        self.suspended: Waits | None = None
        """The waits that the handler was suspended for."""
        self._waited = read_waits(claimed.job.document.get("waits"))
        self._past: dict[str, Predecessors] = {}
        self._above: dict[str, str] | None = None
        root = claimed.job.document.get("flow")
        noted = claimed.job.document.get("spawned") is True
        self._spawner = Spawner(claimed.id, claimed.token, root if isinstance(root, str) else str(claimed.id), noted)
        self._grown = 0

    # -- making children -------------------------------------------------------------------------------------------

    async def begin(self, name: str) -> Begun:
        if self._claimed.guarantee == AT_MOST_ONCE:
            raise StepError(ONCE)
        wait = self._family(name).wait
        known = None if self._waited is None else self._waited.find(wait)
        return Begun(False) if known is None else Begun(True, known.total)

    async def spawn(self, portion: Portion) -> bool:
        family = self._family(portion.wait, portion.digests is not None, portion.single)
        self._claimed.made_children()
        drafts = await self._draft(portion.job, portion.items, _checked(portion.options))
        await self._refuse_held_sequences(drafts)
        digests: Sequence[bytes | None] = portion.digests or [None] * len(drafts)
        chosen = [family.child_id(portion.start + place, digest) for place, digest in enumerate(digests)]
        made = await self.store_between(lambda: self._store.spawning.store(family, drafts, chosen, portion.start))
        if made:
            self._made(made)
        return bool(made)

    async def _refuse_held_sequences(self, drafts: Sequence[Draft], *, by_this: bool = True) -> None:
        """Refuse jobs to wait for that could only run after a job that waits: a job that waits keeps its place in its
        sequence. `by_this` says that this job waits for them too, not only those above it."""
        asked = {draft.seq for draft in drafts if draft.seq is not None}
        if not asked:
            return
        own = next((gate.rule.sequence for gate in self._claimed.gates if isinstance(gate.rule, SequenceGate)), None)
        if by_this and own in asked:
            raise StepError(
                f"The child belongs to the sequence {own!r}, as this job does, and would wait for the end of this job, "
                f"which waits for the child. {_OUTSIDE}"
            )
        if self._above is None:
            self._above = await self._insist(lambda: self._store.spawning.sequences_above(self._claimed.job.document))
        for sequence in asked & self._above.keys():
            raise StepError(
                f"The child belongs to the sequence {sequence!r}, as job {self._above[sequence]} does, and would wait "
                f"for the end of that job, which waits for this one. {_OUTSIDE}"
            )

    async def store_between(
        self, store: Callable[[], Awaitable[list[Document]]], made_ids: Sequence[str] | None = None
    ) -> list[Document]:
        """Store children between two looks at this job, all within one deadline of the first look; `made_ids` are their
        ids, where not all that are new are returned."""

        async def between() -> list[Document]:
            with self._store.connection.deadline():
                await self._store.spawners.begin(self._spawner)
                made = await store()
            await self._store.spawners.end(self._spawner, made_ids or [document["_id"] for document in made])
            return made

        return await self._insist(between)

    async def check_last(self, name: str, total: int, keyed: bool, single: bool) -> None:
        if self._claimed.token > 1 or not keyed:  # before its first claim, no child was made
            await self._insist(lambda: self._store.spawning.check_last(self._family(name, keyed, single), total))

    async def grow(self, name: Named, data: Any, options: Fields) -> str:
        """Store a job that holds back the same waits as this one, which is live and holds them itself."""
        held = self._claimed.job.document.get("before")
        if not held:
            raise StepError("ctx.grow() adds a job to the wait that this job belongs to; no job waits for this one.")
        family = replace(self._family("grown"), node=str(self._claimed.job.document.get("node")), holds=tuple(held))
        place, self._grown = self._grown, self._grown + 1
        (draft,) = await self._draft(name, [data], _checked(options))
        await self._refuse_held_sequences([draft], by_this=False)
        child_id = family.child_id(place)
        self._claimed.made_children()
        made = await self.store_between(lambda: self._store.spawning.store(family, [draft], [child_id], place))
        self._made(made)
        return child_id

    # -- the ends of children --------------------------------------------------------------------------------------

    async def settle(self, asked: Sequence[Asked]) -> list[Settled] | None:
        if len(asked) > MOST_WAITS:
            raise StepError(f"A handler waits for at most {MOST_WAITS} calls and maps at once; use a map.")
        on = {one.name: self._predecessors(one) for one in asked}
        known = [one for one in asked if not one.fresh and one.total > 0]
        ends: dict[str, Ends] = {}
        if known:
            ends = await self._insist(
                lambda: self._store.checks.ends(self._claimed.id, self._claimed.token, [on[one.name] for one in known])
            )
        waiting = [on[one.name] for one in asked if await self._waits_on(one, on[one.name], ends)]
        if waiting:
            self.suspend(Waits(tuple(waiting)))
            return None
        return [await self._settled(one, on[one.name], ends.get(on[one.name].id)) for one in asked]

    async def _waits_on(self, asked: Asked, on: Predecessors, ends: dict[str, Ends]) -> bool:
        if asked.total == 0:
            return False
        if asked.fresh:
            return True
        end = ends[on.id]
        if not end.live or not on.fail_fast:
            return end.live
        # As the check counts: otherwise the check would start this handler again and again.
        return end.failed + len(await self._gone(on)) <= on.tolerate

    def suspend(self, waits: Waits) -> None:
        """End this run of the handler until these waits are over."""
        if self.suspended is not None:
            waits = self.suspended.joined(waits)
        past = [one for one in self._past.values() if one.id not in waits.ids]
        since = truncate(self._store.clock.now())
        self.suspended = Waits(waits.on, waits.signals, waits.until, since, timers=waits.timers, past=tuple(past))

    # -- signals and times -----------------------------------------------------------------------------------------

    async def now(self) -> datetime:
        return truncate(self._store.clock.now())

    async def listen(self, asked: SignalAsked, taken: Sequence[str]) -> Heard:
        if self._claimed.guarantee == AT_MOST_ONCE:
            raise StepError(ONCE)
        until = self._until(asked)
        found = await self._insist(
            lambda: self._store.signals.next(self._claimed.job.document, asked.signal, set(taken))
        )
        if found is not None:
            return Heard(False, found.id, found.payload)
        if until is not None and until <= self._store.clock.now():
            return Heard(False)
        if self.suspended is not None and len(self.suspended.signals) >= MOST_WAITS:
            raise StepError(f"A handler waits for at most {MOST_WAITS} signals at once; use one signal with a payload.")
        timers = () if until is None else ((asked.name, until),)
        self.suspend(Waits((), (asked.signal,), until, timers=timers))
        return Heard(True)

    def _until(self, asked: SignalAsked) -> datetime | None:
        """When the wait for a signal ends: as it was said when the handler was first suspended for it."""
        known = {} if self._waited is None else dict(self._waited.timers)
        if asked.timeout is None or asked.name in known:
            return known.get(asked.name)
        return truncate(self._store.clock.now() + timedelta(seconds=asked.timeout))

    async def mark_taken(self, ids: Sequence[str]) -> None:
        """Mark signals as taken for sure."""
        await self._insist(lambda: self._store.signals.take(ids))

    async def taken(self, ids: Sequence[str]) -> None:
        try:
            await self._store.signals.take(ids)
        except Unavailable:
            pass  # the step has the signal; the next look marks it

    async def sleep(self, name: str, until: datetime) -> bool:
        if self._claimed.guarantee == AT_MOST_ONCE:
            raise StepError(ONCE)
        if until <= self._store.clock.now():
            return True
        self.suspend(Waits((), (), until, timers=((name, until),)))
        return False

    async def _settled(self, asked: Asked, on: Predecessors, ends: Ends | None) -> Settled:
        failed = 0
        errors: tuple[tuple[str, str], ...] = ()
        if ends is not None and ends.live:
            # It is over since too many failed. The check that found this has cancelled the others, or died before.
            because = None if ends.first_failed is None else ends.first_failed.cause
            await self._insist(lambda: self._store.trees.cancel_predecessors(on.id, FAST, because))
        deleted = await self._deleted(asked, on)
        if deleted or (ends is not None and ends.failed):
            failed, errors = await self._failures(on, deleted)
        child, plain = None, True
        if asked.single and not failed:
            child, plain = await self._only_child(asked.name)
            failed += child is None
            errors = errors or (((self._family(asked.name).prefix, "It was deleted."),) if child is None else ())
        if failed > on.tolerate:
            self._past[on.id] = on
        return Settled(asked.name, asked.total, failed, errors, child, plain)

    async def _failures(self, on: Predecessors, deleted: Sequence[str]) -> tuple[int, tuple[tuple[str, str], ...]]:
        count, first = await self._insist(lambda: self._store.spawning.bad(on.id, _ERRORS))
        decoded = [self._store.cipher.decode(document) for document in first]
        errors = [(job.id, str(job.error) if job.error else job.state) for job in decoded]
        errors += [(job_id, "It was deleted.") for job_id in deleted]
        return count + len(deleted), tuple(errors[:_ERRORS])

    async def _only_child(self, name: str) -> tuple[Job | None, bool]:
        child_id = self._family(name, single=True).prefix
        document = (await self._insist(lambda: self._store.spawning.get([child_id]))).get(child_id)
        if document is None or document.get("state") != COMPLETED:
            return None, True
        plain = not document.get("sealed") or self._claimed.cipher is not None
        return self._store.cipher.decode(document), plain

    # -- reading children ------------------------------------------------------------------------------------------

    async def page(self, name: str, start: int, count: int) -> list[Job]:
        """The children of these places, in order; those that were deleted are left out."""
        family = self._family(name)
        return await self._read([family.child_id(place) for place in range(start, start + count)])

    async def read(self, name: str, digests: Sequence[bytes] | None) -> list[Job]:
        """The children of these keys, in this order; without keys, the child of a call."""
        family = self._family(name, digests is not None, digests is None)
        chosen = [family.child_id(0, digest) for digest in digests] if digests is not None else [family.prefix]
        return await self._read(chosen)

    async def below(self, parent: str, keyed: bool, after: str | None) -> list[Job]:
        """The next jobs of a map node, or of a batch, behind an id."""
        family = Family(parent, ITEMS, "", "", keyed=keyed)
        found = await self._insist(lambda: self._store.spawning.page(family, after))
        return [self._store.cipher.decode(one) for one in found]

    async def _read(self, chosen: list[str]) -> list[Job]:
        found = await self._insist(lambda: self._store.spawning.get(chosen))
        return [self._store.cipher.decode(found[one]) for one in chosen if one in found]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _family(self, name: str, keyed: bool = False, single: bool = False) -> Family:
        document = self._claimed.job.document
        parent = str(self._claimed.id)
        flow, node, round = document.get("flow"), document.get("node"), document.get("round")
        return Family(
            parent,
            name,
            flow if isinstance(flow, str) else parent,
            ids.node_below(node if isinstance(node, str) else None, name),
            round if isinstance(round, int) else ids.FIRST_ROUND,
            keyed,
            single,
        )

    def _predecessors(self, asked: Asked) -> Predecessors:
        wait = self._family(asked.name).wait
        return Predecessors(wait, asked.total, asked.tolerate, asked.fail_fast)

    async def _deleted(self, asked: Asked, on: Predecessors) -> list[str]:
        """The children of a wait that were deleted by hand, as far as their ids are known; a map may have lost children
        before it was stored that this job waits for them."""
        noted = await self._gone(on)
        if not asked.counted or not asked.total:
            return noted
        family = self._family(asked.name, asked.keyed)
        there_are = await self._insist(lambda: self._store.spawning.count(family, asked.total))
        own = [one for one in noted if family.has(one)]
        return noted + [f"{family.prefix}.?"] * (asked.total - there_are - len(own))

    async def _gone(self, on: Predecessors) -> list[str]:
        """The predecessors of a wait whose deletion by hand was noted, and that do not exist."""
        noted = [] if self._waited is None else self._waited.deleted_from(on.id)
        if not noted:
            return []
        there = await self._insist(lambda: self._store.spawning.get([document_id(one) for one in noted]))
        return [one for one in noted if one not in {str(found) for found in there}]

    async def _insist(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Carry out a verb that may be repeated; try again while the server cannot be reached and the claim holds."""
        while True:
            if self._claimed.stopping:
                raise ClaimLost(f"Job {self._claimed.id} is to stop; it makes and reads no more children.")
            try:
                return await verb()
            except Unavailable:
                if self._claimed.stopping or monotonic() >= self._claimed.valid_until:
                    raise
                await asyncio.sleep(_PAUSE)


def _checked(options: Fields) -> Fields:
    for option in _NOT_OF_CHILDREN:
        if options.get(option) is not None:
            raise InvalidJob(f"A child has no option {option!r}: its id and its parent say which job it is.")
    return options
