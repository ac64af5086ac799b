"""A worker: the services that together run jobs in this process, started and stopped as one.

`start()` starts them in the order of their dependencies; `stop()` follows the protocol of stopping: claim no more, give
back jobs that have not been started, let handlers finish within the grace time, cancel and release the rest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from mainspring.clock import ManualClock, ServerClock, monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.chores.flows.check_long_waits import CheckLongWaits
from mainspring.engine.chores.flows.check_waiting import CheckWaiting
from mainspring.engine.chores.jobs.adopt_raw_inserts import AdoptRawInserts
from mainspring.engine.chores.jobs.age_waiting import AgeWaiting
from mainspring.engine.chores.jobs.expire_late import ExpireLate
from mainspring.engine.chores.jobs.release_held import ReleaseHeld
from mainspring.engine.chores.jobs.report_foreign import ReportForeign
from mainspring.engine.chores.jobs.rescue_lost import RescueLost
from mainspring.engine.chores.jobs.return_unstarted import ReturnUnstarted
from mainspring.engine.chores.jobs.run_operations import RunOperations
from mainspring.engine.chores.jobs.run_redrives import RunRedrives
from mainspring.engine.chores.jobs.send_dead_letter_alerts import SendDeadLetterAlerts
from mainspring.engine.chores.jobs.sync_mapped_jobs import SyncMappedJobs
from mainspring.engine.chores.limits.audit_slots import AuditSlots
from mainspring.engine.chores.limits.dissolve_wait_lists import DissolveWaitLists
from mainspring.engine.chores.limits.reclaim_slots import ReclaimSlots
from mainspring.engine.chores.limits.repair_wait_lists import RepairWaitLists
from mainspring.engine.chores.limits.return_unused_slots import ReturnUnusedSlots
from mainspring.engine.chores.rounds import Rounds
from mainspring.engine.chores.upkeep.convert_earlier_documents import ConvertEarlierDocuments
from mainspring.engine.chores.upkeep.evaluate_alerts import EvaluateAlerts
from mainspring.engine.chores.upkeep.flush_progress import FlushProgress
from mainspring.engine.chores.upkeep.flush_statistics import FlushStatistics
from mainspring.engine.chores.upkeep.log_audit_head import LogAuditHead
from mainspring.engine.chores.upkeep.prune_records import PruneRecords
from mainspring.engine.chores.upkeep.refresh_cluster_view import RefreshClusterView
from mainspring.engine.chores.upkeep.refresh_timezones import RefreshTimezones
from mainspring.engine.chores.upkeep.reload_keys import ReloadKeys
from mainspring.engine.chores.upkeep.roll_up_statistics import RollUpStatistics
from mainspring.engine.claim.producer import Producer
from mainspring.engine.draining import Draining
from mainspring.engine.flows.checker import Checker
from mainspring.engine.handler_schemas import TellDescriptions
from mainspring.engine.handlers import Handlers
from mainspring.engine.heartbeat import Heartbeat
from mainspring.engine.job_log import JobLog
from mainspring.engine.limits.controls import Controls
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.observers import Observers
from mainspring.engine.peers import Peers
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs, StopReason
from mainspring.engine.run.completer import Completer
from mainspring.engine.run.context_backend import ChildScheduling
from mainspring.engine.run.executor import Executor, Middleware
from mainspring.engine.run.policy import Policies
from mainspring.engine.run.slots import Slots
from mainspring.engine.service import LockHolder, Service
from mainspring.engine.services.archive import Archive
from mainspring.engine.services.counting import Counting
from mainspring.engine.services.pruner import Pruner
from mainspring.engine.services.timekeeper import Timekeeper
from mainspring.engine.vitals import Vitals, memory_in_use, reported_slots
from mainspring.engine.watcher import Watcher
from mainspring.errors import Unavailable
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.outcome import Outcome, Released
from mainspring.model.jobs.retention import Retention
from mainspring.model.limits.limits import Gate
from mainspring.model.schema_versions import CURRENT
from mainspring.store import Store
from mainspring.store.jobs.hints import Hint
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")

_LAST_WRITES = 10.0
# The seconds in which the handlers of an abandoned worker end by themselves.
_DEATH = 0.5


def new_worker_id() -> str:
    """An id that names the host and the process of a worker, and is never used twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


# Chores that go by the clock of the database.
_BY_THE_CLOCK = ("expire_late", "age_waiting", "run_operations", "check_waiting", "evaluate_alerts")

# Chores after which jobs may be due, or at their end, that were not before.
_MAKES_JOBS_DUE = (
    *("rescue_lost", "adopt_raw_inserts", "expire_late", "check_waiting", "release_held", "dissolve_wait_lists"),
    *("repair_wait_lists", "send_dead_letter_alerts", "run_redrives", "run_operations"),
)


