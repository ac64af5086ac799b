"""A small busy program under injected faults: two workers in this process with every kind of limit, sequences, fair
keys, schedules, guarantees and flows, and clients that schedule, cancel, signal, pause and edit all the time.

`Disturbed.run` keeps it going while the injector is armed, `settle` waits until all that was accepted has ended, as
long as jobs move, and `findings` tells what is not as it should be then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from harness.faults import CLIENT, Injector
from harness.flows import under_faults
from harness.flows.replay import Recording, Replay
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Breaker, Every, JobContext, Limit, Retry, Scheduler, Snooze
from mainspring.engine.worker import Worker
from mainspring.errors import ScheduleNotFound
from mainspring.model.schedules.firing_plan import Overlap

OPTIONS: dict[str, Any] = {
    "lease": 4.0,
    "concurrency": 10,
    "poll_interval": 0.2,
    "operation_timeout": 5.0,
    "aging": 1.0,
}
PATIENT = Retry(attempts=30, delay=0.05, backoff="fixed")
KEYS = 4
_LIVE = 150
_UNENDED = ("pending", "running", "blocked")


class Disturbed:
    """The program."""

    def __init__(self, uri: str, injector: Injector, dice: random.Random) -> None:
        self._injector = injector
        self._dice = dice
        self.schedulers = [Scheduler(uri, **OPTIONS) for _ in range(2)]
        for scheduler in self.schedulers:
            _register(scheduler, self)
            under_faults.register(scheduler, PATIENT)
        _register_lonely(self.schedulers[0])
        self._recording = Recording(uri)
        self.accepted: list[str] = []
        self._flows: list[str] = []
        self.started: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._schedules: set[str] = set()
        self._again: set[str] = set()

    @property
    def db(self) -> AsyncDatabase[dict[str, Any]]:
        db: AsyncDatabase[dict[str, Any]] = self.schedulers[0].client.get_default_database()
        return db

    async def start(self) -> None:
        """Start both workers; `start()` is strict, so that a program that starts under faults tries again."""
        for scheduler in self.schedulers:
            while not scheduler.running:
                await self._attempt(scheduler.start)

    async def run(self, least: float, most: float, enough: Callable[[], bool]) -> None:
        """Keep clients busy for `least` seconds, and on until it is enough, for `most` seconds at most."""
        began = time.monotonic()

        def over() -> bool:
            lasted = time.monotonic() - began
            return lasted >= most or (lasted >= least and enough())

        async with asyncio.TaskGroup() as clients:
            for number in range(4):
                clients.create_task(self._client(over), name=f"{CLIENT}-{number}")
            while not over():
                await asyncio.sleep(4)
                await self.restart()

    async def settle(self, patience: float) -> None:
        """With no more faults: end what was begun by hand, and wait until every job has ended, or none has moved for so
        long. A slow machine needs more time for all, and none for no move at all."""
        self._injector.armed = False
        for name in ("plain", "limited"):
            await self.schedulers[0].limits.resume(name)
        await self.schedulers[0].limits.remove(name="limited")
        for schedule_id in self._schedules:
            with contextlib.suppress(ScheduleNotFound):
                await self.schedulers[0].schedules.delete(schedule_id)
        with contextlib.suppress(AssertionError):  # `findings` tells what has not ended
            while not await self._all_ended():
                await eventually(partial(self._moved_since, await self._moves()), patience, every=0.2)
            await eventually(lambda: not any(map(books, self._workers)), patience, every=0.1)
            await eventually(self._no_grants, patience, every=0.1)

    async def _moves(self) -> set[tuple[str, int]]:
        """The jobs that have not ended, and how often each was changed."""
        return {(str(document["_id"]), document.get("rev", 0)) for document in await self._unended()}

    async def _moved_since(self, left: set[tuple[str, int]]) -> bool:
        await under_faults.signal_all(self.schedulers[0], self.db)
        return await self._moves() != left

    async def findings(self) -> list[str]:
        """What is not as it should be, once all has settled."""
        found = [f"not ended: {await self._described(document)}" for document in await self._unended()]
        found += [f"granted still: {gate}" for gate in await self._granted()]
        found += [f"{worker.id}: {line}" for worker in self._workers for line in books(worker)]
        stored = {str(document["_id"]) async for document in self.db.jobs.find({}, {"_id": 1}, hint="_id_")}
        found += [f"accepted and not stored: {job_id}" for job_id in self.accepted if job_id not in stored]
        effects = Counter([row["job"] async for row in self.db.effects.find({}, hint="_id_")])
        for what, counts in (("at most once, started", self.started), ("exactly once, effects", effects)):
            found += [f"{what}: {n}, {job}" for job, n in counts.items() if n > 1 and job not in self._again]
        found += [line async for line in under_faults.wrong_ends(self.db)]
        return found + await asyncio.to_thread(self._replayed)

    def _replayed(self) -> list[str]:
        """What the writes of the database tell of flows: early releases, second releases, and slots that were kept."""
        replay = Replay(by_hand=True)
        replay.run(self._recording.events())
        return replay.broken

    async def restart(self) -> None:
        """Stop one worker in the middle of what it does, and start it again; a second one goes on all the while."""
        scheduler = self.schedulers[1]
        await self._attempt(lambda: scheduler.stop(graceful=self._dice.random() < 0.5, timeout=0.2))
        await self.start()

    async def stop(self) -> None:
        for scheduler in self.schedulers:
            await scheduler.stop(graceful=True, timeout=5)
        self._recording.close()

    # -- what clients do -------------------------------------------------------------------------------------------

    async def _client(self, over: Callable[[], bool]) -> None:
        acts = [self._schedule] * 6 + [
            *(self._bulk, self._change, self._edit, self._steer, self._repeat, self._redrive, self._wait),
            *(self._ask, self._declare, self._declare, self._change_flow, self._signal),
        ]
        while not over():
            await self._attempt(self._dice.choice(acts))
            await asyncio.sleep(0.01 if len(await self._attempt(self._unended) or ()) < _LIVE else 0.3)

    async def _attempt(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """What a client does when a call fails: count it, and go on."""
        try:
            return await act()
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            self.errors[type(error).__name__] += 1
            return None

    def _any(self) -> Scheduler:
        return self._dice.choice(self.schedulers)

    async def _schedule(self) -> None:
        name, dice = self._dice.choice(NAMES), self._dice
        options: dict[str, Any] = {"priority": dice.randint(1, 10), "delay": dice.choice([0, 0, 0, 0.3])}
        match dice.randrange(6):
            case 0:
                options["dedupe_key"] = f"key-{dice.randrange(8)}"
            case 1:
                options |= {"dedupe_key": f"debounced-{dice.randrange(3)}", "debounce": 0.2}
                del options["delay"]
            case 2:
                options["start_within"] = 0.5
        job = await self._any().schedule(name, {"key": dice.randrange(KEYS)}, **options)
        self.accepted.append(job.id)

    async def _bulk(self) -> None:
        items = [{"name": self._dice.choice(NAMES), "data": {"key": n % KEYS}} for n in range(20)]
        self.accepted += [job.id for job in await self._any().schedule_bulk(items)]

    async def _change(self) -> None:
        job_id = self._dice.choice(self.accepted[-50:] or [""])
        verb = self._dice.choice(["cancel", "run_now", "retry", "explain", "get_job"])
        if verb == "retry":
            self._again.add(job_id)  # a new round may do once more what is done once in each
        await getattr(self._any(), verb)(job_id)

    async def _wait(self) -> None:
        await self._any().wait(self._dice.choice(self.accepted[-50:] or [""]), timeout=0.5)

    async def _edit(self) -> None:
        await self._any().update(self._dice.choice(self.accepted[-50:] or [""]), priority=self._dice.randint(1, 10))

    async def _steer(self) -> None:
        name = self._dice.choice(["plain", "limited"])
        if self._dice.random() < 0.5:
            await self._any().limits.pause(name)
            await asyncio.sleep(0.1)
            await self._any().limits.resume(name)
        else:
            await self._any().limits.set(name="limited", concurrency=self._dice.randint(1, 3))

    async def _repeat(self) -> None:
        schedule_id = f"schedule-{self._dice.randrange(4)}"
        self._schedules.add(schedule_id)
        overlap: Overlap = self._dice.choice(["allow", "skip", "queue_all"])
        data, rule = {"key": 1}, Every(self._dice.choice(["200ms", "500ms"]))
        schedule = await self._any().schedule("ordered", data, repeat=rule, schedule_id=schedule_id, overlap=overlap)
        verb = self._dice.choice(["trigger", "pause", "resume", "skip_next"])
        await getattr(schedule, verb)()

    async def _redrive(self) -> None:
        await self._any().dead_letters.retry(name="flaky")

    async def _ask(self) -> None:
        self.accepted.append(await under_faults.ask(self._any(), self._dice))

    async def _declare(self) -> None:
        self._flows.append(await under_faults.start_declared(self._any(), self._dice))
        self.accepted.append(self._flows[-1])

    async def _change_flow(self) -> None:
        await under_faults.change(self._any(), self._dice, self._dice.choice(self._flows[-20:] or [""]))

    async def _signal(self) -> None:
        await under_faults.signal_all(self._any(), self.db)

    # -- what is looked at -----------------------------------------------------------------------------------------

    @property
    def _workers(self) -> list[Worker]:
        return [inside(scheduler).worker for scheduler in self.schedulers if scheduler.running]

    async def _unended(self) -> list[dict[str, Any]]:
        return await self.db.jobs.find({"state": {"$in": _UNENDED}}, hint="_id_").to_list(None)

    async def _all_ended(self) -> bool:
        return not await self._unended()

    async def _granted(self) -> list[dict[str, Any]]:
        return await self.db["jobs.gates"].find({"grants.0": {"$exists": True}}, hint="_id_").to_list(None)

    async def _no_grants(self) -> bool:
        return not await self._granted()

    async def _described(self, document: dict[str, Any]) -> str:
        facts = {
            key: document.get(key)
            for key in ("_id", "name", "state", "token", "tries", "line", "waiting_for", "worker")
        }
        return f"{facts} ({(await self.schedulers[0].explain(str(document['_id']))).text})"


def books(worker: Worker) -> list[str]:
    """What a worker with nothing to do still counts as taken."""
    limiter = worker.limiter
    found = [f"{share.used} used of {name}" for name, share in limiter.shares.by_name.items() if share.used]
    found += [f"admitted, neither claimed nor let go: {job_id}" for job_id in limiter.admitted]
    found += [f"claimed {claimed.id}" for claimed in worker.claimed_jobs.all()]
    found += [f"a slot runs {holding.id}" for holding in worker.slots.running]
    found += [f"parked: {len(limiter.parking)}"] if len(limiter.parking) else []
    found += [f"{task.get_name()} has ended: {task!r}" for task in worker.tasks if task.done()]
    return found


NAMES = [
    "plain",
    "limited",
    "keyed",
    "rated",
    "ordered",
    "fair",
    "flaky",
    "once",
    "exact",
    "stepped",
    "breaking",
    "lonely",
    *under_faults.NAMES,
]


def _register(scheduler: Scheduler, world: Disturbed) -> None:
    """The handlers, on one scheduler."""

    @scheduler.job("plain", retry=PATIENT)
    async def plain(key: int) -> int:
        return key

    @scheduler.job("limited", retry=PATIENT, concurrency=2)
    async def limited(key: int) -> None:
        await asyncio.sleep(0.01)

    @scheduler.job("keyed", retry=PATIENT, concurrency=Limit(1, key="key"))
    async def keyed(ctx: JobContext, key: int) -> None:
        ctx.log(f"{key}")

    @scheduler.job("rated", retry=PATIENT, rate="100/second")
    async def rated(key: int) -> None: ...

    @scheduler.job("ordered", retry=PATIENT, sequence="key")
    async def ordered(key: int) -> None: ...

    @scheduler.job("fair", retry=PATIENT, fair="key", concurrency=3)
    async def fair(key: int) -> None: ...

    @scheduler.job("flaky", retry=Retry(attempts=2, delay=0.02, backoff="fixed"))
    async def flaky(ctx: JobContext, key: int) -> None:
        if ctx.token == 1 and key == 1:
            raise Snooze(0.02)
        raise RuntimeError("as it should")

    @scheduler.job("once", guarantee="at_most_once", concurrency=2)
    async def once(ctx: JobContext, key: int) -> None:
        world.started[ctx.id] += 1

    @scheduler.job("exact", guarantee="exactly_once", retry=PATIENT)
    async def exact(ctx: JobContext, key: int) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"job": ctx.id}, session=tx.session)

    @scheduler.job("stepped", retry=PATIENT)
    async def stepped(ctx: JobContext, key: int) -> None:
        await ctx.step("one", lambda: key)
        ctx.progress(50)
        if key == 0:
            await ctx.schedule("plain", {"key": key})

    @scheduler.job("breaking", retry=PATIENT, breaker=Breaker(errors=0.9, window=1, minimum=20, open_for=1))
    async def breaking(ctx: JobContext, key: int) -> None:
        if ctx.attempt < 3:
            raise RuntimeError("not yet")


def _register_lonely(scheduler: Scheduler) -> None:
    """A handler that one of two workers has: the other one leaves its jobs alone."""

    @scheduler.job("lonely", retry=PATIENT)
    async def lonely(key: int) -> None: ...
