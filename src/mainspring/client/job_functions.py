"""A handler as an object that schedules its own jobs: `await send_email.schedule(to="a@b.c")`.

`@scheduler.job(…)` returns one. Type checkers compare the arguments of `schedule` with the parameters of the handler,
without its context. Calling the object calls the function, so that a handler can be tested by itself. The blocking
Scheduler makes the same objects; their `schedule` blocks (`sync.pyi` has its types). `delay` and `apply_async` are
Celery's names for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from mainspring.engine.handler import Handler, HandlerFunction, signature_of
from mainspring.engine.handlers import Named
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.errors import BadArguments
from mainspring.model.jobs.celery_options import celery_options
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.retry import Seconds

Full = ParamSpec("Full")
P = ParamSpec("P")
R = TypeVar("R")

Enqueue = Callable[[str, Mapping[str, Any], JobOptions], Coroutine[Any, Any, Job]]
"""Stores a job of a name, with its data and options. That of the blocking Scheduler returns the job itself."""


class JobCall(Generic[P]):
    """A job with options that is not scheduled yet."""

    def __init__(self, handler: Handler, enqueue: Enqueue, options: JobOptions) -> None:
        self._handler = handler
        self._enqueue = enqueue
        self._options = options

    def options(self, **options: Unpack[JobOptions]) -> JobCall[P]:
        """The same job with further options."""
        return JobCall(self._handler, self._enqueue, cast("JobOptions", {**self._options, **options}))

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job]:
        """Store a job with these arguments for its handler."""
        return self._enqueue(self._handler.name, _data(self._handler, args, kwargs), self._options)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job]:
        """Store a job with these arguments: Celery's name for `schedule`."""
        return self.schedule(*args, **kwargs)

    def apply_async(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: Seconds | None = None,
        eta: datetime | None = None,
        expires: Seconds | datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Coroutine[Any, Any, Job]:
        """Store a job as Celery's `apply_async` does: due after `countdown` or at `eta`, and never started after
        `expires`, an instant or a time from now. `priority` is Celery's, from 0 to 9 (first): 10 - priority here."""
        options = celery_options(countdown, eta, expires, priority, queue)
        data = _data(self._handler, tuple(args), kwargs or {})
        return self._enqueue(self._handler.name, data, cast("JobOptions", {**self._options, **options}))


class JobFunction(HandlerFunction, Generic[Full, P, R]):
    """A registered handler. Calling it calls the function; `schedule` stores a job for it."""

    def __init__(self, function: Callable[Full, R], handler: Handler, enqueue: Enqueue) -> None:
        super().__init__(function)
        update_wrapper(self, function)
        self._call: JobCall[P] = JobCall(handler, enqueue, {})

    def __call__(self, *args: Full.args, **kwargs: Full.kwargs) -> R:
        result: R = self.function(*args, **kwargs)
        return result

    def options(self, **options: Unpack[JobOptions]) -> JobCall[P]:
        """Set options for a job: `await send_email.options(delay=60).schedule(to="a@b.c")`."""
        return self._call.options(**options)

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job]:
        """Store a job with these arguments for its handler."""
        return self._call.schedule(*args, **kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job]:
        """Store a job with these arguments: Celery's name for `schedule`."""
        return self._call.schedule(*args, **kwargs)

    def apply_async(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: Seconds | None = None,
        eta: datetime | None = None,
        expires: Seconds | datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Coroutine[Any, Any, Job]:
        """Store a job as Celery's `apply_async` does: `await send_email.apply_async(["a@b.c"], countdown=60)`."""
        return self._call.apply_async(
            args, kwargs, countdown=countdown, eta=eta, expires=expires, priority=priority, queue=queue
        )


class JobDecorator:
    """Registers a function as a handler, and makes the object that schedules its jobs."""

    def __init__(self, register: Callable[[Callable[..., Any]], Handler], enqueue: Enqueue) -> None:
        self.register = register
        self._enqueue = enqueue

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], R]
    ) -> JobFunction[Concatenate[JobContext, P], P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[BlockingJobContext, P], R]
    ) -> JobFunction[Concatenate[BlockingJobContext, P], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> JobFunction[P, P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> JobFunction[..., ..., Any]:
        handler = self.register(function)
        return JobFunction(handler.function, handler, self._enqueue)


def name_of(job: Named) -> str:
    """The name of a job, given as text, as the object that schedules it, or as a plain function."""
    if isinstance(job, JobFunction):
        return job._call._handler.name
    return job if isinstance(job, str) else str(getattr(job, "__name__", job))


def _data(handler: Handler, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name. The check of the job refuses arguments that do not fit."""
    if not args:
        return dict(kwargs)
    taken = signature_of(handler.function).parameters.values()
    places = [one.name for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD]
    places = [name for name in places if name != handler.context_parameter]
    if len(args) > len(places):
        raise BadArguments(f"{handler.name!r} takes {len(places)} arguments by their place, not {len(args)}.")
    named = dict(zip(places, args, strict=False))
    twice = next((name for name in named if name in kwargs), None)
    if twice is not None:
        raise BadArguments(f"The argument {twice!r} of {handler.name!r} is given twice.")
    return {**named, **kwargs}
