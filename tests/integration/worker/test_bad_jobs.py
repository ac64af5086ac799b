"""One bad job ends alone: whatever a handler returns, logs or raises, its job ends and its worker goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument
from pydantic import BaseModel, computed_field

from harness.inside import inside
from harness.waiting import eventually
from mainspring import HandlerError, Job, JobContext, Retry, Scheduler

Make = Callable[..., Scheduler]


class Detached:
    """Like the row of a database whose session is closed."""

    def __repr__(self) -> str:
        raise RuntimeError("detached from its session")


class Lazy(Mapping[str, Any]):
    """A mapping that fetches its values, and cannot any more."""

    def __getitem__(self, key: str) -> Any:
        raise LookupError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Computing(BaseModel):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        raise KeyError("prices")


@dataclass(slots=True)
class Page:
    rows: Any


class Endless:
    """An iterator that has no end, and says when it is run."""

    run = 0

    def __iter__(self) -> Endless:
        return self

    def __next__(self) -> int:
        self.run += 1
        if self.run > 10:
            raise AssertionError("an iterator was run")
        return self.run


def damaged() -> RawBSONDocument:
    raw = RawBSONDocument(b"\x10\x00\x00\x00\x02a\x00\x04\x00\x00\x00abc\x00\x00")
    object.__setattr__(raw, "_RawBSONDocument__raw", b"\x10\x00\x00\x00\x02a\x00\xff\x00\x00\x00abc\x00\x00")
    return raw


RESULTS: dict[str, Callable[[], Any]] = {
    "repr raises": Detached,
    "mapping raises": Lazy,
    "computed field raises": Computing,
    "iterator": Endless,
    "iterator inside": lambda: {"rows": [Endless()]},
    "iterator in a dataclass": lambda: Page(Endless()),
    "huge integer": lambda: {"n": 2**70},
    "damaged document": damaged,
    "set of what cannot be compared": lambda: {Detached()},
}


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


def slots_in_use(scheduler: Scheduler) -> int:
    return len(inside(scheduler).worker.slots.running)


@pytest.mark.parametrize("isolation", ["auto", "thread"])
async def test_whatever_a_handler_returns_its_job_completes_with_a_note_and_frees_its_slot(
    make_scheduler: Make, isolation: Any
) -> None:
    scheduler = make_scheduler(concurrency=1)

    async def give(kind: str) -> Any:
        return RESULTS[kind]()

    def give_plain(kind: str) -> Any:
        return RESULTS[kind]()

    scheduler.job("give", isolation=isolation)(give if isolation == "auto" else give_plain)
    jobs = await scheduler.schedule_bulk([{"name": "give", "data": {"kind": kind}} for kind in RESULTS])
    await scheduler.start()
    done = {job.data["kind"]: await scheduler.wait(job.id, timeout=60) for job in jobs}
    assert {job.state for job in done.values()} == {"completed"}
    assert [kind for kind, job in done.items() if "not kept" not in (job.result_note or "")] == []
    assert done["iterator"].result_note is not None and "Return a list" in done["iterator"].result_note


@pytest.mark.parametrize("kind", ["generator", "async generator"])
async def test_a_handler_that_yields_is_refused_when_it_is_registered(scheduler: Scheduler, kind: str) -> None:
    def rows() -> Iterator[int]:
        yield 1

    async def rows_async() -> Any:
        yield 1

    with pytest.raises(HandlerError, match="has a yield, so calling it would run none of its code"):
        scheduler.job("rows")(rows if kind == "generator" else rows_async)


async def test_a_plain_handler_that_returns_a_coroutine_fails_its_job(scheduler: Scheduler) -> None:
    async def work() -> None: ...

    @scheduler.job("work", retry=1)
    def begin() -> Any:
        return work()

    await scheduler.start()
    done = await ended(scheduler, "work")
    assert done.state == "failed" and done.error is not None and "returned a coroutine" in done.error.message


class Shy(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Vague(Exception):
    @property
    def outage(self) -> bool:
        raise RuntimeError("nobody knows")


class Custom(BaseException):
    """What is no Exception."""


def with_details(details: Any) -> Exception:
    error = ValueError("no")
    error.details = details  # type: ignore[attr-defined]
    return error


Pair = namedtuple("Pair", "left right")

ERRORS: dict[str, Callable[[], BaseException]] = {
    "says nothing": Shy,
    "caused by what says nothing": lambda: ExceptionGroup("several", [Shy(), ValueError("x")]),
    "raises when asked": Vague,
    "surrogate and NUL": lambda: OSError("caf\udce9 \0"),
    "lazy details": lambda: with_details(Lazy()),
    "details that hold an iterator": lambda: with_details({"rows": Endless()}),
    "details that hold a pair": lambda: with_details({"pair": Pair("hidden-secret", 2)}),
    "details with a key that is no text": lambda: with_details({1: Detached()}),
    "generator exit": GeneratorExit,
    "own kind of exit": Custom,
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
}


@pytest.mark.parametrize("timeout", [None, 30])
async def test_whatever_a_handler_raises_its_job_fails_and_frees_its_slot(
    make_scheduler: Make, timeout: float | None
) -> None:
    scheduler = make_scheduler(concurrency=1, timeout=timeout)

    @scheduler.job("fail", retry=1)
    async def fail(kind: str, password: str) -> None:
        raise ERRORS[kind]()

    given = [{"name": "fail", "data": {"kind": kind, "password": "hidden-secret"}} for kind in ERRORS]
    jobs = await scheduler.schedule_bulk(given)
    await scheduler.start()
    done = {job.data["kind"]: await scheduler.wait(job.id, timeout=60) for job in jobs}
    assert {job.state for job in done.values()} == {"failed"}
    assert all(job.error is not None and job.error.type for job in done.values())
    assert "hidden-secret" not in str([job.error for job in done.values()])
    await eventually(lambda: slots_in_use(scheduler) == 0)


async def test_a_handler_that_cancels_itself_uses_up_its_attempts(scheduler: Scheduler) -> None:
    @scheduler.job("stop", retry=Retry(attempts=2, delay=0))
    async def stop() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    await scheduler.start()
    done = await ended(scheduler, "stop")
    assert (done.state, done.tries) == ("failed", 2)
    assert done.error is not None and done.error.type == "asyncio.exceptions.CancelledError"


async def test_a_result_that_cannot_be_encrypted_any_more_is_left_out_with_a_note(make_scheduler: Make) -> None:
    scheduler = make_scheduler(encrypt=True, keys={"one": b"k" * 32})

    @scheduler.job("work")
    async def work() -> str:
        inside(scheduler).core.privacy.cipher.ring._keys.clear()
        return "secret"

    await scheduler.start()
    done = await ended(scheduler, "work", {})
    assert (done.state, done.result) == ("completed", None)
    assert done.result_note is not None and "could not be encrypted" in done.result_note


async def test_a_listener_that_raises_a_cancellation_keeps_no_other_job_from_being_told_of(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mainspring")
    scheduler = make_scheduler()
    heard: list[str] = []

    def listen(job: Job) -> None:
        heard.append(job.id)
        raise asyncio.CancelledError

    @scheduler.job("work")
    async def work() -> None: ...

    scheduler.on("job:success", listen)
    jobs = await scheduler.schedule_bulk([{"name": "work"}] * 5)
    await scheduler.start()
    await eventually(lambda: sorted(heard) == sorted(job.id for job in jobs))
    await eventually(lambda: slots_in_use(scheduler) == 0)


async def test_the_lines_that_wait_to_be_stored_are_bounded(scheduler: Scheduler) -> None:
    waiting: list[int] = []

    @scheduler.job("talk")
    async def talk(ctx: JobContext) -> None:
        for number in range(1000):
            ctx.log(f"line {number}")
        (claimed,) = inside(scheduler).worker.claimed_jobs.all()
        waiting.append(len(claimed.notes._unstored))

    await scheduler.start()
    done = await ended(scheduler, "talk")
    assert waiting == [200] and done.attempts[0].log_cut == 800
