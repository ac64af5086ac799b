"""The context that a handler receives: the facts of its job, and the actions that it can take.

`JobContext` is for async handlers, `BlockingJobContext` for sync ones. Both send their requests to an `Agent`: the
worker itself, or, in a process of its own, the pipe to the worker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, cast

from mainspring.engine.flows.handler_waits import BlockingResults, HandlerWaits, Items, Key, Results, Wait
from mainspring.engine.handler import ContextMarker
from mainspring.engine.handlers import Named
from mainspring.engine.run.steps import Steps
from mainspring.engine.run.sync_bridge import BlockingContext, Portal
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.flows.before import Before
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.retry import Seconds
from mainspring.store.blocking import Blocking, unwrap
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.jobs.transactions import Transaction


class Agent(Protocol):
    """The side of the context that carries out the handler's requests."""

    def note_progress(self, percent: float, note: str | None) -> None: ...

    def note_log(self, line: str) -> None: ...

    def is_stopping(self) -> bool: ...

    @property
    def idempotency_key(self) -> str: ...

    async def schedule(self, name: Named, data: Any, options: Fields) -> Job: ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]: ...

    @property
    def steps(self) -> Steps: ...

    @property
    def waits(self) -> HandlerWaits: ...


class Noted:
    """The return value of `progress()` and `log()`: it holds nothing, and may be awaited."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_NOTED = Noted()


class _Facts(ContextMarker):
    """The facts of the job being run. `attempt` counts from 1; `token` is the fence of this claim."""

    __slots__ = ("_agent", "_job")

    def __init__(self, job: StoredJob | None = None, agent: Agent | None = None) -> None:
        if job is None or agent is None:
            raise ConfigurationError(
                "A worker makes the context of a job. To call a handler in a test, use "
                "mainspring.testing.make_context(), with blocking=True for a handler that is not async."
            )
        self._job = job
        self._agent = agent

    @property
    def id(self) -> str:
        """The id of the job."""
        return str(self._job.id)

    @property
    def name(self) -> str:
        """The name of the job."""
        return self._job.name

    @property
    def data(self) -> Mapping[str, Any]:
        """The job's data: the arguments of the handler."""
        return self._job.data

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._job.queue

    @property
    def priority(self) -> int:
        """The priority of the job: 1 runs first, 10 last."""
        return self._job.priority

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._job.tries

    @property
    def token(self) -> int:
        """The fencing token of this claim. It rises with each claim of the job."""
        return self._job.token

    @property
    def idempotency_key(self) -> str:
        """A key by which other systems can recognise this job. It is the same in all attempts, even after a manual
        retry."""
        return self._agent.idempotency_key

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the job."""
        return self._job.tags

    @property
    def run_at(self) -> datetime:
        """When the job became due."""
        return self._job.run_at

    @property
    def schedule_id(self) -> str | None:
        """The id of the schedule that made the job, if any."""
        return self._job.schedule_id

    @property
    def scheduled_for(self) -> datetime | None:
        """The nominal time of the firing that made the job, if any."""
        return self._job.scheduled_for

    @property
    def is_cancelled(self) -> bool:
        """Whether this handler should stop: its job was cancelled or timed out, its claim is lost, or its worker shuts
        down."""
        return self._agent.is_stopping()

    @property
    def before(self) -> Before:
        """The predecessors of this node of a flow, by name, each with its state and its result or error. If there is
        only one, `ctx.before.result` is its result. Empty if the job is not a node of a flow."""
        return Before(self._job.predecessors)

    def _jobs_of(self, node: str) -> AsyncIterator[list[Job]]:
        """The jobs of a map that this node came after, a page at a time."""
        found = self.before.get(node)
        if found is None:
            known = ", ".join(map(repr, self.before)) or "no nodes"
            raise ConfigurationError(f"This job comes after {known}, and not after {node!r}.")
        return self._agent.waits.below(found.id)

    def progress(self, percent: float, note: str | None = None) -> Noted:
        """Set the progress of the job, from 0 to 100. It is stored within about half a second; you need not await
        this."""
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise ConfigurationError(f"progress is a number from 0 to 100, not {percent!r}.")
        self._agent.note_progress(float(percent), None if note is None else str(note))
        return _NOTED

    def log(self, line: str) -> Noted:
        """Add a line to this attempt's log. It is stored within about half a second; you need not await this."""
        self._agent.note_log(str(line))
        return _NOTED


