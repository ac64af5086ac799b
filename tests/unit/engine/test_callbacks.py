"""Callbacks: which are called, and what happens when a callback misbehaves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mainspring import ConfigurationError, Scheduler
from mainspring.engine.callbacks import Callbacks
from mainspring.model.jobs.event_names import EVENTS


def test_the_events_are_those_that_are_promised() -> None:
    names = "created start success fail retry cancel progress snooze suspend rescue expire lost"
    promised = {f"job:{name}" for name in names.split()}
    promised |= {"scheduler:start", "scheduler:stop", "scheduler:error", "worker:start", "worker:stop"}
    promised |= {f"schedule:{name}" for name in ("late", "missed", "skipped", "pause", "undeclared")}
    promised |= {f"breaker:{name}" for name in ("open", "probe", "close")}
    promised |= {"archive:fail"}
    assert set(EVENTS) == promised and len(EVENTS) == len(promised)


def test_an_unknown_event_is_refused_with_the_one_that_was_probably_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"There is no event 'job:succes'\. Did you mean 'job:success'"):
        Callbacks().on("job:succes", print)
    with pytest.raises(ConfigurationError, match="Known are: scheduler:start, "):
        Callbacks().on("zzz", print)


def test_a_callback_must_be_a_function() -> None:
    with pytest.raises(ConfigurationError, match="The callback for 'job:fail' must be a function, not 5"):
        Callbacks().on("job:fail", 5)  # type: ignore[arg-type]


def test_callbacks_are_called_in_the_order_in_which_they_were_registered() -> None:
    events, heard = Callbacks(), list[str]()
    events.on("job:fail", lambda job: heard.append(f"one {job}"))
    events.on("job:fail", lambda job: heard.append(f"two {job}"))
    events.emit("job:fail", "x")
    assert heard == ["one x", "two x"]


def test_a_raising_callback_is_logged_and_keeps_nobody_else_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    events, heard = Callbacks(), list[Any]()

    def broken(job: Any) -> None:
        raise RuntimeError("broken callback")

    events.on("job:fail", broken)
    events.on("job:fail", heard.append)
    with caplog.at_level(logging.ERROR, "mainspring"):
        events.emit("job:fail", "x")
    assert heard == ["x"]
    assert "A callback for job:fail raised" in caplog.text and "broken callback" in caplog.text


async def test_an_async_callback_is_carried_out_and_waited_for_when_settling() -> None:
    events, heard = Callbacks(), list[str]()

    async def slow(job: str) -> None:
        await asyncio.sleep(0.01)
        heard.append(job)

    events.on("job:fail", slow)
    events.emit("job:fail", "x")
    assert heard == []
    await events.settle(5)
    assert heard == ["x"]


async def test_an_async_callback_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    events = Callbacks()

    async def broken(job: Any) -> None:
        raise RuntimeError("broken async callback")

    events.on("job:fail", broken)
    with caplog.at_level(logging.ERROR, "mainspring"):
        events.emit("job:fail", "x")
        await events.settle(5)
    assert "broken async callback" in caplog.text


async def test_settling_does_not_wait_for_ever() -> None:
    events = Callbacks()
    never = asyncio.Event()

    async def stuck(job: Any) -> None:
        await never.wait()

    events.on("job:fail", stuck)
    events.emit("job:fail", "x")
    await events.settle(0.01)
    never.set()
    await events.settle(5)


def test_what_nobody_listens_to_is_not_wanted() -> None:
    events = Callbacks()
    assert not events.wanted("job:fail")
    events.on("job:fail", print)
    assert events.wanted("job:fail") and not events.wanted("job:success")
    events.off("job:fail", print)
    assert not events.wanted("job:fail")
    events.off("job:fail", print)


def test_a_callback_may_take_itself_off_while_it_is_called() -> None:
    events, heard = Callbacks(), list[str]()

    def once(job: str) -> None:
        heard.append(job)
        events.off("job:fail", once)

    events.on("job:fail", once)
    events.on("job:fail", heard.append)
    events.emit("job:fail", "x")
    events.emit("job:fail", "y")
    assert heard == ["x", "x", "y"]


def test_on_is_a_decorator_too() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/x")

    @scheduler.on("job:fail")
    def listener(job: Any) -> str:
        return "still callable"

    assert listener(None) == "still callable"
    scheduler.off("job:fail", listener)
