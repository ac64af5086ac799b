"""Live events over HTTP: in order, by filter and scope, and resumed without a loss or a double."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from api.conftest import Api, Make, serving
from harness.inside import inside
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import ConfigurationError, Every, Retry, Scheduler, UnsupportedServer
from mainspring.api.endpoints.views import events
from mainspring.api.server import Server
from mainspring.api.settings import service_settings
from mainspring.api.wire.views.events import Digest
from mainspring.engine.services import change_feed
from mainspring.model.access.api_keys import make_scope
from mainspring.model.views.changes import CONTROL, JOB, SCHEDULE, Change, ChangeFilter, job_change
from mainspring.store.views.change_stream import HistoryLost

FAST = Retry(attempts=2, delay=0.01, backoff="fixed", jitter=0)


@dataclass
class Told:
    """One event as a client sees it."""

    type: str
    data: dict[str, Any]
    id: str | None


@dataclass
class Client:
    """Reads one stream of events, as browsers do."""

    answer: aiohttp.ClientResponse
    last_id: str | None = None
    events: list[Told] = field(default_factory=list)
    comments: int = 0
    ended: bool = False

    async def read(self) -> None:
        fields: dict[str, str] = {}
        async for line in self.answer.content:
            text = line.decode().rstrip("\r\n")
            if text.startswith(":"):
                self.comments += 1
            elif text:
                name, _, value = text.partition(": ")
                fields[name] = value
            else:
                self._dispatch(fields)
                fields = {}
        self.ended = True

    def _dispatch(self, fields: dict[str, str]) -> None:
        self.last_id = fields.get("id", self.last_id)
        if "data" in fields:
            self.events.append(Told(fields["event"], json.loads(fields["data"]), fields.get("id")))

    def changes(self, type: str = "job") -> list[tuple[str, str]]:
        return [(one.data.get("name", ""), one.data["change"]) for one in self.events if one.type == type]

    async def until(self, count: int) -> list[Told]:
        await eventually(lambda: len(self.events) >= count)
        return self.events


@contextlib.asynccontextmanager
async def reading(api: Api, query: str = "", after: str | None = None) -> AsyncIterator[Client]:
    headers = {**api.headers, **({} if after is None else {"Last-Event-ID": after})}
    async with api.session.get(f"{api.url}/api/events{query}", headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        client = Client(answer)
        task = asyncio.create_task(client.read())
        try:
            await eventually(lambda: client.last_id)
            yield client
        finally:
            task.cancel()
            await asyncio.wait({task})


def register(scheduler: Scheduler) -> None:
    @scheduler.job("good")
    async def good() -> str:
        return "secret result"

    @scheduler.job("bad", retry=FAST, queue="other")
    async def bad() -> None:
        raise ValueError("secret error")


async def test_the_life_of_a_job_is_told_as_it_happens_and_nothing_that_it_carries(api: Api) -> None:
    register(api.scheduler)
    await api.scheduler.start()
    async with reading(api) as client:
        job = await api.scheduler.schedule("good", {}, tags=["secret-tag"])
        await client.until(3)
        await api.scheduler.schedule("bad")
        await client.until(8)
    assert client.changes() == [
        ("good", "created"),
        ("good", "started"),
        ("good", "completed"),
        ("bad", "created"),
        ("bad", "started"),
        ("bad", "retried"),
        ("bad", "started"),
        ("bad", "failed"),
    ]
    first = client.events[0]
    assert (first.data["id"], first.data["state"], first.data["queue"]) == (job.id, "pending", "default")
    assert client.events[-1].data["state"] == "failed"
    assert "secret" not in str(client.events)
    assert len({one.id for one in client.events}) == 8


async def test_progress_cancelling_and_running_again_are_told(api: Api) -> None:
    async with reading(api) as client:
        job = await api.scheduler.schedule("work", delay=3600)
        await api.scheduler.cancel(job.id)
        await api.scheduler.retry(job.id)
        jobs = api.scheduler.client.get_default_database()["jobs"]
        await jobs.update_one(
            {"name": "work"}, {"$set": {"progress": {"percent": 40.0, "note": "secret"}}}, hint="claim"
        )
        await client.until(4)
    assert [change for _, change in client.changes()] == ["created", "cancelled", "requeued", "progress"]
    assert client.events[-1].data["progress"] == 40.0
    assert "secret" not in str(client.events)


async def test_schedules_and_controls_are_told(api: Api) -> None:
    async with reading(api) as client:
        await api.scheduler.schedule("work", repeat=Every("1h"), schedule_id="hourly", queue="mail")
        await api.scheduler.schedules.pause("hourly")
        await client.until(2)  # the queue is looked up when a change is read, and a deleted schedule has none
        await api.scheduler.schedules.delete("hourly")
        await api.scheduler.queues.pause("mail", key={"customer": "secret"})
        await api.scheduler.queues.resume("mail", key={"customer": "secret"})
        await client.until(5)
    told = [(one.type, one.data["change"], one.data.get("queue")) for one in client.events]
    assert told == [
        ("schedule", "created", "mail"),
        ("schedule", "changed", "mail"),
        ("schedule", "deleted", None),
        ("control", "set", "mail"),
        ("control", "removed", "mail"),
    ]
    assert [one.data["kind"] for one in client.events if one.type == "control"] == ["pause", "pause"]
    assert "secret" not in str(client.events)


@pytest.mark.slow
async def test_a_broken_connection_is_resumed_without_a_loss_or_a_double(api: Api) -> None:
    names: list[str] = []

    async def produce() -> None:
        for number in range(300):
            await api.scheduler.schedule(f"n{number}")
            names.append(f"n{number}")

    async with reading(api) as client:
        pass
    place = client.last_id
    producing = asyncio.create_task(produce())
    got: list[tuple[str, str]] = []
    ids: list[str | None] = []
    while len(got) < 300:
        async with reading(api, after=place) as client:
            await client.until(min(40, 300 - len(got)))
        got += client.changes()
        ids += [one.id for one in client.events]
        place = client.last_id
    await producing
    assert [name for name, _ in got] == names
    assert len(set(ids)) == 300


async def test_whoever_comes_back_before_anything_was_told_misses_nothing(api: Api) -> None:
    async with reading(api) as client:
        pass
    await api.scheduler.schedule("between")
    async with reading(api, after=client.last_id) as again:
        await again.until(1)
        await api.scheduler.schedule("live")
        await again.until(2)
    assert again.changes() == [("between", "created"), ("live", "created")]
    async with reading(api, query=f"?after={client.last_id}") as third:
        await third.until(2)
    assert third.changes() == again.changes()


async def test_filters_leave_out_what_was_not_asked_for(api: Api) -> None:
    async with reading(api, "?name=a&queue=q") as client, reading(api, "?state=cancelled") as ended:
        await api.scheduler.schedule("b", queue="q")
        await api.scheduler.schedule("a", queue="other")
        job = await api.scheduler.schedule("a", queue="q", delay=3600)
        await api.scheduler.cancel(job.id)
        await client.until(2)
        await ended.until(1)
        async with reading(api, f"?id={job.id}") as own:
            await api.scheduler.retry(job.id)
            await own.until(1)
            await api.scheduler.cancel(job.id)
            await own.until(2)
    assert [change for _, change in client.changes()][:2] == ["created", "cancelled"]
    assert all(one.data["name"] == "a" and one.data["queue"] == "q" for one in client.events)
    assert all(one.data["state"] == "cancelled" for one in ended.events)
    assert [one.data["change"] for one in own.events] == ["requeued", "cancelled"]


async def test_a_key_with_a_scope_is_told_of_its_own_only_live_and_resumed(api: Api) -> None:
    key = await api.scheduler.api_keys.create("tenant", "viewer", queues=["mine"], prefixes=["t."])
    mine = api.with_key(key.text)
    async with reading(mine) as client:
        begun = client.last_id
        for queue, name in (("other", "t.a"), ("mine", "x"), ("mine", "t.b")):
            await api.scheduler.schedule(name, queue=queue)
        await api.scheduler.schedule("x", repeat=Every("1h"), schedule_id="foreign")
        await api.scheduler.schedules.delete("foreign")
        await api.scheduler.queues.pause("other")
        await api.scheduler.queues.pause("mine")
        await client.until(2)
    async with reading(mine, after=begun) as again:
        await again.until(2)
        await api.scheduler.schedule("t.c", queue="mine")
        await again.until(3)
    for told in (client.events, again.events[:2]):
        assert [(one.type, one.data.get("name"), one.data["queue"]) for one in told] == [
            ("job", "t.b", "mine"),
            ("control", None, "mine"),
        ]
    assert again.events[2].data["name"] == "t.c"


@pytest.mark.parametrize("place", ["nonsense", "82", "0" * 40, "F" * 40, "A" * 41, "F" * 3000])
async def test_a_place_that_is_none_is_refused(api: Api, place: str) -> None:
    assert (await api.get("/api/events", headers={"Last-Event-ID": place})).status == 422


async def test_an_unknown_state_is_refused(api: Api) -> None:
    assert (await api.get("/api/events?state=sleeping")).status == 422


async def test_a_place_that_is_too_old_is_a_gap_and_the_stream_goes_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(api) as client:
        pass
    store = await inside(api.scheduler).store()
    plain = store.change_stream.open

    def forgetful(after: str | None, patience: float) -> Any:
        if after is not None:
            raise HistoryLost
        return plain(after, patience)

    monkeypatch.setattr(store.change_stream, "open", forgetful)
    async with reading(api, after=client.last_id) as again:
        await again.until(1)
        await api.scheduler.schedule("after")
        await again.until(2)
    assert (again.events[0].type, again.events[0].data["reason"]) == ("gap", "history")
    assert again.events[0].id is not None
    assert again.changes() == [("after", "created")]


async def test_a_slow_reader_is_let_go_with_a_gap_and_can_come_back(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MOST_KEPT", 5)
    changes = scheduler.monitor.follow(beat=60)
    place = (await anext(changes)).id
    await scheduler.schedule_bulk({"name": f"n{number}"} for number in range(20))
    hub = inside(scheduler).feed
    await eventually(lambda: all(reader.slow for reader in hub.readers))
    assert all(len(reader.waiting) <= 5 for reader in hub.readers)
    rest = [change async for change in changes]
    assert [(change.type, change.change, change.id) for change in rest] == [("gap", "slow", None)]
    assert not hub.readers
    monkeypatch.undo()
    again = scheduler.monitor.follow(after=place)
    assert [(await anext(again)).name for _ in range(20)] == [f"n{number}" for number in range(20)]
    await again.aclose()  # type: ignore[attr-defined]


async def test_silence_is_told_by_comments_that_move_the_place_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_EVERY", 0.05)
    async with reading(api, "?name=nobody") as client:
        first = client.last_id
        await api.scheduler.schedule("work")
        await eventually(lambda: client.last_id != first)
        assert client.comments >= 2
    assert client.events == []


async def test_all_live_readers_share_one_stream(scheduler: Scheduler) -> None:
    readers = [scheduler.monitor.follow(beat=60) for _ in range(5)]
    for reader in readers:
        await anext(reader)
    hub = inside(scheduler).feed
    task = hub._task
    assert len(hub.readers) == 5
    await scheduler.schedule("work")
    assert {(await anext(reader)).name for reader in readers} == {"work"}
    assert hub._task is task
    for reader in readers:
        await reader.aclose()  # type: ignore[attr-defined]
    await eventually(lambda: task is not None and task.done())


async def test_on_a_standalone_server_events_are_refused_with_a_clear_sentence(
    make_scheduler: Make, standalone: Servers
) -> None:
    async with serving(make_scheduler(standalone.uri("events"))) as api:
        reply = await api.get("/api/events")
        assert (reply.status, reply.body["success"]) == (501, False)
        assert "replica set" in reply.body["detail"]
    with pytest.raises(UnsupportedServer, match="replica set"):
        await anext(make_scheduler(standalone.uri("events")).monitor.follow())


async def test_the_streams_end_when_the_scheduler_or_the_server_stops(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    server = Server(scheduler, service_settings(port=0), keyless=True)
    await server.start()
    async with aiohttp.ClientSession() as session:
        api = Api(server.url, session, scheduler)
        async with reading(api) as client:
            await inside(scheduler).feed.close()
            await eventually(lambda: client.ended)
        async with reading(api) as client:
            await server.stop()
            await eventually(lambda: client.ended)


# -- what is told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "fields", "outcome", "gone", "what"),
    [
        ("running", {"state"}, None, (), "started"),
        ("completed", {"state"}, "tried", (), "completed"),
        ("pending", {"state", "attempts"}, "tried", (), "retried"),
        ("pending", {"state", "tries"}, None, (), "released"),
        ("pending", {"state", "tries"}, None, ("finished_at",), "requeued"),
        ("pending", {"state", "v"}, None, (), "created"),
        ("expired", {"state"}, None, (), "expired"),
        ("blocked", {"state"}, None, (), "suspended"),
        (None, {"progress"}, None, (), "progress"),
        (None, {"rev"}, None, (), None),
    ],
)
def test_an_update_is_told_for_what_it_is(
    state: str | None, fields: set[str], outcome: str | None, gone: tuple[str, ...], what: str | None
) -> None:
    assert job_change(state, frozenset(fields), outcome, frozenset(gone)) == what


@pytest.mark.parametrize(
    ("type", "name", "queue", "seen"),
    [
        (JOB, "t.a", "mine", True),
        (JOB, "t.a", "other", False),
        (JOB, "x", "mine", False),
        (JOB, None, None, False),
        (SCHEDULE, None, None, False),
        (CONTROL, None, None, False),
        (CONTROL, None, "mine", True),
        (CONTROL, "t.a", None, False),
    ],
)
def test_a_scope_sees_what_it_reaches(type: str, name: str | None, queue: str | None, seen: bool) -> None:
    change = Change(type, "1", None, "created", "k", name, queue)  # type: ignore[arg-type]
    assert ChangeFilter(scope=make_scope(["mine"], ["t."])).wants(change) is seen
    assert ChangeFilter().wants(change)


@pytest.mark.parametrize(("name", "queue", "seen"), [(None, "mine", False), ("t.a", None, True), ("x", None, False)])
def test_a_scope_of_names_sees_no_controls_of_queues(name: str | None, queue: str | None, seen: bool) -> None:
    change = Change(CONTROL, "1", None, "set", "pause", name, queue)  # type: ignore[arg-type]
    assert ChangeFilter(scope=make_scope(None, ["t."])).wants(change) is seen


async def test_a_wrong_place_is_refused_by_the_library_too(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="not a place in the stream"):
        await anext(scheduler.monitor.follow(after="here"))


async def test_a_digest_stands_for_the_changes_of_its_time(api: Api) -> None:
    async with reading(api, "?digest=2s") as client:
        await api.scheduler.schedule_bulk([{"name": "send", "data": {"n": n}, "queue": "mail"} for n in range(250)])
        await api.scheduler.queues.pause("mail", reason="maintenance")
        digests = client.events
        await eventually(lambda: sum(one.data["created"] for one in digests) == 250)
        await eventually(lambda: any(one.data["controls"] for one in digests))
    assert {one.type for one in digests} == {"digest"} and len(digests) < 20
    assert all(one.data["names"] in (["send"], []) and one.data["queues"] in (["mail"], []) for one in digests)


@pytest.mark.slow
async def test_a_burst_of_thousands_of_changes_is_digested_without_a_gap(api: Api) -> None:
    async with reading(api, "?digest=1s") as client:
        await api.scheduler.schedule_bulk([{"name": "send", "data": {"n": n}, "delay": 3600} for n in range(6_000)])
        digests = client.events
        await eventually(lambda: sum(one.data.get("created", 0) for one in digests) == 6_000, timeout=60)
    assert {one.type for one in digests} == {"digest"} and len(digests) < 60


async def test_a_stream_of_digests_is_resumed_behind_the_last_one(api: Api) -> None:
    async with reading(api, "?digest=1s") as client:
        await api.scheduler.schedule("one")
        await client.until(1)
        place = client.last_id
    await api.scheduler.schedule("two")
    async with reading(api, "?digest=1s", after=place) as client:
        assert [one.data["names"] for one in await client.until(1)] == [["two"]]


def test_a_digest_lists_few_and_says_null_for_many() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    digest = Digest(now)
    for number in range(101):
        digest.add(Change(JOB, "AB", now, "created", str(number), "send", "mail"))
    out = digest.out()
    assert (out.jobs, out.ids, out.names, out.schedules) == (101, None, ["send"], [])


@pytest.mark.parametrize("digest", ["0s", "2h", "5", "soon"])
async def test_a_digest_of_an_unfit_time_is_refused(api: Api, digest: str) -> None:
    reply = await api.get(f"/api/events?digest={digest}")
    assert reply.status == 422 and "digest" in reply.text
