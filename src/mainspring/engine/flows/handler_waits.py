"""The waits of a handler, in the process that runs it: `ctx.call`, `ctx.map`, `ctx.gather`, `ctx.grow`.

A wait is over, or the handler is suspended: `Suspension` ends this run, and the handler is run again from its top when
the wait is over. A wait that is over leaves a step under its name, so that later runs do not ask again; a wait whose
children failed leaves none, so that a retried flow asks anew.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from mainspring.config.settings import check_name
from mainspring.engine.flows.verbs import Asked, FlowAgent, Portion, Settled, SignalAsked
from mainspring.engine.handlers import Named
from mainspring.engine.run.steps import Steps
from mainspring.errors import ChildrenFailed, ConfigurationError, StepError, Suspension
from mainspring.model.fields import Fields
from mainspring.model.flows.ids import KEY_SIZE, key_digest
from mainspring.model.flows.references import copied
from mainspring.model.flows.waits import tolerated, wrong_tolerance
from mainspring.model.jobs.job import COMPLETED, Job
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.store.bounded_values import size_of_steps

T = TypeVar("T")
Items = Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]]
Key = str | Callable[[Mapping[str, Any]], Any]
Call = Callable[[Awaitable[Any]], Any]

PORTION = 1000
"""How many children are stored at once."""
_PAGE = 500
# A larger result of a call is read from the child in each run of its parent.
_LARGEST_KEPT = 8 * 1024


class Wait(Generic[T]):
    """Something that a handler waits for. `await` it, or give several to `ctx.gather`."""

    name: str

    def __init__(self, waits: HandlerWaits) -> None:
        self._waits = waits

    def __await__(self) -> Generator[Any, None, T]:
        return self._waits.resolve_one(self).__await__()


class ChildrenWait(Wait[T]):
    """A wait for children."""

    def __init__(
        self,
        waits: HandlerWaits,
        name: str,
        job: Named,
        items: Items,
        *,
        single: bool,
        key: Key | None = None,
        tolerate: float = 0,
        fail_fast: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(waits)
        if wrong := wrong_tolerance(tolerate, "children"):
            raise ConfigurationError(wrong)
        self.name, self.job, self.items, self.single = name, job, items, single
        self.key, self.tolerate, self.fail_fast = key, tolerate, fail_fast
        self.options = dict(options or {})

    def tolerated(self, total: int) -> int:
        return tolerated(self.tolerate, total)

    if not TYPE_CHECKING:

        def __aiter__(self) -> NoReturn:
            loop = "" if self.single else "async for child in "
            verb = "call" if self.single else "map"
            raise TypeError(f"Await it first: {loop}await ctx.{verb}({self.name!r}, …).")


class SignalWait(Wait[Any]):
    """A wait for a signal, or for the end of its time."""

    def __init__(self, waits: HandlerWaits, name: str, signal: str, timeout: Seconds | None) -> None:
        super().__init__(waits)
        self.name = name
        self.asked = SignalAsked(name, signal, None if timeout is None else seconds(timeout, "timeout"))


_OPEN = object()
"""The result of a wait that is not over."""


@dataclass(slots=True)
class _Prepared:
    """A wait whose children are being stored, or are known to exist."""

    wait: ChildrenWait[Any]
    total: int = 0
    sealed: bool = False
    fresh: bool = False
    digests: bytearray = field(default_factory=bytearray)
    kept: Mapping[str, Any] | None = None

    @property
    def needs_items(self) -> bool:
        """Whether the items are read: to store them, or for the order of children with keys."""
        return not self.sealed or self.wait.key is not None

    def portion(self, items: list[Any]) -> Portion:
        """The next items; they count from here on."""
        wait, start = self.wait, self.total if not self.sealed else 0
        digests = None if wait.key is None else [key_digest(_key_of(wait.key, item)) for item in items]
        if digests is not None:
            self.digests += b"".join(digests)
        if not self.sealed:
            self.total += len(items)
        return Portion(wait.name, wait.job, items, start, digests, wait.single, wait.options)

    def all_read(self) -> None:
        """All items were read. Items of the same key are one child: it counts once, in its first place."""
        if self.wait.key is not None:
            digests = self.digests
            distinct = dict.fromkeys(bytes(digests[at : at + KEY_SIZE]) for at in range(0, len(digests), KEY_SIZE))
            if len(distinct) * KEY_SIZE < len(digests):
                self.digests = bytearray(b"".join(distinct))
            if not self.sealed:
                self.total = len(distinct)

    def asked(self) -> Asked:
        wait = self.wait
        tolerated = wait.tolerated(self.total)
        keyed = wait.key is not None
        counted = not wait.single
        return Asked(wait.name, self.total, tolerated, wait.fail_fast, wait.single, keyed, self.fresh, counted)


class HandlerWaits:
    """The waits of one run of a handler."""

    def __init__(self, agent: FlowAgent, steps: Callable[[], Steps]) -> None:
        self._agent = agent
        self._steps = steps

    # -- making waits ----------------------------------------------------------------------------------------------

    def call(self, name: str, job: Named, data: Mapping[str, Any] | None = None, **options: Any) -> Wait[Any]:
        """One child, and its result."""
        return ChildrenWait(self, name, job, [copied(data or {})], single=True, options=options)

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
        """A child for each item."""
        return ChildrenWait(
            self, name, job, items, single=False, key=key, tolerate=tolerate, fail_fast=fail_fast, options=options
        )

    def wait_for(self, signal: str, timeout: Seconds | None = None, name: str | None = None) -> Wait[Any]:
        """A signal, and its payload; None when the time is over."""
        return SignalWait(self, signal if name is None else name, check_name(signal, "a signal's name"), timeout)

    async def sleep(self, name: str, duration: Seconds) -> None:
        """Suspend the handler for a time; the instant is kept as a step."""
        length = seconds(duration, "duration")
        kept = self._steps().reserve(name)
        if kept is None:
            until = await self._agent.now() + timedelta(seconds=length)
            kept = await self._steps().keep(name, {"until": until})
        if not isinstance(kept, Mapping) or not isinstance(kept.get("until"), datetime):
            raise StepError(f"{name!r} is the name of a step of this job; give the sleep a name of its own.")
        if not await self._agent.sleep(name, kept["until"]):
            self.suspend()

    # -- resolving them, on an event loop --------------------------------------------------------------------------

    async def resolve_one(self, wait: Wait[T]) -> T:
        (result,) = await self.resolve([wait])
        return cast("T", result)

    async def resolve(self, waits: Iterable[Wait[Any]]) -> list[Any]:
        prepared: list[_Prepared | SignalWait] = []
        for wait in _distinct(waits):
            if isinstance(wait, SignalWait):
                prepared.append(wait)
                continue
            one = self._begin(wait)
            if one.kept is None:
                await self._prepare(one)
            prepared.append(one)
        return await self._settle(prepared)

    def _begin(self, wait: ChildrenWait[Any]) -> _Prepared:
        kept = self._steps().reserve(wait.name)
        if kept is not None and not (isinstance(kept, Mapping) and ("child" in kept or "children" in kept)):
            raise StepError(f"{wait.name!r} is the name of a step of this job; give the wait a name of its own.")
        return _Prepared(wait, kept=kept)

    async def _prepare(self, one: _Prepared) -> None:
        await self._look(one)
        if one.needs_items:
            async for items in _portions(one.wait.items):
                await self._take(one, items)
        await self._close(one)

    async def _look(self, one: _Prepared) -> None:
        begun = await self._agent.begin(one.wait.name)
        one.sealed, one.total = begun.sealed, begun.total

    async def _take(self, one: _Prepared, items: list[Any]) -> None:
        portion = one.portion(items)
        if not one.sealed:
            one.fresh |= await self._agent.spawn(portion)

    async def _close(self, one: _Prepared) -> None:
        wait = one.wait
        one.all_read()
        if not one.sealed:
            await self._agent.check_last(wait.name, one.total, wait.key is not None, wait.single)

    async def _settle(self, prepared: list[_Prepared | SignalWait]) -> list[Any]:
        heard = {one.name: await self._hear(one) for one in prepared if isinstance(one, SignalWait)}
        children = [one for one in prepared if isinstance(one, _Prepared)]
        asked = [one.asked() for one in children if one.kept is None]
        settled = await self._agent.settle(asked) if asked else []
        if settled is None:
            self.suspend()
        ends = {one.name: one for one in settled}
        # Kept before the handler is suspended for a signal, so that the next run does not wait for children again.
        results = {one.wait.name: await self._result(one, ends.get(one.wait.name)) for one in children}
        if _OPEN in heard.values():
            self.suspend()
        return [heard[one.name] if isinstance(one, SignalWait) else results[one.wait.name] for one in prepared]

    async def _hear(self, wait: SignalWait) -> Any:
        """The payload of a signal, None after its time, or `_OPEN`. Keeping the step is taking the signal."""
        steps = self._steps()
        kept = steps.reserve(wait.name)
        if kept is None:
            heard = await self._agent.listen(wait.asked, steps.signals)
            if heard.open:
                return _OPEN
            kept = await steps.keep(wait.name, {"signal": heard.signal, "payload": heard.payload})
            if heard.signal is not None:
                await self._agent.taken([heard.signal])
        if not isinstance(kept, Mapping) or "signal" not in kept:
            raise StepError(f"{wait.name!r} is the name of a step of this job; give the wait a name of its own.")
        return kept.get("payload")

    async def _result(self, one: _Prepared, end: Settled | None) -> Any:
        if end is not None and end.failed > one.wait.tolerated(end.total):
            results = self._results(one, end.total, end.failed)
            raise ChildrenFailed(one.wait.name, end.total, end.failed, end.errors).reading(results.completed)
        if one.wait.single:
            return await self._result_of_call(one, end)
        kept = one.kept
        if kept is None:
            assert end is not None
            kept = await self._steps().keep(one.wait.name, {"children": end.total, "failed": end.failed})
        elif one.wait.key is not None:
            async for items in _portions(one.wait.items):
                one.sealed = True
                one.portion(items)
            one.all_read()
        return self._results(one, int(kept.get("children") or 0), int(kept.get("failed") or 0))

    async def _result_of_call(self, one: _Prepared, end: Settled | None) -> Any:
        if one.kept is not None and "result" in one.kept:
            return one.kept["result"]
        if end is None:
            found = await self._agent.read(one.wait.name, None)
            return found[0].result if found else None
        assert end.child is not None
        result = end.child.result
        entry = {"child": end.child.id} | ({"result": result} if end.plain and _is_small(result) else {})
        await self._steps().keep(one.wait.name, entry)
        return result

    def _results(self, one: _Prepared, total: int, failed: int) -> Results:
        digests = None if one.wait.key is None else bytes(one.digests)
        return Results(self._agent, one.wait.name, total, failed, digests, one.wait.single)

    def suspend(self) -> NoReturn:
        """End this run of the handler. A handler that catches this gets no further: each of its verbs raises it
        again."""
        self._steps().suspended = True
        raise Suspension

    async def below(self, parent: str) -> AsyncIterator[list[Job]]:
        """The jobs of a map node, or of a batch, a page at a time. The ids of children with keys are others."""
        for keyed in (False, True):
            page = await self._agent.below(parent, keyed, None)
            while page:
                yield page
                page = await self._agent.below(parent, keyed, page[-1].id)

    async def grow(self, job: Named, data: Mapping[str, Any] | None, options: Fields) -> str:
        self._steps().refuse_suspended()
        return await self._agent.grow(job, data, options)

    # -- resolving them in a thread --------------------------------------------------------------------------------

    def resolve_blocking(self, waits: Iterable[Wait[Any]], call: Call) -> list[Any]:
        """The same for a sync handler, whose thread iterates over the items; `call` waits for the event loop."""
        prepared: list[_Prepared | SignalWait] = []
        for wait in _distinct(waits, "ctx.waits"):
            if isinstance(wait, SignalWait):
                prepared.append(wait)
                continue
            one = self._begin(wait)
            if one.kept is None:
                call(self._look(one))
                if one.needs_items:
                    for items in _portions_blocking(wait.items):
                        call(self._take(one, items))
                call(self._close(one))
            elif wait.key is not None:
                wait.items = [item for items in _portions_blocking(wait.items) for item in items]
            prepared.append(one)
        try:
            return [_blocking(result, call) for result in cast("list[Any]", call(self._settle(prepared)))]
        except ChildrenFailed as failed:
            raise failed.reading(_blocking_reader(failed, call)) from None


class Results:
    """The children of a map, in the order of its items, read a page at a time. `failed` says how many of them ended
    badly and were tolerated."""

    def __init__(
        self, agent: FlowAgent, name: str, total: int, failed: int, digests: bytes | None, single: bool
    ) -> None:
        self._agent = agent
        self._name = name
        self._total = total
        self._digests = digests
        self._single = single
        self.failed = failed

    def __len__(self) -> int:
        return self._total

    async def __aiter__(self) -> AsyncIterator[Job]:
        async for page in self.pages():
            for job in page:
                yield job

    async def completed(self) -> AsyncIterator[Job]:
        """The children that completed."""
        async for job in self:
            if job.state == COMPLETED:
                yield job

    async def pages(self) -> AsyncIterator[list[Job]]:
        """The children in lists of up to 500."""
        if self._single:
            yield await self._agent.read(self._name, None)
        elif self._digests is not None:
            for start in range(0, len(self._digests), _PAGE * KEY_SIZE):
                part = self._digests[start : start + _PAGE * KEY_SIZE]
                wanted = [part[at : at + KEY_SIZE] for at in range(0, len(part), KEY_SIZE)]
                yield await self._agent.read(self._name, wanted)
        else:
            for start in range(0, self._total, _PAGE):
                yield await self._agent.page(self._name, start, min(_PAGE, self._total - start))


class BlockingResults:
    """The children of a map, as a sync handler iterates over them."""

    def __init__(self, results: Results, call: Call) -> None:
        self._results = results
        self._call = call

    @property
    def failed(self) -> int:
        return self._results.failed

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Job]:
        pages = self._results.pages()
        while (page := self._call(_next(pages))) is not None:
            yield from page

    def completed(self) -> Iterator[Job]:
        """The children that completed."""
        return (job for job in self if job.state == COMPLETED)


def _blocking(result: Any, call: Call) -> Any:
    return BlockingResults(result, call) if isinstance(result, Results) else result


def _blocking_reader(failed: ChildrenFailed, call: Call) -> Callable[[], Iterator[Job]]:
    completed = failed._completed
    assert completed is not None

    def read() -> Iterator[Job]:
        jobs = completed()
        while (job := call(_next(jobs))) is not None:
            yield job

    return read


async def _next(source: AsyncIterator[T]) -> T | None:
    return await anext(source, None)


def _distinct(waits: Iterable[Wait[Any]], maker: str = "ctx") -> list[ChildrenWait[Any] | SignalWait]:
    chosen = []
    for wait in waits:
        if not isinstance(wait, ChildrenWait | SignalWait):
            if inspect.iscoroutine(wait):
                wait.close()
            raise StepError(
                f"ctx.gather() takes waits, such as {maker}.call(…), {maker}.map(…) and {maker}.wait_for(…), "
                f"not {wait!r:.200}."
            )
        chosen.append(wait)
    return chosen


def _key_of(key: Key, item: Any) -> Any:
    if callable(key):
        return key(item)
    if not isinstance(item, Mapping) or key not in item:
        raise StepError(f"An item of the map has no {key!r}, which is its key.")
    return item[key]


def _is_small(result: Any) -> bool:
    try:
        return size_of_steps([result]) <= _LARGEST_KEPT
    except Exception:
        return False


async def _portions(items: Items) -> AsyncIterator[list[Any]]:
    if not isinstance(items, AsyncIterable):
        for some in _portions_blocking(items):
            yield some
        return
    portion: list[Any] = []
    async for item in items:
        portion.append(item)
        if len(portion) == PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _portions_blocking(items: Items) -> Iterator[list[Any]]:
    if isinstance(items, AsyncIterable):
        raise StepError("The items of a map in a sync handler are a plain iterable, such as a list or a generator.")
    if isinstance(items, Mapping | str | bytes) or not isinstance(items, Iterable):
        raise StepError(f"The items of a map are an iterable of mappings, not {type(items).__name__}.")
    source = iter(items)
    while portion := list(islice(source, PORTION)):
        yield portion
