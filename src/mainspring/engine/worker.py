"""A worker: the services that together run jobs in this process, with one life.

`start()` brings them up in the order in which they need each other; `stop()` follows the protocol of stopping: claim
no more, give back what has not been started, let handlers finish within the grace time, cancel and release the rest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from mainspring.clock import ServerClock, monotonic
from mainspring.config import Settings
from mainspring.engine.agent import Enqueuer
from mainspring.engine.archive import Archive
from mainspring.engine.chores.adopt_raw import AdoptRaw
from mainspring.engine.chores.age_waiting import AgeWaiting
from mainspring.engine.chores.carry_redrives import CarryRedrives
from mainspring.engine.chores.chore import Chore, Surroundings
from mainspring.engine.chores.clear_lines import ClearLines
from mainspring.engine.chores.expire_late import ExpireLate
from mainspring.engine.chores.follow_keys import FollowKeys
from mainspring.engine.chores.follow_zones import FollowZones
from mainspring.engine.chores.keep_company import KeepCompany
from mainspring.engine.chores.mend_lines import MendLines
from mainspring.engine.chores.print_dead import PrintDead
from mainspring.engine.chores.prune_records import PruneRecords
from mainspring.engine.chores.reclaim_slots import ReclaimSlots
from mainspring.engine.chores.release_held import ReleaseHeld
from mainspring.engine.chores.rescue_lost import RescueLost
from mainspring.engine.chores.return_idle import ReturnIdle
from mainspring.engine.chores.roll_up_counts import RollUpCounts
from mainspring.engine.chores.share_slots import ShareSlots
from mainspring.engine.chores.store_counts import StoreCounts
from mainspring.engine.chores.tell_dead import TellDead
from mainspring.engine.chores.write_notes import WriteNotes
from mainspring.engine.completer import Completer
from mainspring.engine.controls import Controls
from mainspring.engine.counting import Counting
from mainspring.engine.events import Events
from mainspring.engine.executor import Executor, Middleware
from mainspring.engine.gatekeeper import Gatekeeper
from mainspring.engine.heartbeat import Heartbeat
from mainspring.engine.holdings import Holding, Holdings
from mainspring.engine.limits import Limits
from mainspring.engine.peers import Peers
from mainspring.engine.policy import Policies
from mainspring.engine.producer import Producer
from mainspring.engine.pruner import Pruner
from mainspring.engine.secrecy import Secrecy
from mainspring.engine.slots import Slots
from mainspring.engine.timekeeper import Timekeeper
from mainspring.engine.watcher import Watcher
from mainspring.errors import Unavailable
from mainspring.handlers import Handlers
from mainspring.model.ending import Ending, Released
from mainspring.model.retention import Retention
from mainspring.store import Store
from mainspring.store.watch import Hint

logger = logging.getLogger("mainspring")

_TICK = 0.25
_LAST_WRITES = 10.0


def new_worker_id() -> str:
    """Tells where a worker runs, and is never used twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class Worker:
    """Runs jobs in this process, on this event loop."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        handlers: Handlers,
        policies: Policies,
        events: Events,
        enqueuer: Enqueuer,
        limits: Limits,
        retention: Retention,
        archive: Archive,
        secrecy: Secrecy,
        middleware: Sequence[Middleware] = (),
        version: str = "",
        id: str | None = None,
    ) -> None:
        self.id = id or new_worker_id()
        self._store = store
        self._settings = settings
        self._handlers = handlers
        self._limits = limits
        self._events = events
        self._version = version
        self._started_at = store.clock.now()
        self.holdings = Holdings()
        self._counting = Counting(store, self.id)
        self._peers = Peers(store, self.id)
        self._executor = Executor(
            store=store,
            settings=settings,
            events=events,
            policies=policies,
            worker=self.id,
            enqueuer=enqueuer,
            secrecy=secrecy,
            middleware=middleware,
        )
        self._executor.began = self._counting.began
        self._completer = Completer(store, self.holdings, events, self.id, self._failed, self._again)
        self._gatekeeper = Gatekeeper(store, settings, limits, self.id, self.wake)
        self._completer.freed = self._gatekeeper.freed
        parking = self._gatekeeper.parking
        self._slots = Slots(settings.concurrency, self._executor, self._completer, parking, self._room)
        parking.start = self._slots.admit
        self._gatekeeper.strand = self._slots.give_back_parked
        self._producer = Producer(
            store=store,
            settings=settings,
            handlers=handlers,
            policies=policies,
            holdings=self.holdings,
            slots=self._slots,
            completer=self._completer,
            peers=self._peers,
            gatekeeper=self._gatekeeper,
            events=events,
            secrecy=secrecy,
            worker=self.id,
            failed=self._failed,
        )
        self._timekeeper = Timekeeper(
            store=store,
            settings=settings,
            peers=self._peers,
            events=events,
            made=self._producer.look_everywhere,
            told=lambda: self._watcher.listening,
            failed=self._failed,
        )
        self._completer.run_ended = self._timekeeper.run_ended
        self._controls = Controls(
            store=store,
            limits=limits,
            gatekeeper=self._gatekeeper,
            producer=self._producer,
            slots=self._slots,
            events=events,
            worker=self.id,
            told=lambda: self._watcher.listening,
            failed=self._failed,
        )
        self._completer.attempt_ended = self._attempt_ended
        self._watcher = Watcher(store, self._producer, self._raw_insert, self._timekeeper.wake, self._controls.wake)
        self._archive = archive
        self._pruner = Pruner(
            store=store,
            retention=retention,
            archive=archive,
            events=events,
            worker=self.id,
            busy=lambda: len(self.holdings) >= settings.concurrency,
            failed=self._failed,
        )
        self._heartbeat = Heartbeat(store, settings, self.holdings, self._gatekeeper, self.id, self._facts)
        around = Surroundings(
            store,
            settings,
            events,
            handlers,
            self.holdings,
            self._slots,
            self._peers,
            self._gatekeeper,
            limits,
            self._controls,
            self.id,
            self._producer.look_everywhere,
            archive,
            secrecy,
            self._counting,
        )
        kinds: list[type[Chore]] = [
            WriteNotes,
            ReturnIdle,
            KeepCompany,
            RescueLost,
            AdoptRaw,
            ExpireLate,
            ReleaseHeld,
            PruneRecords,
            AgeWaiting,
            FollowZones,
            FollowKeys,
            ShareSlots,
            ReclaimSlots,
            MendLines,
            ClearLines,
            TellDead,
            CarryRedrives,
            PrintDead,
            StoreCounts,
            RollUpCounts,
        ]
        self._chores = [kind(around) for kind in kinds]
        self._raw_seen = False
        self._chores_mine = False
        self._chores_until = float("-inf")
        self._stopping = False
        self._told_to_stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def running(self) -> int:
        """How many handlers run now."""
        return len(self._slots.running)

    def hint(self, hint: Hint) -> None:
        """A job was stored by this very process."""
        self._producer.hint(hint)

    def wake(self) -> None:
        """There may be something to do."""
        self._producer.wake()

    def look(self) -> None:
        """This very process has made jobs due, in whatever queues."""
        self._producer.look_everywhere()

    def schedules_changed(self) -> None:
        """This very process has changed a schedule, or made jobs of one."""
        self._timekeeper.wake()
        self._producer.look_everywhere()

    def controls_changed(self) -> None:
        """This very process has changed what is paused, limited or broken."""
        self._controls.wake()
        self._producer.look_everywhere()

    async def start(self) -> None:
        """Register, take up what was waiting for this worker, and begin."""
        loop = asyncio.get_running_loop()
        renewals = await loop.run_in_executor(None, self._store.renewals)
        asked = monotonic()
        await loop.run_in_executor(None, lambda: renewals.beat(self.id, self._facts(), first=True))
        self._gatekeeper.extend(asked)
        await self._peers.refresh()
        await self._controls.refresh()
        await self._archive.announce(self._store)
        self._heartbeat.start()
        self._tasks = [
            self._keep_going("producer", self._producer.run),
            self._keep_going("watcher", self._watcher.run),
            self._keep_going("chores", self._do_chores),
            self._keep_going("timekeeper", self._timekeeper.run),
            self._keep_going("controls", self._controls.run),
            self._keep_going("pruner", self._pruner.run),
        ]
        self._events.emit("worker:start", self.id)

    async def stop(self, grace: float) -> None:
        """Stop claiming, let handlers finish for `grace` seconds, then cancel and release what is left."""
        self._stopping = True
        self._told_to_stop.set()
        self._producer.stop()
        self._timekeeper.stop()
        self._controls.stop()
        self._pruner.stop()
        self._slots.close()
        await self._let_finish(grace)
        await self._cancel_rest()
        await self._end_services()
        await self._last_write(self._completer.drain())
        await self._last_write(self._counting.store())
        await self._last_write(self._controls.close())
        await self._last_write(self._gatekeeper.give_all_back())
        await self._heartbeat.stop()
        await self._last_write(self._store.workers.leave(self.id))  # after the last beat, which would undo it
        await self._executor.close()
        self._events.emit("worker:stop", self.id)

    async def _last_write(self, write: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(_LAST_WRITES + self._settings.operation_timeout):
                await write
        except Exception as error:
            logger.warning("Not everything could be stored while stopping (%r); leases will run out", error)

    async def _end_services(self) -> None:
        """The services end by themselves; only the watcher, which waits for news, is cancelled.

        A task that is cancelled while the driver connects would leave its socket behind.
        """
        watcher = self._tasks[1]
        watcher.cancel()
        await asyncio.wait(self._tasks, timeout=self._settings.operation_timeout)
        others = [task for task in self._tasks if task is not watcher]
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=1.0)

    def hurry(self) -> None:
        """Do not wait for handlers any longer."""
        for holding in list(self._slots.running):
            holding.released = True
            holding.interrupt()

    async def _let_finish(self, grace: float) -> None:
        until = monotonic() + grace
        while self._slots.running and monotonic() < until:
            tasks = [holding.task for holding in self._slots.running if holding.task is not None]
            await asyncio.wait(tasks, timeout=until - monotonic())

    async def _cancel_rest(self) -> None:
        rest = list(self._slots.running)
        if not rest:
            return
        self.hurry()
        tasks = [holding.task for holding in rest if holding.task is not None]
        await asyncio.wait(tasks, timeout=2.0)
        for holding in list(self._slots.running):
            logger.error("Job %s does not stop; it is released, and whatever it still does is refused", holding.id)
            self._slots.running.discard(holding)
            self._completer.add(holding, Released(started=True))

    def _keep_going(self, name: str, service: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run a service that must not end before the worker does, whatever happens to it."""

        async def run() -> None:
            while not self._stopping:
                try:
                    await service()
                    return
                except Exception as error:
                    logger.exception("The %s failed; it starts again", name)
                    self._failed(error)
                await asyncio.sleep(random.uniform(0.2, 0.5))

        return asyncio.create_task(run(), name=f"mainspring-{name}")

    async def _do_chores(self) -> None:
        due = {chore.name: monotonic() + random.uniform(0, min(1.0, chore.every)) for chore in self._chores}
        for first in (FollowZones, ReleaseHeld, AdoptRaw, RescueLost, ClearLines):
            due[first.name] = monotonic()
        while not self._stopping:
            if self._raw_seen:
                self._raw_seen = False
                due[AdoptRaw.name] = monotonic()
            for chore in self._chores:
                if not self._stopping and monotonic() >= due[chore.name]:
                    again = await self._do(chore)
                    due[chore.name] = monotonic() + (0.05 if again else chore.every * random.uniform(0.9, 1.1))
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_TICK, self._settings.lease / 12)):
                    await self._told_to_stop.wait()

    async def _do(self, chore: Chore) -> bool:
        try:
            if chore.exclusive and not await self._may_do_exclusive():
                return False
            return await chore.run_once()
        except Exception as error:
            self._failed(error)
            return False

    async def _may_do_exclusive(self) -> bool:
        """Whether the chores that one worker is enough for are this worker's for now."""
        now = monotonic()
        if now >= self._chores_until:
            hold = max(1.0, min(15.0, self._settings.lease / 2))
            self._chores_mine = await self._store.workers.lock("chores", self.id, hold)
            self._chores_until = now + hold * (0.6 if self._chores_mine else 0.4)
        return self._chores_mine

    def _attempt_ended(self, holding: Holding, ending: Ending) -> None:
        self._counting.ended(holding, ending)
        self._controls.breakers.attempt_ended(holding, ending)

    def _room(self) -> None:
        self._producer.room()

    def _again(self, delay: float) -> None:
        """A job of ours has gone back to the queue: look when it is due, where the next poll would be later."""
        if not self._stopping and delay < self._settings.poll_interval:
            asyncio.get_running_loop().call_later(delay + 0.001, self._producer.wake)

    def _raw_insert(self) -> None:
        self._raw_seen = True

    def _failed(self, error: Exception) -> None:
        logger.warning("The worker met an error and goes on: %s", error)
        if isinstance(error, Unavailable) and isinstance(self._store.clock, ServerClock):
            self._store.clock.forget()  # the next primary may have another clock
        self._events.emit("scheduler:error", error)

    def _facts(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": None if self._settings.queues is None else list(self._settings.queues),
            "handlers": self._handlers.names,
            "concurrency": self._settings.concurrency,
            "running": len(self._slots.running),
            "started_at": self._started_at,
            "version": self._version,
            **self._handlers.told,
            "keys": list(self._store.sealer.ring.ids),
            **self._limits.told,
        }
