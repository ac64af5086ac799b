"""A worker: the services that together run jobs in this process, started and stopped as one.

`start()` starts them in the order of their dependencies; `stop()` follows the protocol of stopping: claim no more, give
back jobs that have not been started, let handlers finish within the grace time, cancel and release the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mainspring.clock import ManualClock, ServerClock, monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks, Observers
from mainspring.engine.chores.all_chores import BY_THE_CLOCK, CHORES, MAKES_JOBS_DUE
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.chores.jobs.adopt_raw_inserts import AdoptRawInserts
from mainspring.engine.chores.jobs.run_operations import RunOperations
from mainspring.engine.chores.rounds import Rounds
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
from mainspring.engine.peers import Peers
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs, StopReason
from mainspring.engine.run.completer import Completer
from mainspring.engine.run.context_backend import ChildScheduling
from mainspring.engine.run.executor import Executor, Middleware
from mainspring.engine.run.judge import Policies
from mainspring.engine.run.slots import Slots
from mainspring.engine.service import LockHolder, Service
from mainspring.engine.services.archive import Archive
from mainspring.engine.services.counting import Counting
from mainspring.engine.services.pruner import Pruner
from mainspring.engine.services.timekeeper import Timekeeper
from mainspring.engine.stopping import end_tasks, last_write, let_finish, release_rest
from mainspring.engine.vitals import Vitals, new_worker_id, process_facts
from mainspring.engine.watcher import Watcher
from mainspring.errors import Unavailable
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.outcome import Outcome
from mainspring.model.jobs.retention import Retention
from mainspring.model.limits.limits import Gate
from mainspring.store import Store
from mainspring.store.jobs.hints import Hint
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")

# The seconds in which the handlers of an abandoned worker end by themselves.
_DEATH = 0.5


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
        self.counting = Counting(store, self.id)
        self.observers = Observers() if observers is None else observers
        self._peers = Peers(store, self.id)
        self._archive = archive
        self.job_log = JobLog(self.id, policies)
        links = _Links(self)
        self.executor = Executor(
            store=store,
            settings=settings,
            events=events,
            policies=policies,
            worker=self.id,
            enqueuer=enqueuer,
            secrecy=secrecy,
            began=self._began,
            middleware=middleware,
            observers=self.observers,
        )
        self.limiter = Limiter(store, settings, limits, self.id, links)
        self.completer = Completer(store, self.claimed_jobs, events, self.id, self._failed, links)
        self.slots = Slots(settings.concurrency, self.executor, self.completer, self.limiter.parking, links.room)
        self.producer = Producer(
            store=store,
            settings=settings,
            handlers=handlers,
            policies=policies,
            claimed_jobs=self.claimed_jobs,
            slots=self.slots,
            completer=self.completer,
            peers=self._peers,
            limiter=self.limiter,
            limits=limits,
            events=events,
            secrecy=secrecy,
            worker=self.id,
            failed=self._failed,
        )
        self.timekeeper = Timekeeper(
            store=store,
            settings=settings,
            peers=self._peers,
            events=events,
            made=self.producer.poll_all,
            told=links.listening,
            failed=self._failed,
        )
        self.controls = Controls(
            store=store,
            limits=limits,
            limiter=self.limiter,
            poll_all=self.producer.poll_all,
            slots=self.slots,
            events=events,
            worker=self.id,
            told=links.listening,
            failed=self._failed,
        )
        self.checker = Checker(
            store,
            events,
            self.producer.poll_all,
            self.producer.poll,
            self._failed,
            holds_back=self.claimed_jobs.holds_back,
        )
        self.watcher = Watcher(
            store,
            self.producer,
            on_raw=self._adopt_now,
            on_schedule=self.timekeeper.wake,
            on_control=self.controls.wake,
            on_operation=self.operations_changed,
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
        self.draining = Draining(store, self.id, self.claimed_jobs, self.slots, self.producer, drained)
        self.heartbeat = Heartbeat(
            store, settings, self.claimed_jobs, self.limiter, self.id, self._facts, self.draining.look
        )
        context = ChoreContext(
            store,
            settings,
            events,
            handlers,
            self.claimed_jobs,
            self.slots,
            self._peers,
            self.limiter,
            limits,
            self.controls,
            self.id,
            self.producer.poll_all,
            links.listening,
            archive,
            secrecy,
            self.counting,
            self.checker,
        )
        self.chores = [kind(context) for kind in CHORES]
        self._lock = lock = LockHolder(store, "chores", self.id, max(1.0, min(15.0, settings.lease / 2)))
        prompt = [(chore,) for chore in self.chores if chore.prompt]
        slow = tuple(chore for chore in self.chores if not chore.prompt)
        self._rounds = [Rounds(partial(self._listed, *chores), lock, store, self._failed) for chores in (*prompt, slow)]
        self._services: list[Service] = [
            *(self.producer, self.watcher, self.timekeeper, self.controls, self._pruner),
            self.checker,
            *self._rounds,
        ]
        self._stopping = False

    @property
    def running(self) -> int:
        """The number of handlers that run now."""
        return len(self.slots.running)

    @property
    def vitals(self) -> Vitals:
        """The vital signs of this worker; they may be read from any thread."""
        return Vitals(
            len(self.slots.running),
            self._settings.concurrency,
            len(self.claimed_jobs),
            not self._stopping and not self.draining.asked,
            self._lock.held,
            self.heartbeat.beat_age,
            self.heartbeat.loop_held,
            self._settings.lease,
        )

    def hint(self, hint: Hint) -> None:
        """Pass on the hint of a job that this process has stored itself."""
        self.producer.hint(hint)

    def wake(self) -> None:
        """Poll for jobs at once."""
        self.producer.wake()

    def hold(self) -> None:
        """Claim and start no more jobs: the worker drains. The heartbeat follows the stored request from then on."""
        self.producer.hold()
        self.slots.close()

    def poll_all(self) -> None:
        """Poll all queues, since this process itself has made jobs due."""
        self.producer.poll_all()

    def schedules_changed(self) -> None:
        """React at once to a schedule that this process itself has changed or made jobs of."""
        self.timekeeper.wake()
        self.producer.poll_all()

    def controls_changed(self) -> None:
        """React at once to a pause, a limit or a breaker that this process itself has changed."""
        self.controls.wake()
        self.producer.poll_all()

    def operations_changed(self) -> None:
        """Look for operations at once, since one was created."""
        for rounds in self._rounds:
            rounds.run_now(RunOperations.name)

    def waits_changed(self, waits: Iterable[str]) -> None:
        """Check these waits, since this very process has ended jobs that hold them back."""
        self.checker.note(waits)

    def clock_moved(self) -> None:
        """Wake every part that goes by the clock, since the manual clock was moved."""
        self.heartbeat.clock_moved()
        self.timekeeper.wake()
        self.controls.wake()
        for rounds in self._rounds:
            for chore in BY_THE_CLOCK:
                rounds.run_now(chore)
        self.producer.poll_all()

    async def catch_up(self) -> None:
        """Return when this worker has renewed its claims at the time of the clock, and has fired due schedules."""
        await self.heartbeat.catch_up()
        await self.timekeeper.run_once()
        self.producer.poll_all()

    @property
    def idle(self) -> bool:
        """Whether no job is claimed, all ends are stored and checked, and a whole poll has found nothing."""
        return not len(self.claimed_jobs) and self.completer.idle and self.checker.idle and self.producer.idle

    async def catch_up_with_all(self) -> None:
        """Do at once all that this worker does now and then: fire due schedules, rescue, release, expire and check
        jobs; then poll. Tests use it, which cannot wait for the rounds of the chores."""
        await self.controls.refresh()
        for chore in self.chores:
            if chore.name in MAKES_JOBS_DUE:
                await chore.run_once()
        self.limiter.wait_lists.poll_next_time()
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
        self.limiter.extend(asked)
        await self._peers.refresh()
        await self.controls.refresh()
        await self._archive.announce(self._store)
        self.heartbeat.start()
        for service in self._services:
            service.start()
        if isinstance(self._store.clock, ManualClock):
            self._store.clock.follow(self)
        self._events.emit("worker:start", self.id)

    async def stop(self, grace: float) -> None:
        """Stop claiming, let handlers finish for `grace` seconds, then cancel and release the remaining jobs."""
        self._stopping = True
        patience = self._settings.operation_timeout
        if isinstance(self._store.clock, ManualClock):
            self._store.clock.unfollow(self)
        for service in self._services:
            if service is not self.checker:  # handlers that end within the grace time may release others
                service.stop()
        self.slots.close()
        await let_finish(self.slots, grace)
        rest = list(self.slots.running)
        self.stop_now()
        await release_rest(rest, self.slots, self.completer, self.id)
        self.checker.stop()
        await end_tasks(self.tasks, patience)
        await last_write(patience, self.completer.drain())
        await last_write(patience, self.checker.check_rest())
        self.job_log.close()
        await last_write(patience, self.counting.store())
        await last_write(patience, self.controls.close())
        await last_write(patience, self.limiter.give_all_back())
        await self.heartbeat.stop()
        await last_write(patience, self._store.workers.leave(self.id))  # after the last beat, which would undo it
        await self.executor.close()
        self._events.emit("worker:stop", self.id)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of the services, which run until the worker stops."""
        return [service.task for service in self._services if service.task is not None]

    def stop_now(self) -> None:
        """Cancel the running handlers, and release their jobs."""
        for claimed in list(self.slots.running):
            claimed.ask_to_stop(StopReason.RELEASED)
            claimed.interrupt()

    def _listed(self, *chores: Chore) -> list[Chore]:
        """The chores among these that are listed for this worker."""
        return [chore for chore in chores if chore in self.chores]

    def _adopt_now(self) -> None:
        for rounds in self._rounds:
            rounds.run_now(AdoptRawInserts.name)

    def _began(self, claimed: ClaimedJob) -> None:
        self.counting.began(claimed)
        if self.observers:
            self.observers.began(claimed)

    def _failed(self, error: Exception) -> None:
        logger.warning("The worker met an error and goes on: %s", brief(error))
        if isinstance(error, Unavailable) and isinstance(self._store.clock, ServerClock):
            self._store.clock.forget()  # the next primary may have another clock
        self._events.emit("scheduler:error", error)

    def _facts(self) -> Fields:
        return {
            **process_facts(self._settings, self.slots.running, self._started_at, self._version),
            "handlers": self._handlers.names,
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
        self._worker.producer.wake()

    def start(self, claimed_jobs: list[ClaimedJob]) -> None:
        self._worker.slots.admit(claimed_jobs)

    def release_parked(self) -> None:
        self._worker.slots.give_back_parked()

    def round_trip(self) -> float:
        return self._worker.producer.round_trip

    # -- of the slots and the services -----------------------------------------------------------------------------

    def room(self, queued: int) -> None:
        self._worker.producer.room(queued)

    def listening(self) -> bool:
        return self._worker.watcher.listening

    # -- of the completer ------------------------------------------------------------------------------------------

    @property
    def contended(self) -> bool:
        return self._worker.producer.contended_at_last_claim

    def slots_freed(self, gates: list[Gate], took: float | None) -> None:
        self._worker.limiter.freed(gates, took)

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        self._worker.counting.ended(claimed, ending)
        self._worker.job_log.attempt_ended(claimed, ending)
        self._worker.controls.breakers.attempt_ended(claimed, ending)
        if self._worker.observers:
            self._worker.observers.ended(claimed, ending)

    def run_ended(self, schedule_id: str) -> None:
        self._worker.timekeeper.run_ended(schedule_id)

    def predecessor_ended(self, waits: Sequence[str], *, well: bool) -> None:
        self._worker.checker.note_end(waits, well=well)

    def predecessor_left(self, waits: Sequence[str]) -> None:
        self._worker.checker.note_left(waits)

    def suspended(self, claimed: ClaimedJob, waits: Waits) -> None:
        self._worker.checker.note(waits.ids)
        if waits.signals:
            self._worker.checker.listen(claimed.id, waits.signals)
        if waits.until is not None:
            self._worker.checker.wake_at(claimed.id, waits.until)

    def parent_cancelled(self, claimed: ClaimedJob) -> None:
        if claimed.spawned or claimed.job.document.get("waits"):
            self._worker.checker.cancel_below(claimed.job.document)

    def due_again(self, delay: float) -> None:
        """Poll when a job that has gone back to the queue is due, if the next poll would be later."""
        worker = self._worker
        if not worker._stopping and delay < worker._settings.poll_interval:
            asyncio.get_running_loop().call_later(delay + 0.001, worker.producer.wake)