class Worker:
    """Runs jobs in this process, on this event loop."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        handlers: Handlers,
        policies: Policies,
        events: Callbacks,
        enqueuer: ChildScheduling,
        limits: Limits,
        retention: Retention,
        archive: Archive,
        secrecy: Privacy,
        middleware: Sequence[Middleware] = (),
        observers: Observers | None = None,
        version: str = "",
        drained: Callable[[], None] = lambda: None,
        id: str | None = None,
    ) -> None:
        """`drained` is called when an operator has drained this worker, and it is to be stopped."""
        self.id = id or new_worker_id()
        self._store = store
        self._settings = settings
        self._handlers = handlers
        self._limits = limits
        self._events = events
        self._version = version
        self._descriptions = TellDescriptions(handlers)
        self._started_at = store.clock.now()
        self.claimed_jobs = ClaimedJobs()
        self._counting = Counting(store, self.id)
        self._observers = Observers() if observers is None else observers
        self._peers = Peers(store, self.id)
        self._archive = archive
        self._job_log = JobLog(self.id, policies)
        links = _Links(self)
        self._executor = Executor(
            store=store,
            settings=settings,
            events=events,
            policies=policies,
            worker=self.id,
            enqueuer=enqueuer,
            secrecy=secrecy,
            began=self._began,
            middleware=middleware,
            observers=self._observers,
        )
        self._limiter = Limiter(store, settings, limits, self.id, links)
        self._completer = Completer(store, self.claimed_jobs, events, self.id, self._failed, links)
        self._slots = Slots(settings.concurrency, self._executor, self._completer, self._limiter.parking, links.room)
        self._producer = Producer(
            store=store,
            settings=settings,
            handlers=handlers,
            policies=policies,
            claimed_jobs=self.claimed_jobs,
            slots=self._slots,
            completer=self._completer,
            peers=self._peers,
            limiter=self._limiter,
            limits=limits,
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
            made=self._producer.poll_all,
            told=links.listening,
            failed=self._failed,
        )
        self._controls = Controls(
            store=store,
            limits=limits,
            limiter=self._limiter,
            poll_all=self._producer.poll_all,
            slots=self._slots,
            events=events,
            worker=self.id,
            told=links.listening,
            failed=self._failed,
        )
        self._checker = Checker(store, events, self._producer.poll_all, self._failed)
        self._watcher = Watcher(
            store,
            self._producer,
            on_raw=self._adopt_now,
            on_schedule=self._timekeeper.wake,
            on_control=self._controls.wake,
            failed=self._failed,
        )
        self._pruner = Pruner(
            store=store,
            retention=retention,
            archive=archive,
            events=events,
            worker=self.id,
            busy=lambda: len(self.claimed_jobs) >= settings.concurrency,
            failed=self._failed,
        )
        self._draining = Draining(store, self.id, self.claimed_jobs, self._slots, self._producer, drained)
        self._heartbeat = Heartbeat(
            store, settings, self.claimed_jobs, self._limiter, self.id, self._facts, self._draining.look
        )
        context = ChoreContext(
            store,
            settings,
            events,
            handlers,
            self.claimed_jobs,
            self._slots,
            self._peers,
            self._limiter,
            limits,
            self._controls,
            self.id,
            self._producer.poll_all,
            archive,
            secrecy,
            self._counting,
            self._checker,
        )
        kinds: list[type[Chore]] = [
            FlushProgress,
            ReturnUnstarted,
            RefreshClusterView,
            RescueLost,
            AdoptRawInserts,
            ReportForeign,
            SyncMappedJobs,
            ExpireLate,
            CheckWaiting,
            CheckLongWaits,
            ReleaseHeld,
            PruneRecords,
            AgeWaiting,
            RefreshTimezones,
            ReloadKeys,
            ReturnUnusedSlots,
            ReclaimSlots,
            AuditSlots,
            RepairWaitLists,
            DissolveWaitLists,
            SendDeadLetterAlerts,
            RunRedrives,
            RunOperations,
            FlushStatistics,
            RollUpStatistics,
            LogAuditHead,
            ConvertEarlierDocuments,
            EvaluateAlerts,
        ]
        self._chores = [kind(context) for kind in kinds]
        self._lock = lock = LockHolder(store, "chores", self.id, max(1.0, min(15.0, settings.lease / 2)))
        prompt = [(chore,) for chore in self._chores if chore.prompt]
        slow = tuple(chore for chore in self._chores if not chore.prompt)
        self._rounds = [Rounds(partial(self._listed, *chores), lock, store, self._failed) for chores in (*prompt, slow)]
        self._services: list[Service] = [
            *(self._producer, self._watcher, self._timekeeper, self._controls, self._pruner),
            self._checker,
            *self._rounds,
        ]
        self._stopping = False

    @property
    def running(self) -> int:
        """The number of handlers that run now."""
        return len(self._slots.running)

    @property
    def vitals(self) -> Vitals:
        """The vital signs of this worker; they may be read from any thread."""
        return Vitals(
            len(self._slots.running),
            self._settings.concurrency,
            len(self.claimed_jobs),
            not self._stopping and not self._draining.asked,
            self._lock.held,
            self._heartbeat.beat_age,
            self._heartbeat.loop_held,
            self._settings.lease,
        )

    def hint(self, hint: Hint) -> None:
        """Pass on the hint of a job that this process has stored itself."""
        self._producer.hint(hint)

    def wake(self) -> None:
        """Poll for jobs at once."""
        self._producer.wake()

    def hold(self) -> None:
        """Claim and start no more jobs: the worker drains. The heartbeat follows the stored request from then on."""
        self._producer.hold()
        self._slots.close()

    def poll_all(self) -> None:
        """Poll all queues, since this process itself has made jobs due."""
        self._producer.poll_all()

    def schedules_changed(self) -> None:
        """React at once to a schedule that this process itself has changed or made jobs of."""
        self._timekeeper.wake()
        self._producer.poll_all()

    def controls_changed(self) -> None:
        """React at once to a pause, a limit or a breaker that this process itself has changed."""
        self._controls.wake()
        self._producer.poll_all()

    def operations_changed(self) -> None:
        """This very process has created an operation."""
        for rounds in self._rounds:
            rounds.run_now(RunOperations.name)

    def waits_changed(self, waits: Iterable[str]) -> None:
        """Check these waits, since this very process has ended jobs that hold them back."""
        self._checker.note(waits)

    def clock_moved(self) -> None:
        """Wake every part that goes by the clock, since the manual clock was moved."""
        self._heartbeat.clock_moved()
        self._timekeeper.wake()
        self._controls.wake()
        for rounds in self._rounds:
            for chore in _BY_THE_CLOCK:
                rounds.run_now(chore)
        self._producer.poll_all()

    async def catch_up(self) -> None:
        """Return when this worker has renewed its claims at the time of the clock, and has fired due schedules."""
        await self._heartbeat.catch_up()
        await self._timekeeper.run_once()
        self._producer.poll_all()

    @property
    def idle(self) -> bool:
        """Whether no job is claimed, all ends are stored and checked, and a whole poll has found nothing."""
        return not len(self.claimed_jobs) and self._completer.idle and self._checker.idle and self._producer.idle

    async def catch_up_with_all(self) -> None:
        """Do at once all that this worker does now and then: fire due schedules, rescue, release, expire and check
        jobs; then poll. Tests use it, which cannot wait for the rounds of the chores."""
        await self._controls.refresh()
        for chore in self._chores:
            if chore.name in _MAKES_JOBS_DUE:
                await chore.run_once()
        await self.catch_up()

    async def abandon(self) -> None:
        """End as a killed process does: no claimed job is finished or given back; the leases run out. Tests use it."""
        for claimed in self.claimed_jobs.all():
            claimed.ask_to_stop(StopReason.LOST)
        await self.stop(_DEATH)

    async def start(self) -> None:
        """Register this worker, read the peers and the controls, and start the heartbeat and the services."""
        loop = asyncio.get_running_loop()
        renewals = await loop.run_in_executor(None, self._store.renewals)
        asked = monotonic()
        await loop.run_in_executor(None, lambda: renewals.beat(self.id, self._facts(), first=True))
        self._limiter.extend(asked)
        await self._peers.refresh()
        await self._controls.refresh()
        await self._archive.announce(self._store)
        self._heartbeat.start()
        for service in self._services:
            service.start()
        if isinstance(self._store.clock, ManualClock):
            self._store.clock.follow(self)
        self._events.emit("worker:start", self.id)

    async def stop(self, grace: float) -> None:
        """Stop claiming, let handlers finish for `grace` seconds, then cancel and release the remaining jobs."""
        self._stopping = True
        if isinstance(self._store.clock, ManualClock):
            self._store.clock.unfollow(self)
        for service in self._services:
            if service is not self._checker:  # handlers that end within the grace time may release others
                service.stop()
        self._slots.close()
        await self._let_finish(grace)
        await self._cancel_rest()
        self._checker.stop()
        await self._end_services()
        await self._last_write(self._completer.drain())
        await self._last_write(self._checker.check_rest())
        self._job_log.close()
        await self._last_write(self._counting.store())
        await self._last_write(self._controls.close())
        await self._last_write(self._limiter.give_all_back())
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
        """Wait until the services have ended by themselves: a task that is cancelled while the driver connects would
        leave its socket behind. Cancel only those that do not end in time."""
        tasks = self.tasks
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.operation_timeout)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of the services, which run until the worker stops."""
        return [service.task for service in self._services if service.task is not None]

    def stop_now(self) -> None:
        """Cancel the running handlers, and release their jobs."""
        for claimed in list(self._slots.running):
            claimed.ask_to_stop(StopReason.RELEASED)
            claimed.interrupt()

    async def _let_finish(self, grace: float) -> None:
        until = monotonic() + grace
        while self._slots.running and monotonic() < until:
            tasks = [claimed.task for claimed in self._slots.running if claimed.task is not None]
            await asyncio.wait(tasks, timeout=until - monotonic())

    async def _cancel_rest(self) -> None:
        rest = list(self._slots.running)
        if not rest:
            return
        self.stop_now()
        tasks = [claimed.task for claimed in rest if claimed.task is not None]
        await asyncio.wait(tasks, timeout=2.0)
        for claimed in list(self._slots.running):
            logger.error(
                "Job %s does not stop; it is released, and its later writes are refused",
                claimed.id,
                extra=claimed.job.log_fields(self.id),
            )
            self._slots.running.discard(claimed)
            self._completer.add(claimed, Released(started=True))

    def _listed(self, *chores: Chore) -> list[Chore]:
        """The chores among these that are listed for this worker."""
        return [chore for chore in chores if chore in self._chores]

    def _adopt_now(self) -> None:
        for rounds in self._rounds:
            rounds.run_now(AdoptRawInserts.name)

    def _began(self, claimed: ClaimedJob) -> None:
        self._counting.began(claimed)
        if self._observers:
            self._observers.began(claimed)

    def _failed(self, error: Exception) -> None:
        logger.warning("The worker met an error and goes on: %s", brief(error))
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
            **reported_slots(self._slots.running),
            "memory": memory_in_use(),
            "started_at": self._started_at,
            "version": self._version,
            "schema": CURRENT,
            "release": self._settings.release,
            **self._handlers.told,
            **self._descriptions.facts(),
            "keys": list(self._store.cipher.ring.ids),
            **self._limits.told,
        }


