"""A stream, a long poll or a bulk goes on only for as long as its caller would be let in again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from api.access.test_sessions import log_in
from api.conftest import Api, serving
from api.views.test_events import Client, reading
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import NewApiKey, Scheduler, Unavailable
from mainspring.api.endpoints.bulk import AT_ONCE
from mainspring.api.middleware import revalidation
from mainspring.client.service_backend import ServiceBackend
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]
LINE = b'{"name": "work", "queue": "mine"}\n'


@pytest.fixture
async def key(api: Api) -> NewApiKey:
    await api.scheduler.api_keys.create("root", "admin")
    return await api.scheduler.api_keys.create("ops", "operator", queues=["mine"])


def keys_in(api: Api) -> Any:
    return api.scheduler.client.get_default_database()["jobs.access"]


async def revoke(api: Api, key: NewApiKey) -> None:
    await api.scheduler.api_keys.revoke(key.key.id)


async def delete(api: Api, key: NewApiKey) -> None:
    await keys_in(api).delete_one({"_id": key.key.id})


async def rotate(api: Api, key: NewApiKey) -> None:
    await api.scheduler.api_keys.rotate(key.key.id)


async def expire(api: Api, key: NewApiKey) -> None:
    await keys_in(api).update_one({"_id": key.key.id}, {"$set": {"expires_at": api.scheduler.now()}})


async def lower(api: Api, key: NewApiKey) -> None:
    await keys_in(api).update_one({"_id": key.key.id}, {"$set": {"role": "viewer"}})


async def narrow(api: Api, key: NewApiKey) -> None:
    await keys_in(api).update_one({"_id": key.key.id}, {"$set": {"queues": ["other"]}})


ENDS = [(revoke, "revoked"), (delete, "revoked"), (rotate, "rotated"), (expire, "expired"), (lower, "changed")]
ENDS += [(narrow, "changed")]


async def ended(client: Client) -> tuple[str, str]:
    """The type and the reason of the last event of a stream that has come to its end."""
    await eventually(lambda: client.ended)
    last = client.events[-1]
    assert last.data["detail"]
    return last.type, last.data["reason"]


@pytest.mark.parametrize(("act", "reason"), ENDS)
@pytest.mark.parametrize("way", ["key", "session"])
async def test_a_stream_ends_with_its_key_and_says_why(
    api: Api, key: NewApiKey, act: Any, reason: str, way: str
) -> None:
    caller = api.with_key(key.text) if way == "key" else (await log_in(api, key.text))[0]
    async with reading(caller) as client:
        await act(api, key)
        assert await ended(client) == ("end", reason)
    assert (await caller.get("/api/session")).status == (200 if reason == "changed" else 401)


async def test_nothing_is_told_after_the_end(api: Api, key: NewApiKey) -> None:
    async with reading(api.with_key(key.text)) as client:
        await api.scheduler.schedule("before", queue="mine")
        await client.until(1)
        await revoke(api, key)
        await eventually(lambda: client.ended)
        await api.scheduler.schedule("after", queue="mine")
    assert [one.data.get("name") for one in client.events] == ["before", None]


async def test_the_streams_of_every_process_end(make_scheduler: Make) -> None:
    first, second = make_scheduler(), make_scheduler()
    await first.api_keys.create("root", "admin")
    key = await first.api_keys.create("ops", "viewer")
    async with (
        serving(first) as here,
        serving(second) as there,
        reading(here.with_key(key.text)) as one,
        reading(there.with_key(key.text)) as other,
    ):
        await first.api_keys.revoke(key.key.id)
        assert [await ended(client) for client in (one, other)] == [("end", "revoked")] * 2


async def test_a_stream_of_the_old_secret_ends_with_its_grace_time_and_one_of_the_new_goes_on(
    make_scheduler: Make,
) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    await scheduler.api_keys.create("root", "admin")
    key = await scheduler.api_keys.create("ops", "viewer")
    async with serving(scheduler) as api, reading(api.with_key(key.text)) as before:
        new = await scheduler.api_keys.rotate(key.key.id, timedelta(hours=1))
        async with reading(api.with_key(key.text)) as old, reading(api.with_key(new.text)) as current:
            clock.advance(timedelta(minutes=59))
            await scheduler.schedule("work")
            for client in (before, old, current):
                await client.until(1)
            clock.advance(timedelta(minutes=1))
            assert [await ended(client) for client in (before, old)] == [("end", "rotated")] * 2
            await scheduler.schedule("more")
            await current.until(2)
            assert not current.ended


async def test_a_stream_of_a_session_ends_when_it_is_closed(api: Api, key: NewApiKey) -> None:
    browser, token = await log_in(api, key.text)
    other, _ = await log_in(api, key.text)
    async with reading(browser) as client, reading(other) as still:
        await browser.delete("/api/session", headers={"X-Csrf-Token": token})
        assert await ended(client) == ("end", "closed")
        assert not still.ended


async def test_a_stream_of_a_session_ends_with_its_time(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    key = await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, session_hours=1) as api:
        browser, _ = await log_in(api, key.text)
        async with reading(browser) as client, reading(api.with_key(key.text)) as still:
            clock.advance(timedelta(hours=1))
            assert await ended(client) == ("end", "expired")
            assert not still.ended


async def test_a_stream_without_a_key_ends_when_there_is_one(api: Api) -> None:
    async with reading(api) as client:
        await api.scheduler.api_keys.create("ops", "admin")
        assert await ended(client) == ("end", "keyed")


class Outage:
    """Callers that cannot be looked up, until it is over."""

    def __init__(self, patch: pytest.MonkeyPatch, believed: float, patience: float = 0) -> None:
        self.asked = 0
        self._patch = patch
        patch.setattr(revalidation, "LONGEST_UNSURE", believed)
        patch.setattr(revalidation, "LONGEST_WAIT", patience)
        patch.setattr(ServiceBackend, "get_api_key", self._refuse)

    async def _refuse(self, key_id: str) -> None:
        self.asked += 1
        raise Unavailable("away")

    async def noticed(self) -> None:
        """Return when at least one look has failed, and all that follows from it is done."""
        await eventually(lambda: self.asked > 1)

    def end(self) -> None:
        self._patch.undo()


async def test_a_caller_that_cannot_be_looked_up_is_believed_for_a_while(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(api.with_key(key.text)) as client:
        await Outage(monkeypatch, believed=3600).noticed()
        await api.scheduler.schedule("during", queue="mine")
        await client.until(1)


async def test_a_stream_is_held_while_its_caller_cannot_be_looked_up_and_goes_on_afterwards(
    make_scheduler: Make, api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = make_scheduler().monitor.follow(beat=0.5)
    await anext(witness)  # it has begun
    async with reading(api.with_key(key.text)) as client:
        outage = Outage(monkeypatch, believed=0)
        await outage.noticed()
        await api.scheduler.schedule("during", queue="mine")
        while (await asyncio.wait_for(anext(witness), 60)).name != "during":
            pass
        asked = outage.asked
        await eventually(lambda: outage.asked > asked + 1)
        assert client.events == [] and not client.ended
        outage.end()
        await api.scheduler.schedule("after", queue="mine")
        await client.until(2)
        assert [one.data["name"] for one in client.events] == ["during", "after"]
    await witness.aclose()  # type: ignore[attr-defined]


async def test_a_stream_that_was_held_tells_nothing_more_if_its_key_was_revoked_meanwhile(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(api.with_key(key.text)) as client:
        outage = Outage(monkeypatch, believed=0)
        await outage.noticed()
        await revoke(api, key)
        await api.scheduler.schedule("hidden", queue="mine")
        outage.end()
        assert await ended(client) == ("end", "revoked")
        assert len(client.events) == 1


async def test_a_long_poll_whose_caller_cannot_be_looked_up_is_answered_with_503(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await api.scheduler.schedule("work", queue="mine", delay=3600)
    entered = entering(api.scheduler, monkeypatch)
    waiting = asyncio.create_task(api.with_key(key.text).get(f"/api/jobs/{job.id}/wait?timeout=60s"))
    try:
        await eventually(lambda: entered)
        await Outage(monkeypatch, believed=0).noticed()
        await api.scheduler.cancel(job.id)
        reply = await asyncio.wait_for(waiting, 60)
    finally:
        waiting.cancel()
    assert reply.status == 503


class Bulk:
    """A bulk that goes on for as long as it is given lines."""

    def __init__(self, answer: aiohttp.ClientResponse, lines: asyncio.Queue[bytes]) -> None:
        self._answer = answer
        self._lines = lines

    async def ask(self) -> dict[str, Any]:
        """Send a line; returns what it was answered."""
        self._lines.put_nowait(LINE)
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self._answer.content.readline(), 60))
        return answer


@contextlib.asynccontextmanager
async def bulk_of(api: Api, key: NewApiKey) -> AsyncIterator[Bulk]:
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    lines.put_nowait(LINE)  # a service answers when there is something to answer

    async def body() -> AsyncIterator[bytes]:
        while line := await lines.get():
            yield line

    headers = {"Authorization": f"Bearer {key.text}", "Content-Type": "application/x-ndjson"}
    async with api.session.post(f"{api.url}/api/jobs/bulk", data=body(), headers=headers) as answer:
        yield Bulk(answer, lines)
        lines.put_nowait(b"")


async def test_a_bulk_stores_nothing_while_its_caller_cannot_be_looked_up_and_goes_on_afterwards(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bulk_of(api, key) as bulk:
        answers = [await bulk.answer()]
        outage = Outage(monkeypatch, believed=0)
        await outage.noticed()
        answers.append(await bulk.ask())
        outage.end()
        while "error" in (answer := await bulk.ask()):
            answers.append(answer)
    assert {one["error"]["status"] for one in answers[1:]} == {503}
    assert {job.id async for job in api.scheduler.jobs()} == {answers[0]["jobId"], answer["jobId"]}


async def test_a_bulk_waits_a_moment_for_its_caller_to_be_known_again(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bulk_of(api, key) as bulk:
        await bulk.answer()
        outage = Outage(monkeypatch, believed=0, patience=60)
        await outage.noticed()
        answer = asyncio.create_task(bulk.ask())
        asked = outage.asked
        await eventually(lambda: outage.asked > asked + 1)
        assert not answer.done()
        outage.end()
        assert "jobId" in await answer


@pytest.mark.slow
async def test_a_long_poll_waits_a_moment_for_its_caller_to_be_known_again(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await api.scheduler.schedule("work", queue="mine", delay=3600)
    entered = entering(api.scheduler, monkeypatch)
    waiting = asyncio.create_task(api.with_key(key.text).get(f"/api/jobs/{job.id}/wait?timeout=60s"))
    await eventually(lambda: entered)
    # A patch of its own: the end of the outage leaves the one above in place.
    with monkeypatch.context() as patch:
        outage = Outage(patch, believed=0, patience=60)
        await outage.noticed()
        await api.scheduler.cancel(job.id)
        asked = outage.asked
        await eventually(lambda: outage.asked > asked + 1)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, 60)).status == 200


async def test_nobody_is_looked_up_while_nobody_listens(api: Api, key: NewApiKey) -> None:
    def looking() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "mainspring-standing"]

    async with reading(api.with_key(key.text)):
        assert looking()
    await eventually(lambda: not looking())


def entering(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the jobs that are waited for, as the waiting begins."""
    entered: list[str] = []
    plain = scheduler.wait

    async def wait(job_id: str, timeout: Any = None) -> Any:
        entered.append(job_id)
        return await plain(job_id, timeout)

    monkeypatch.setattr(scheduler, "wait", wait)
    return entered


