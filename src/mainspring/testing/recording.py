"""The side of a context that carries out a handler's requests without a database: it records them, and has the answers
that a test has preset.

Steps and waits are those of the engine (`Steps`, `HandlerWaits`), so that a name used twice, a result that cannot be
stored, or a wait for a wrong thing is refused as in a worker. `make_context()` and the eager mode use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mainspring.client.job_functions import name_of
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.engine.flows.handler_waits import HandlerWaits
from mainspring.engine.flows.verbs import Asked, Begun, Heard, Portion, Settled, SignalAsked
from mainspring.engine.handlers import Named
from mainspring.engine.run.steps import Steps
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import COMPLETED, FAILED, PENDING, Job, JobError, Progress
from mainspring.spelling import meant_by
from mainspring.store.connection import Document
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.jobs.transactions import Transaction

BEGINNING = ManualClock().now()
"""The time in a context without a clock: 2030-01-01."""


class _Waiting:
    """The type of `WAITING`."""

    def __repr__(self) -> str:
        return "WAITING"


WAITING = _Waiting()
"""As the answer to a wait: it is not over, so that the handler is suspended there."""


@dataclass
class Scheduled:
    """A job that a handler has scheduled, or a child that it waits for."""

    name: str
    data: Mapping[str, Any]
    options: Mapping[str, Any]
    wait: str | None = None
    """The name of the wait, of a child."""


@dataclass
class Record:
    """What a handler did with its context."""

    progress: list[Progress] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    """The results of the steps that were run, without the preset ones."""
    scheduled: list[Scheduled] = field(default_factory=list)
    """The jobs of `ctx.schedule` and `ctx.grow`."""
    children: list[Scheduled] = field(default_factory=list)
    """The children of `ctx.call` and `ctx.map`."""
    sleeps: dict[str, timedelta] = field(default_factory=dict)
    """How long each sleep was to last."""


class Recorder:
    """Carries out the requests of one handler."""

    def __init__(
        self,
        job: StoredJob,
        answers: Mapping[str, Any],
        *,
        nodes: Mapping[str, Sequence[Any]] | None = None,
        idempotency_key: str | None = None,
        transaction: AbstractAsyncContextManager[Any] | None = None,
    ) -> None:
        self.job = job
        self.record = Record()
        self.stopping = False
        self._answers = answers
        self._nodes = nodes or {}
        self._idempotency_key = idempotency_key
        self._transaction = transaction
        self._made: dict[str, list[Job]] = {}
        self._keyed: dict[str, dict[bytes, Job]] = {}
        self._wait_names: set[str] = set()
        self._numbers = 0
        self._steps = Steps(job, Settings(), self._keep)
        self._waits = HandlerWaits(self, lambda: self._steps)

    # -- the requests of every handler -----------------------------------------------------------------------------

    def note_progress(self, percent: float, note: str | None) -> None:
        self.record.progress.append(Progress(percent, note))

    def note_log(self, line: str) -> None:
        self.record.log.append(line)

    def is_stopping(self) -> bool:
        return self.stopping

    @property
    def idempotency_key(self) -> str:
        return self._idempotency_key or f"test:{self.job.id}"

    async def schedule(self, name: Named, data: Any, options: dict[str, Any]) -> Job:
        self._steps.refuse_suspended()
        asked = Scheduled(name_of(name), dict(data or {}), options)
        self.record.scheduled.append(asked)
        return self.new_job(asked, PENDING)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        if self._transaction is None:
            raise ConfigurationError(
                "This context has no database, so that ctx.transaction() cannot begin; give "
                "make_context(transaction=…) an async context manager, or run the job in a database with drain()."
            )
        return self._transaction

    @property
    def steps(self) -> Steps:
        return self._steps

    @property
    def waits(self) -> HandlerWaits:
        return self._waits

    async def _keep(self, name: str, result: Any) -> Document:
        if name not in self._wait_names:
            self.record.steps[name] = result
        return {"name": name, "at": BEGINNING, "attempt": self.job.tries, "result": result}

    def new_job(self, asked: Scheduled, state: str, result: Any = None, error: JobError | None = None) -> Job:
        """A job that was made by the handler."""
        self._numbers += 1
        options = asked.options
        return Job(
            id=f"{self._numbers:024x}",
            name=asked.name,
            data=asked.data,
            state=state,
            queue=options.get("queue") or "default",
            priority=options.get("priority") or 5,
            run_at=options.get("run_at") or BEGINNING,
            created_at=BEGINNING,
            parent_id=str(self.job.id),
            tags=tuple(options.get("tags") or ()),
            result=result,
            error=error,
        )

    # -- the requests of a handler that waits ----------------------------------------------------------------------

    async def begin(self, name: str) -> Begun:
        self._wait_names.add(name)
        return Begun(False)

    async def spawn(self, portion: Portion) -> bool:
        made, keyed = self._made.setdefault(portion.wait, []), self._keyed.setdefault(portion.wait, {})
        for place, item in enumerate(portion.items):
            digest = None if portion.digests is None else portion.digests[place]
            if digest in keyed:
                continue  # items of the same key are one child, that of the first
            asked = Scheduled(name_of(portion.job), dict(item), portion.options, portion.wait)
            self.record.children.append(asked)
            made.append(await self.child(asked, portion.single))
            if digest is not None:
                keyed[digest] = made[-1]
        return True

    async def child(self, asked: Scheduled, single: bool) -> Job:
        """A child, which has ended, or which the handler waits for."""
        assert asked.wait is not None
        answer = self._answer(asked.wait, "ctx.call" if single else "ctx.map")
        if answer is WAITING:
            return self.new_job(asked, PENDING)
        if callable(answer) and not isinstance(answer, type | BaseException):
            answer = _called(answer, asked.data)
        elif not single:
            answer = self._answer_at(asked.wait, answer)
        if isinstance(answer, BaseException):
            return self.new_job(asked, FAILED, error=JobError(type(answer).__qualname__, str(answer)))
        return self.new_job(asked, COMPLETED, answer)

    def _answer_at(self, wait: str, answers: Any) -> Any:
        """The answer for the next child of a map."""
        if not isinstance(answers, Sequence) or isinstance(answers, str):
            raise AssertionError(
                f"The answer to the map {wait!r} is a list with a result for each child, or a function of the item, "
                f"not {answers!r}."
            )
        place = len(self._made.get(wait, ()))
        if place >= len(answers):
            raise AssertionError(
                f"The map {wait!r} has more than {len(answers)} items, and its answer has {len(answers)} results."
            )
        return answers[place]

    async def check_last(self, name: str, total: int, keyed: bool, single: bool) -> None: ...

    async def settle(self, asked: Sequence[Asked]) -> list[Settled] | None:
        if any(job.state == PENDING for one in asked for job in self._made.get(one.name, ())):
            return None
        return [self._settled(one) for one in asked]

    def _settled(self, asked: Asked) -> Settled:
        jobs = self._made.get(asked.name, [])
        failed = [job for job in jobs if job.state != COMPLETED]
        errors = tuple((job.id, str(job.error)) for job in failed)
        return Settled(asked.name, len(jobs), len(failed), errors, jobs[0] if asked.single else None)

    async def page(self, name: str, start: int, count: int) -> list[Job]:
        return self._made.get(name, [])[start : start + count]

    async def read(self, name: str, digests: Sequence[bytes] | None) -> list[Job]:
        if digests is None:
            return self._made.get(name, [])
        return [self._keyed[name][one] for one in digests]

    async def below(self, parent: str, keyed: bool, after: str | None) -> list[Job]:
        if keyed or after is not None:
            return []
        results = self._nodes.get(parent, ())
        return [self.new_job(Scheduled(parent, {}, {}), COMPLETED, result) for result in results]

    async def grow(self, name: Named, data: Any, options: dict[str, Any]) -> str:
        return (await self.schedule(name, data, options)).id

    async def listen(self, asked: SignalAsked, taken: Sequence[str]) -> Heard:
        self._wait_names.add(asked.name)
        answer = self._answer(asked.name, "ctx.wait_for")
        if answer is WAITING:
            return Heard(open=True)
        return Heard(open=False, signal=None if answer is None else f"signal:{asked.name}", payload=answer)

    async def taken(self, ids: Sequence[str]) -> None: ...

    async def sleep(self, name: str, until: datetime) -> bool:
        self.record.steps.pop(name, None)  # the instant was kept as a step before this is asked
        self.record.sleeps[name] = until - BEGINNING
        return self._answers.get(name) is not WAITING

    async def now(self) -> datetime:
        return BEGINNING

    def _answer(self, wait: str, verb: str) -> Any:
        if wait in self._answers:
            return self._answers[wait]
        meant = meant_by(wait, self._answers)
        hint = f" Did you mean {wait!r} where the answers have {meant!r}?" if meant else ""
        raise AssertionError(
            f"The test has no answer to {verb}({wait!r}, …); give make_context(answers={{{wait!r}: …}}), or WAITING as "
            f"the answer if the handler is to be suspended there.{hint}"
        )


def _called(answer: Callable[[Any], Any], data: Any) -> Any:
    """The result of a function that answers for a child, or the exception that it raised."""
    try:
        return answer(data)
    except Exception as error:
        return error
