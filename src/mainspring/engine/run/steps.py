"""The steps of one handler's run: each is run once, and its result is kept with the job for the attempts that follow.

Both agents use it, in the worker and in a process of the handler's own; each stores results in its own way. A step that
raises keeps nothing. A step always returns the stored value, so that the first run and the next attempt see the same.
The result of a step that was run is stored before the handler goes on, even if it is cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from mainspring.config.settings import Settings, check_name
from mainspring.errors import ConfigurationError, MainspringError, StepError, Suspension
from mainspring.store.bounded_values import encode_step, size_of_steps
from mainspring.store.codec import MAX_STEPS
from mainspring.store.connection import Document
from mainspring.store.jobs.stored_job import StoredJob

# The seconds that a cancelled handler waits for a result that is being stored.
_LAST_WRITE = 1.0

IN_TRANSACTION = (
    "A step cannot run inside ctx.transaction(), which writes the job's document itself: run it before the transaction "
    "and use its result inside."
)
COMPLETED = "The job has completed in its transaction; a step after that would never be needed."
_COMPLETED_BEFORE = "This job has completed in an earlier transaction; a job has one only."
_OPEN = "A transaction of this job is open: use it for all that belongs together, or leave its block first."

Keep = Callable[[str, Any], Awaitable[Document]]
"""Stores the result of a step durably and returns its entry; raises ClaimLost if the claim is lost."""


class Steps:
    """The steps of one attempt."""

    def __init__(self, job: StoredJob, settings: Settings, keep: Keep) -> None:
        self._entries = job.begin_steps()
        self._limit, self._most = settings.max_result, settings.max_steps_size
        self._keep_entry = keep
        self._used: set[str] = set()
        self._running = 0
        self._size = size_of_steps(self._entries)
        self.closed: str | None = None
        """The reason why no step can be run now, if there is one."""
        self.suspended = False
        """Whether the handler is suspended: this run is over, also if it caught the Suspension."""

    def refuse_suspended(self) -> None:
        """Raise the Suspension of this run again, if its handler has caught it."""
        if self.suspended:
            raise Suspension

    def refuse_second_transaction(self) -> None:
        """Raise an error if the job's transaction is open, or has completed the job."""
        self.refuse_suspended()
        if self.closed is not None:
            raise MainspringError(_OPEN if self.closed is IN_TRANSACTION else _COMPLETED_BEFORE)

    def begin_again(self) -> None:
        """Allow the names of the steps again, since the handler is run again within the same attempt."""
        self._used.clear()

    def note(self, entry: Document) -> None:
        """Add a stored step, for the handler's next run to find."""
        self._entries.append(entry)

    async def run(self, name: str, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The result of a step: the kept one, or else the result of the function, plain or awaited."""
        with self._named(name, function) as kept:
            if kept is not None:
                return deepcopy(kept["result"])
            outcome = function(*args, **kwargs)
            if inspect.isawaitable(outcome):
                outcome = await outcome
            return await _to_its_end(self.keep(name, outcome))

    def run_blocking(
        self,
        name: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Mapping[str, Any],
        wait: Callable[[Awaitable[Any]], Any],
    ) -> Any:
        """Run a step of a sync handler: the function runs in its thread, and `wait` waits for the event loop."""
        with self._named(name, function) as kept:
            if kept is not None:
                return deepcopy(kept["result"])
            outcome = function(*args, **kwargs)
            if inspect.isawaitable(outcome):
                _close(outcome)
                raise StepError(f"Step {name!r} of a sync handler must be a plain function; it is async.")
            return wait(self.keep(name, outcome))

    @property
    def signals(self) -> list[str]:
        """The signals that kept steps have taken."""
        results = [one.get("result") for one in self._entries if isinstance(one, Mapping)]
        found = [one.get("signal") for one in results if isinstance(one, Mapping)]
        return [one for one in found if isinstance(one, str)]

    def reserve(self, name: str) -> Any | None:
        """Use a name for a wait of the handler; returns the result that is kept under it, if there is one."""
        self._check(name, len)
        self._used.add(name)
        kept = next((one for one in self._entries if isinstance(one, Mapping) and one.get("name") == name), None)
        if kept is None and len(self._entries) + self._running >= MAX_STEPS:
            raise StepError(f"A job has at most {MAX_STEPS:,} steps and waits; use a map, or begin anew by Continue.")
        return None if kept is None else deepcopy(kept["result"])

    async def keep(self, name: str, outcome: Any) -> Any:
        """Store a result, and return it as a later read will find it."""
        result, size = encode_step(f"The result of step {name!r}", outcome, self._limit)
        if self._size + size > self._most:
            raise StepError(
                f"With step {name!r}, the results of this job's steps would take over {self._most:,} bytes; "
                "store them elsewhere and return references, or raise max_steps_size."
            )
        self._size += size
        self.note(await self._keep_entry(name, result))
        return deepcopy(result)

    @contextmanager
    def _named(self, name: str, function: object) -> Iterator[Document | None]:
        """The entry kept under a name, if any. The name is used from here on, unless the step raises."""
        self._check(name, function)
        kept = next((one for one in self._entries if isinstance(one, Mapping) and one.get("name") == name), None)
        if kept is None and len(self._entries) + self._running >= MAX_STEPS:
            raise StepError(f"A job has at most {MAX_STEPS:,} steps; let a step do more, or split the job.")
        self._used.add(name)
        self._running += kept is None
        try:
            yield dict(kept) if kept is not None else None
        except BaseException:
            self._used.discard(name)
            raise
        finally:
            self._running -= kept is None

    def _check(self, name: object, function: object) -> None:
        self.refuse_suspended()
        if not callable(function):
            _close(function)
            raise StepError(
                f"Give step {name!r} a function and its arguments, ctx.step('name', fetch, url), not {function!r}."
            )
        try:
            check_name(name, "A step's name")
        except ConfigurationError as error:
            raise StepError(str(error)) from None
        if self.closed is not None:
            raise StepError(self.closed)
        if name in self._used:
            raise StepError(
                f"There are two steps {name!r} in one run, so that their results could not be told apart; give each a "
                f"name of its own, numbered in a loop: f'{name}-{{number}}'."
            )


async def _to_its_end(write: Awaitable[Any]) -> Any:
    """Wait for a write that must go through even if the handler is cancelled meanwhile."""
    task = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_LAST_WRITE)
        raise


def _close(outcome: object) -> None:
    """Close a coroutine that will not be awaited, so that Python does not warn of it."""
    if inspect.iscoroutine(outcome):
        outcome.close()