async def test_a_long_poll_ends_with_its_key(api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await api.scheduler.schedule("work", queue="mine", delay=3600)
    entered = entering(api.scheduler, monkeypatch)
    waiting = asyncio.create_task(api.with_key(key.text).get(f"/api/jobs/{job.id}/wait?timeout=60s"))
    try:
        await eventually(lambda: entered)
        await revoke(api, key)
        reply = await asyncio.wait_for(waiting, 60)
    finally:
        waiting.cancel()
    assert (reply.status, "revoked" in reply.body["detail"]) == (401, True)


@pytest.mark.slow
async def test_a_long_poll_ends_with_its_key_where_there_are_no_change_streams(
    make_scheduler: Make, standalone: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(standalone.uri("standing"))
    await scheduler.api_keys.create("root", "admin")
    key = await scheduler.api_keys.create("ops", "viewer")
    job = await scheduler.schedule("work", delay=3600)
    entered = entering(scheduler, monkeypatch)
    async with serving(scheduler) as api:
        waiting = asyncio.create_task(api.with_key(key.text).get(f"/api/jobs/{job.id}/wait?timeout=60s"))
        try:
            await eventually(lambda: entered)
            await revoke(api, key)
            assert (await asyncio.wait_for(waiting, 60)).status == 401
        finally:
            waiting.cancel()


@pytest.mark.parametrize("more", [b"", LINE], ids=["while the client pauses", "while it sends"])
async def test_a_bulk_stores_nothing_more_once_its_key_has_ended(api: Api, key: NewApiKey, more: bytes) -> None:
    over = asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield LINE * AT_ONCE
        while not over.is_set():
            if more:
                yield more
            await asyncio.sleep(0.01)

    headers = {"Authorization": f"Bearer {key.text}", "Content-Type": "application/x-ndjson"}
    async with api.session.post(f"{api.url}/api/jobs/bulk", data=lines(), headers=headers) as answer:
        told = [json.loads(await asyncio.wait_for(answer.content.readline(), 60))]
        await revoke(api, key)
        while "error" not in told[-1]:
            told.append(json.loads(await asyncio.wait_for(answer.content.readline(), 60)))
        over.set()
    last = told.pop()
    assert (last["error"]["status"], "Nothing from this line on was stored" in last["error"]["detail"]) == (401, True)
    assert [one["line"] for one in told] == list(range(1, last["line"]))
    assert len([job.id async for job in api.scheduler.jobs()]) == len(told) >= AT_ONCE


# -- how many ----------------------------------------------------------------------------------------------------------


async def test_one_key_cannot_take_all_streams(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    admin = await scheduler.api_keys.create("root", "admin")
    viewer = await scheduler.api_keys.create("tenant", "viewer", queues=["mine"])
    async with serving(scheduler, streams_per_key=2) as api:
        mine = api.with_key(viewer.text)
        browser, _ = await log_in(api, viewer.text)
        async with reading(mine), reading(browser):
            for caller in (mine, browser):
                refused = await caller.get("/api/events")
                assert (refused.status, "MAINSPRING_STREAMS_PER_KEY" in refused.body["detail"]) == (429, True)
                assert int(refused.headers["retry-after"]) > 0
            assert (await mine.get("/api/session")).status == 200
            async with reading(api.with_key(admin.text)):
                pass


@pytest.mark.parametrize("bound", ["streams", "streams_per_address"])
async def test_streams_are_bounded_in_all_and_by_address_and_closed_ones_make_room(
    make_scheduler: Make, bound: str
) -> None:
    scheduler = make_scheduler()
    keys = [await scheduler.api_keys.create(f"k{number}", "admin") for number in range(3)]
    async with serving(scheduler, **{bound: 2}) as api:
        first, second, third = (api.with_key(key.text) for key in keys)
        async with reading(first), reading(second):
            refused = await third.get("/api/events")
            assert (refused.status, f"MAINSPRING_{bound.upper()} " in refused.body["detail"]) == (429, True)

        async def open_again() -> bool:
            async with api.session.get(f"{api.url}/api/events", headers=third.headers) as answer:
                return answer.status == 200

        await eventually(open_again)


async def test_streams_that_are_asked_for_at_once_are_bounded_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("root", "admin")
    async with serving(scheduler, streams_per_key=2) as api:

        async def ask() -> Any:
            return await api.session.get(f"{api.url}/api/events", headers=api.with_key(key.text).headers)

        answers = await asyncio.gather(*(ask() for _ in range(10)))
        assert sorted(answer.status for answer in answers) == [200] * 2 + [429] * 8
        for answer in answers:
            answer.close()


async def test_one_key_cannot_have_too_many_requests_under_way(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    admin = await scheduler.api_keys.create("root", "admin")
    viewer = await scheduler.api_keys.create("tenant", "viewer")
    job = await scheduler.schedule("work", delay=3600)
    entered = entering(scheduler, monkeypatch)
    async with serving(scheduler, requests_at_once=2) as api:
        mine, path = api.with_key(viewer.text), f"/api/jobs/{job.id}/wait?timeout=60s"
        waiting = [asyncio.create_task(mine.get(path)) for _ in range(2)]
        try:
            await eventually(lambda: len(entered) == 2)
            refused = await mine.get("/api/session")
            assert (refused.status, "MAINSPRING_REQUESTS_AT_ONCE" in refused.body["detail"]) == (429, True)
            assert (await api.with_key(admin.text).get("/api/session")).status == 200
            await scheduler.cancel(job.id)
            assert {(await one).status for one in waiting} == {200}
        finally:
            for one in waiting:
                one.cancel()
