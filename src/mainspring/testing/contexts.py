"""`make_context()`: a context for a handler alone, without a database and without a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, TypeVar, overload

from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.engine.run.sync_bridge import Portal
from mainspring.errors import ConfigurationError
from mainspring.model.flows.before import Predecessor
from mainspring.model.jobs.job import COMPLETED, DEFAULT_PRIORITY, DEFAULT_QUEUE, FAILED, JobError
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.testing.recording import BEGINNING, Record, Recorder

T = TypeVar("T")
_ID = "0" * 23 + "1"


class RecordingContext(JobContext):
    """The context of an async handler in a test. `record` lists what the handler did with it."""

    __slots__ = ("_recorder",)

    def __init__(self, job: StoredJob, recorder: Recorder) -> None:
        super().__init__(job, recorder)
        self._recorder = recorder

    @property
    def record(self) -> Record:
        """What the handler did: progress, log, steps, scheduled jobs, children, sleeps."""
        return self._recorder.record

    def stop(self) -> None:
        """Ask the handler to stop, as a cancellation does: `ctx.is_cancelled` is True from now on."""
        self._recorder.stopping = True


class BlockingRecordingContext(BlockingJobContext):
    """The context of a sync handler in a test. `record` lists what the handler did with it."""

    __slots__ = ("_recorder",)

    def __init__(self, job: StoredJob, recorder: Recorder) -> None:
        super().__init__(job, recorder, _AtOnce())
        self._recorder = recorder

    @property
    def record(self) -> Record:
        """What the handler did: progress, log, steps, scheduled jobs, children, sleeps."""
        return self._recorder.record

    def stop(self) -> None:
        """Ask the handler to stop, as a cancellation does: `ctx.is_cancelled` is True from now on."""
        self._recorder.stopping = True


class _AtOnce(Portal):
    """Runs awaitables in this thread: those of a recorder never wait for anything."""

    def __init__(self) -> None:
        """It has no event loop."""

    def call(self, awaitable: Awaitable[T]) -> T:
        steps = awaitable.__await__()
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        raise ConfigurationError(
            "A blocking context cannot wait for an event loop; run the job in a database with drain()."
        )


@overload
def make_context(
    data: Mapping[str, Any] | None = None,
    *,
    blocking: Literal[False] = False,
    name: str = "job",
    attempt: int = 1,
    steps: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    results: Mapping[str, Sequence[Any]] | None = None,
    cancelled: bool = False,
    id: str = _ID,
    queue: str = DEFAULT_QUEUE,
    priority: int = DEFAULT_PRIORITY,
    tags: Sequence[str] = (),
    run_at: datetime = BEGINNING,
    schedule_id: str | None = None,
    scheduled_for: datetime | None = None,
    idempotency_key: str | None = None,
    transaction: AbstractAsyncContextManager[Any] | None = None,
) -> RecordingContext: ...
@overload
def make_context(
    data: Mapping[str, Any] | None = None,
    *,
    blocking: Literal[True],
    name: str = "job",
    attempt: int = 1,
    steps: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    results: Mapping[str, Sequence[Any]] | None = None,
    cancelled: bool = False,
    id: str = _ID,
    queue: str = DEFAULT_QUEUE,
    priority: int = DEFAULT_PRIORITY,
    tags: Sequence[str] = (),
    run_at: datetime = BEGINNING,
    schedule_id: str | None = None,
    scheduled_for: datetime | None = None,
    idempotency_key: str | None = None,
    transaction: AbstractAsyncContextManager[Any] | None = None,
) -> BlockingRecordingContext: ...
def make_context(
    data: Mapping[str, Any] | None = None,
    *,
    blocking: bool = False,
    name: str = "job",
    attempt: int = 1,
    steps: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    results: Mapping[str, Sequence[Any]] | None = None,
    cancelled: bool = False,
    id: str = _ID,
    queue: str = DEFAULT_QUEUE,
    priority: int = DEFAULT_PRIORITY,
    tags: Sequence[str] = (),
    run_at: datetime = BEGINNING,
    schedule_id: str | None = None,
    scheduled_for: datetime | None = None,
    idempotency_key: str | None = None,
    transaction: AbstractAsyncContextManager[Any] | None = None,
) -> RecordingContext | BlockingRecordingContext:
    """Make a context for a handler that a test calls directly. `ctx.record` lists what the handler did with it.
    `blocking` is for sync handlers. `steps` are results of earlier attempts: these steps are not run. `answers` maps
    the name of each wait to its result: the result of a call, a list of results (or a function of the item) for a map,
    the payload of a signal, or None for a timeout. An exception makes a child fail, and `WAITING` suspends the handler.
    Sleeps end at once. `before` has the results of the node's predecessors, and `results` those of the jobs of map
    nodes. `cancelled` asks the handler to stop from the beginning; `ctx.stop()` does so later.
    """
    if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
        raise ConfigurationError(f"attempt is a number from 1 on, not {attempt!r}.")
    kept = [{"name": one, "at": BEGINNING, "attempt": 1, "result": result} for one, result in (steps or {}).items()]
    document = {"_id": id, "name": name, "data": dict(data or {}), "queue": queue, "priority": priority}
    document |= {"tags": list(tags), "run_at": run_at, "tries": attempt, "token": attempt, "steps": kept}
    document |= {"schedule_id": schedule_id, "scheduled_for": scheduled_for}
    nodes = {**{node: [] for node in results or {}}, **(before or {})}
    job = StoredJob(document).shown_after({node: _predecessor(node, result) for node, result in nodes.items()})
    recorder = Recorder(job, answers or {}, nodes=results, idempotency_key=idempotency_key, transaction=transaction)
    recorder.stopping = cancelled
    return (BlockingRecordingContext if blocking else RecordingContext)(job, recorder)


def _predecessor(node: str, result: Any) -> Predecessor:
    if isinstance(result, Predecessor):
        return result
    if isinstance(result, BaseException):
        return Predecessor(node, node, FAILED, error=JobError(type(result).__qualname__, str(result)))
    return Predecessor(node, node, COMPLETED, result)
