"""Scheduler: the public interface. It connects the parts and has the verbs that every program uses.

A verb that is declared with `forward` is implemented by the part that it names. All other verbs are in the namespaces,
such as `scheduler.schedules`. It connects lazily, on the event loop that first uses it; everything but running jobs
works before `start()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, Unpack, overload

from mainspring.client.core import Core, LocalWorker, NotedUses
from mainspring.client.drafting import Drafts
from mainspring.client.flows.batches import Batches
from mainspring.client.flows.builder import FlowBuilder
from mainspring.client.flows.starts import FlowStarts
from mainspring.client.job_functions import JobDecorator
from mainspring.client.jobs import Jobs
from mainspring.client.lifecycle import Lifecycle, WorkerParts
from mainspring.client.link import Link
from mainspring.client.namespaces.all_namespaces import Namespaces
from mainspring.client.namespaces.schedules import Schedule, StoredSchedules
from mainspring.client.outgoing.verbs import OutgoingVerbs
from mainspring.client.per_store import PerStore
from mainspring.client.registry import Registry
from mainspring.client.scheduling import Scheduling, Transactions
from mainspring.client.views.explaining import Explainer
from mainspring.client.views.searching import Searcher
from mainspring.clock import Clock, ServerClock
from mainspring.config.settings import SchedulerOptions, Settings, choose_uri, make_settings
from mainspring.engine.callbacks import Callback
from mainspring.engine.claim.back_pressure import Backlogs
from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers, LiveHandlers, Named
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.privacy import Privacy
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.draft import check_retry
from mainspring.model.jobs.event_names import EventName
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.retention import Keep, check_retention
from mainspring.model.jobs.retry import Retry, Seconds, seconds
from mainspring.model.schedules.schedule import RepeatOptions
from mainspring.rules import Rule
from mainspring.spelling import spelled, spelled_verbs
from mainspring.store import Store
from mainspring.store.jobs.transactions import Transaction
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.privacy.keyring import find_audit_keys, find_keys

if TYPE_CHECKING:
    from mainspring.engine.services.change_feed import ChangeFeed

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
Part = TypeVar("Part")
R = TypeVar("R")
T = TypeVar("T")


class AllOptions(SchedulerOptions, total=False):
    """All options of a Scheduler beside its URI."""

    client: Any
    handler: Callable[..., Any] | None
    retry: Retry | int | None
    retention: Sequence[Keep]
    keys: Mapping[str, bytes | str] | None
    audit_keys: Mapping[str, bytes | str] | None
    clock: Clock | None


def _forward(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Scheduler, P], R]:
    """A verb of the Scheduler that one of its parts implements, with that method's arguments and docstring."""
    verb = spelled(method)

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return verb(getattr(self, part), *args, **kwargs)

    return call


def _registering(
    method: Callable[Concatenate[Registry, P], Callable[[Callable[..., Any]], Handler]],
) -> Callable[Concatenate[Scheduler, P], JobDecorator]:
    """The verb that registers handlers: it has the arguments of the registry's method and makes typed job objects."""
    verb = spelled(method)

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> JobDecorator:
        return JobDecorator(verb(self._registry, *args, **kwargs), self._scheduling.enqueue)

    return call