class _Links:
    """Calls between parts of a worker of which the caller is constructed before the callee."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    # -- of the limits ---------------------------------------------------------------------------------------------

    def wake(self) -> None:
        self._worker._producer.wake()

    def start(self, claimed_jobs: list[ClaimedJob]) -> None:
        self._worker._slots.admit(claimed_jobs)

    def release_parked(self) -> None:
        self._worker._slots.give_back_parked()

    def round_trip(self) -> float:
        return self._worker._producer.round_trip

    # -- of the slots and the services -----------------------------------------------------------------------------

    def room(self, queued: int) -> None:
        self._worker._producer.room(queued)

    def listening(self) -> bool:
        return self._worker._watcher.listening

    # -- of the completer ------------------------------------------------------------------------------------------

    @property
    def contended(self) -> bool:
        return self._worker._producer.contended

    def slots_freed(self, gates: list[Gate], took: float | None) -> None:
        self._worker._limiter.freed(gates, took)

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        self._worker._counting.ended(claimed, ending)
        self._worker._job_log.attempt_ended(claimed, ending)
        self._worker._controls.breakers.attempt_ended(claimed, ending)
        if self._worker._observers:
            self._worker._observers.ended(claimed, ending)

    def run_ended(self, schedule_id: str) -> None:
        self._worker._timekeeper.run_ended(schedule_id)

    def predecessor_ended(self, waits: Sequence[str]) -> None:
        self._worker._checker.note(waits)

    def suspended(self, claimed: ClaimedJob, waits: Waits) -> None:
        self._worker._checker.note(waits.ids)
        if waits.signals:
            self._worker._checker.listen(claimed.id, waits.signals)

    def parent_cancelled(self, claimed: ClaimedJob) -> None:
        if claimed.spawned or claimed.job.document.get("waits"):
            self._worker._checker.cancel_below(claimed.job.document)

    def due_again(self, delay: float) -> None:
        """Poll when a job that has gone back to the queue is due, if the next poll would be later."""
        worker = self._worker
        if not worker._stopping and delay < worker._settings.poll_interval:
            asyncio.get_running_loop().call_later(delay + 0.001, worker._producer.wake)