class JobContext(_Facts):
    """The context of an async handler."""

    __slots__ = ()

    async def schedule(self, name: Named, data: Mapping[str, Any] | None = None, **options: Any) -> Job:
        """Schedule another job, with the options of `Scheduler.schedule`. Its `parent_id` is the id of this job."""
        return await self._agent.schedule(name, data, options)

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a step of the job once. Its result is stored, and later attempts get the result without running the step
        again.

        The function may be async; a plain function is called on the event loop and blocks it like any direct call. When
        this returns, a majority of the replica set has stored the result. This returns the stored value: a tuple
        becomes a list.
        """
        return await self._agent.steps.run(name, function, args, kwargs)

    def call(self, name: str, job: Named, data: Mapping[str, Any] | None = None, **options: Any) -> Wait[Any]:
        """`await` it to run one child and get its result. The handler gives its slot back while it waits: this run
        ends, and the handler runs again from the top when the child has ended.

        `name` identifies the wait: use it once in a run, and it finds the same child in every run. Raise ChildrenFailed
        if the child does not complete.
        """
        return self._agent.waits.call(name, job, data, **options)

    def map(
        self,
        name: str,
        job: Named,
        items: Items,
        *,
        key: Key | None = None,
        tolerate: float = 0,
        fail_fast: bool = False,
        **options: Any,
    ) -> Wait[Results]:
        """`await` it to run a child for each item and get the results in order. An item is the data of its child.

        The items must be the same in every run, or come from a step. With `key`, the name of a field or a function, a
        child is identified by the key of its item instead of its position. Raise ChildrenFailed if more children than
        `tolerate`, a number or a fraction of them, end badly; with `fail_fast` at once, and the other children are
        cancelled.
        """
        return self._agent.waits.map(name, job, items, key=key, tolerate=tolerate, fail_fast=fail_fast, **options)

    async def gather(self, *waits: Wait[Any]) -> list[Any]:
        """Wait for several waits at once: `a, b = await ctx.gather(ctx.call(…), ctx.map(…))`."""
        return await self._agent.waits.resolve(waits)

    async def results(self, node: str) -> AsyncIterator[Job]:
        """Iterate over the jobs of a map node that precedes this node, in the order of the items, each with its state
        and result. In the callback of a batch, `ctx.results("items")` iterates over the jobs of the batch. Jobs are
        read a page at a time. Jobs with keys come in no particular order; deleted jobs are left out."""
        async for page in self._jobs_of(node):
            for job in page:
                yield job

    def wait_for(self, signal: str, timeout: Seconds | None = None, *, name: str | None = None) -> Wait[Any]:
        """`await` it to get the payload of a signal that `scheduler.signal` sends to this job, or None after the
        timeout. A signal that arrived earlier counts. A signal without a payload also gives None: send a payload if the
        handler must tell the two apart. The handler gives its slot back while it waits.

        `name` identifies the wait; the default is the name of the signal. Give each wait for the same signal a
        different name.
        """
        return self._agent.waits.wait_for(signal, timeout, name)

    async def sleep(self, name: str, duration: Seconds) -> None:
        """Continue after this time. The handler gives its slot back meanwhile. `name` identifies the sleep."""
        await self._agent.waits.sleep(name, duration)

    async def grow(self, job: Named, data: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Add a job to the wait that this job belongs to, and return its id: the waiting job also waits for the new
        job."""
        return await self._agent.waits.grow(job, data, options)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction in which the handler's writes and the job's completion commit together or not at all."""
        return self._agent.transaction()


class BlockingTransaction:
    """An open transaction as a sync handler sees it: `session`, `db`, and `result` to be set."""

    def __init__(self, inner: Transaction, portal: Portal) -> None:
        self._inner = inner
        self.session = Blocking(inner.session, portal.call)
        self.db = Blocking(inner.db, portal.call)

    @property
    def result(self) -> Any:
        return self._inner.result

    @result.setter
    def result(self, value: Any) -> None:
        self._inner.result = value


class BlockingJobContext(_Facts):
    """The context of a sync handler: the same methods, and each blocks until it is done."""

    __slots__ = ("_portal",)

    def __init__(self, job: StoredJob | None = None, agent: Agent | None = None, portal: Portal | None = None) -> None:
        super().__init__(job, None if portal is None else agent)
        self._portal = cast(Portal, portal)

    def schedule(self, name: Named, data: Mapping[str, Any] | None = None, **options: Any) -> Job:
        """Schedule another job, with the options of `Scheduler.schedule`. Its `parent_id` is the id of this job."""
        plain = {key: unwrap(value) for key, value in options.items()}
        return self._portal.call(self._agent.schedule(name, data, plain))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a step of the job once. Its result is stored, and later attempts get the result without running the step
        again.

        The function runs in the handler's thread. A majority of the replica set has stored the result when this
        returns. It returns the stored value: a tuple is always a list.
        """
        return self._agent.steps.run_blocking(name, function, args, kwargs, self._portal.call)

    @property
    def waits(self) -> HandlerWaits:
        """Makes waits for `gather()`: `ctx.gather(ctx.waits.call(…), ctx.waits.map(…))`."""
        return self._agent.waits

    def call(self, name: str, job: Named, data: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Run one child and return its result. The handler gives its slot back while it waits: this run ends, and the
        handler is run again from its top when the child has ended. See `JobContext.call`."""
        return self.gather(self.waits.call(name, job, data, **options))[0]

    def map(
        self,
        name: str,
        job: Named,
        items: Items,
        *,
        key: Key | None = None,
        tolerate: float = 0,
        fail_fast: bool = False,
        **options: Any,
    ) -> BlockingResults:
        """Run a child for each item and return their results, in order. See `JobContext.map`."""
        wait = self.waits.map(name, job, items, key=key, tolerate=tolerate, fail_fast=fail_fast, **options)
        results: BlockingResults = self.gather(wait)[0]
        return results

    def gather(self, *waits: Wait[Any]) -> list[Any]:
        """Wait for several at once: `a, b = ctx.gather(ctx.waits.call(…), ctx.waits.map(…))`."""
        return self._agent.waits.resolve_blocking(waits, self._portal.call)

    def results(self, node: str) -> Iterator[Job]:
        """The jobs of a map node that this node came after. See `JobContext.results`."""
        pages = self._jobs_of(node)
        while (page := self._portal.call(anext(pages, None))) is not None:
            yield from page

    def wait_for(self, signal: str, timeout: Seconds | None = None, *, name: str | None = None) -> Any:
        """The payload of a signal, or None when the time is over. See `JobContext.wait_for`."""
        return self.gather(self.waits.wait_for(signal, timeout, name))[0]

    def sleep(self, name: str, duration: Seconds) -> None:
        """Go on after this time, without a slot meanwhile. See `JobContext.sleep`."""
        self._portal.call(self._agent.waits.sleep(name, duration))

    def grow(self, job: Named, data: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Add a job to the wait that this job belongs to, and return its id: the waiting job also waits for the new
        job."""
        return self._portal.call(self._agent.waits.grow(job, data, options))

    def transaction(self) -> BlockingContext[BlockingTransaction]:
        """Open a transaction in which the handler's writes and the job's completion commit together or not at all."""
        portal = self._portal
        return BlockingContext(portal, self._agent.transaction(), lambda inner: BlockingTransaction(inner, portal))


def agent_of(context: JobContext) -> Agent:
    """The side of a context that carries out its requests; for the handlers of Mainspring itself."""
    return context._agent