@spelled_verbs
class Scheduler(OutgoingVerbs, Namespaces):
    """Schedules jobs on MongoDB and, once started, runs them.

    Without a URI it uses MAINSPRING_URI, MONGODB_URI or MONGO_URI. If none of them is set, it starts an embedded mongod
    in `./.mainspring` (`embedded:PATH` chooses another folder). Pass `client` to use your own AsyncMongoClient instead
    of a URI. `handler` is a catch-all: it runs every job whose name has no handler of its own. `keys` maps ids to
    encryption keys, and the first key encrypts; the default is MAINSPRING_KEYS and MAINSPRING_KEYS_FILE. `audit_keys`
    sign the audit log; the default is MAINSPRING_AUDIT_KEYS and MAINSPRING_AUDIT_KEYS_FILE. `config.Settings` lists the
    other options.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        client: Any = None,
        handler: Callable[..., Any] | None = None,
        retry: Retry | int | None = None,
        retention: Sequence[Keep] = (),
        keys: Mapping[str, bytes | str] | None = None,
        audit_keys: Mapping[str, bytes | str] | None = None,
        clock: Clock | None = None,
        **options: Unpack[SchedulerOptions],
    ) -> None:
        settings = make_settings(options)
        cipher = Cipher(find_keys(keys))
        place = uri if client is not None else choose_uri(uri)
        link = Link(place, client, settings, clock or ServerClock(), cipher, find_audit_keys(audit_keys))
        handlers = Handlers() if handler is None else Handlers(Handler("*", handler))
        live_handlers = LiveHandlers(handlers)
        privacy = Privacy(handlers, live_handlers, cipher, settings)
        worker = LocalWorker()
        self._registry = Registry(handlers, privacy)
        self._core = Core(link, self._registry, live_handlers, privacy, worker, NotedUses(worker))
        core = self._core
        self._feed: PerStore[ChangeFeed] = PerStore(_feed_of)
        self._explainer = Explainer(core)
        self._jobs = Jobs(core, self._explainer)
        self._searcher = Searcher(core, self._jobs)
        limits = Limits(handlers, self._registry.queue_limits)
        stored = StoredSchedules(core, self.schedules)
        drafts = self._drafts = Drafts(core, limits)
        self._transactions = Transactions(core)
        self._scheduling = Scheduling(
            core, self._jobs, drafts, self._transactions, stored, Backlogs(self._registry.bounds)
        )
        self._flow_starts = FlowStarts(core, drafts, self._scheduling, stored, self.flows)
        self._batches = Batches(core, self._jobs, drafts, self._scheduling, self._flow_starts, self.flows)
        usual = Retry() if retry is None else check_retry(retry)
        parts = WorkerParts(
            self._scheduling, drafts, self._transactions, stored, limits, usual, check_retention(retention)
        )
        self._lifecycle = Lifecycle(core, parts, self._jobs, self._feed)

    def configure(
        self, uri: str | None = None, *, clock: Clock | None = None, **options: Unpack[SchedulerOptions]
    ) -> Self:
        """Change the URI, the clock or settings before the first connection, or after `stop()`. The command line and
        tests use this."""
        link = self._core.link
        if self._core.worker.current is not None or link.connected:
            raise ConfigurationError("This scheduler is already connected; call configure() before its first use.")
        settings = make_settings({**asdict(link.settings), **options})
        self._core.privacy.configure(settings)
        self._registry.check_encrypted()
        link.configure(settings, clock or link.clock, None if uri is None else choose_uri(uri))
        return self

    # -- declaring -------------------------------------------------------------------------------------------------

    job = _registering(Registry.job)
    cron = _forward("_registry", Registry.cron)
    every = _forward("_registry", Registry.every)
    middleware = _forward("_registry", Registry.add_middleware)
    on_start = _forward("_registry", Registry.on_start)
    on_stop = _forward("_registry", Registry.on_stop)

    @overload
    def on(self, event: EventName) -> Callable[[F], F]: ...
    @overload
    def on(self, event: EventName, callback: F) -> F: ...
    def on(self, event: EventName, callback: Callback | None = None) -> Any:
        """Call a function at each event of this kind in this process. Also usable as a decorator."""

        def register(function: F) -> F:
            self._core.events.on(event, function)
            return function

        return register if callback is None else register(callback)

    def off(self, event: EventName, callback: Callback) -> None:
        """Stop calling a function that was registered with `on`."""
        self._core.events.off(event, callback)

    def archive(self, function: F) -> F:
        """Register the archive hook: a function, plain or async, that receives lists of finished jobs before they are
        deleted.

        If it raises, the jobs are kept, and it receives them again later. It may receive a job more than once.
        """
        self._registry.archive.register(function)
        return function

    # -- jobs ------------------------------------------------------------------------------------------------------

    @overload
    async def schedule(
        self, name: Named, data: Mapping[str, Any] | None = None, *, repeat: None = None, **options: Unpack[JobOptions]
    ) -> Job: ...
    @overload
    async def schedule(
        self,
        name: Named | FlowBuilder,
        data: Mapping[str, Any] | None = None,
        *,
        repeat: Rule | Mapping[str, Any],
        **options: Unpack[RepeatOptions],
    ) -> Schedule: ...
    async def schedule(
        self,
        name: Named | FlowBuilder,
        data: Mapping[str, Any] | None = None,
        *,
        repeat: Rule | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Job | Schedule:
        """Store a job. When this returns, the job survives the loss of any one node of the replica set. `name` is the
        name of the handler, or the decorated function itself. `JobOptions` lists the job options.

        If a live job (or any job, within its `dedupe_window`) has the same `dedupe_key`, no job is stored: that job is
        returned with `deduplicated` True. Keys are compared only within the same `dedupe_namespace`, or among keys
        without one. `throttle` is such a window, with the job's name as the default key. With `debounce`, only the last
        of a burst of calls runs, that long after the last call: each call changes the pending job and returns it. With
        `session`, the job exists if and only if your transaction commits. `version` is the payload version of the data;
        pass it if this process does not have the handler. `guarantee` applies to this job: "at_least_once",
        "at_most_once" or "exactly_once". With `encrypt`, all data or the values at the given paths are stored
        encrypted, in addition to the values that the handler declares as encrypted. `job_id` is the id of the job, 24
        hexadecimal digits: if a job has this id already, it is returned, so that a repeated call is safe.

        With `repeat`, store and return a schedule that makes such jobs. `repeat` is a rule such as `Cron("0 9 * * *")`
        or `Every("5m")`, or a mapping of its fields such as `{"cron": "0 9 * * *", "timezone": "Europe/Paris"}` or
        `{"every": "5m"}`. If a schedule has this `schedule_id` already, it is replaced at once; an equal one stays
        unchanged. `ScheduleOptions` lists the schedule options. With `repeat`, `name` may also be a flow declared with
        `flow()`: each firing starts the flow.
        """
        if isinstance(name, FlowBuilder):
            return await self._flow_starts.schedule(name, data, repeat, options)
        return await self._scheduling.schedule(name, data, repeat=repeat, **options)

    flow = _forward("_flow_starts", FlowStarts.flow)
    chain = _forward("_flow_starts", FlowStarts.chain)
    batch = _forward("_batches", Batches.batch)
    schedule_bulk = _forward("_scheduling", Scheduling.schedule_bulk)
    get_job = _forward("_jobs", Jobs.get_job)
    jobs = _forward("_searcher", Searcher.jobs)
    search = _forward("_searcher", Searcher.search)
    count = _forward("_searcher", Searcher.count)
    explain = _forward("_explainer", Explainer.explain)
    wait = _forward("_jobs", Jobs.wait)
    cancel = _forward("_jobs", Jobs.cancel)
    retry = _forward("_jobs", Jobs.retry)
    run_now = _forward("_jobs", Jobs.run_now)
    signal = _forward("_jobs", Jobs.signal)
    update = _forward("_jobs", Jobs.update)
    delete = _forward("_jobs", Jobs.delete)
    in_transaction = _forward("_transactions", Transactions.in_transaction)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction of the scheduler's client: `async with scheduler.transaction() as tx`, then
        `tx.session`."""
        return self._transactions.open()

    # -- the connection --------------------------------------------------------------------------------------------

    async def connect(self) -> Self:
        """Connect now instead of on first use."""
        await self._core.store()
        return self

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._core.link.settings

    @property
    def uri(self) -> str | None:
        """The URI in use, for any MongoDB client; before the embedded server is started, `embedded:` and its folder."""
        return self._core.link.uri

    @property
    def client(self) -> Any:
        """The AsyncMongoClient in use, to open sessions for `session=` and to read collections."""
        return self._core.link.open_store().connection.client

    def now(self) -> datetime:
        """The database's time, as far as this process knows it."""
        return self._core.link.clock.now()

    # -- the worker's life -----------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether this scheduler runs jobs in this process."""
        return self._core.worker.current is not None

    async def start(self) -> None:
        """Start to run jobs in this process, on this event loop. Return once the worker is up."""
        await self._lifecycle.start()

    async def stop(self, graceful: bool = True, timeout: Seconds | None = None) -> None:
        """Stop claiming jobs, let handlers finish within `timeout`, release unfinished jobs, and close the connection.

        With `graceful=False`, do not wait for handlers. The default timeout is the setting `grace` (25 s, less than the
        30 s that Kubernetes waits).
        """
        grace = self.settings.grace if timeout is None else seconds(timeout, "timeout")
        await self._lifecycle.stop(grace if graceful else 0.0)

    def stop_now(self) -> None:
        """Stop without waiting for handlers: cancel them and release their jobs. This applies to a stop that is under
        way, or to the next one."""
        self._lifecycle.stop_now()

    async def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then stop within the grace time, or at once at a second signal.

        While MongoDB is unavailable, this retries the start. Only `start()` raises `Unavailable`.
        """
        await self._lifecycle.run()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    if not TYPE_CHECKING:  # a type checker reports `with` by itself

        def __enter__(self) -> NoReturn:
            raise ConfigurationError(
                "Write `async with scheduler:` in an async function; for `with`, use mainspring.sync.Scheduler."
            )

        def __exit__(self, *exit: object) -> None: ...

    def __repr__(self) -> str:
        return f"<Scheduler {'running' if self.running else 'stopped'}>"


def _feed_of(store: Store, before: ChangeFeed | None) -> ChangeFeed:
    from mainspring.engine.services.change_feed import ChangeFeed  # few programs follow changes

    return ChangeFeed(store)


def check_async(scheduler: object, taker: str) -> None:
    """Refuse what is no async Scheduler, such as a blocking one, where the event loop of the caller does the work."""
    if not isinstance(scheduler, Scheduler):
        kind = f"{type(scheduler).__module__}.{type(scheduler).__qualname__}"
        given = kind.replace("mainspring.client.blocking.", "mainspring.sync.")
        raise ConfigurationError(f"{taker} takes a mainspring.Scheduler, which is async, not a {given}.")


def core_of(scheduler: Scheduler) -> Core:
    """The shared collaborators of a Scheduler; for other modules of this package."""
    return scheduler._core


def batches_of(scheduler: Scheduler) -> Batches:
    """The batches of a Scheduler; for the service."""
    return scheduler._batches


def jobs_of(scheduler: Scheduler) -> Jobs:
    """The verbs for single jobs of a Scheduler; for the service."""
    return scheduler._jobs


def lifecycle_of(scheduler: Scheduler) -> Lifecycle:
    """The life of a Scheduler's worker; for the blocking Scheduler."""
    return scheduler._lifecycle


def transactions_of(scheduler: Scheduler) -> Transactions:
    """The transactions of a Scheduler; for the blocking Scheduler."""
    return scheduler._transactions


def scheduling_of(scheduler: Scheduler) -> Scheduling:
    """The part of a Scheduler that stores jobs; for `mainspring.testing`."""
    return scheduler._scheduling


def drafts_of(scheduler: Scheduler) -> Drafts:
    """The part of a Scheduler that checks jobs; for `mainspring.testing`."""
    return scheduler._drafts
