"""Searching jobs: what matches, in which order, page by page, at a bounded cost; no caller finds jobs out of reach."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import bson
import pytest

from api.conftest import Api, serving
from harness.api_keys import keyed
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Cron, Fail, Scheduler
from mainspring.model.views.search import make_search
from mainspring.store.views import search

Make = Callable[..., Scheduler]
SEARCH = "/api/jobs/search"


def ids(reply: Any) -> list[str]:
    return [job["id"] for job in reply.data]


async def pages(api: Api, **query: Any) -> list[list[str]]:
    """All pages of a search, following `next`."""
    found: list[list[str]] = []
    params = {key: str(value) for key, value in query.items()}
    while True:
        reply = await api.get(SEARCH, params=params)
        found.append(ids(reply))
        assert reply.body["complete"] is (len(found[-1]) == int(params.get("limit", 50)) or reply.body["next"] is None)
        if reply.body["next"] is None:
            return found
        params["cursor"] = reply.body["next"]
        assert len(found) < 100


def joined(found: list[list[str]]) -> list[str]:
    return [one for page in found for one in page]


async def settle(scheduler: Scheduler, jobs: list[Any]) -> None:
    for job in jobs:
        await scheduler.wait(job.id, 60)


async def test_jobs_are_found_newest_first_page_by_page_each_once(api: Api) -> None:
    jobs = [await api.scheduler.schedule("x", {"n": n}, delay=60) for n in range(7)]
    found = await pages(api, limit=3)
    assert [len(page) for page in found] == [3, 3, 1]
    assert joined(found) == [job.id for job in reversed(jobs)]


async def test_all_filters_have_to_fit(api: Api) -> None:
    wanted = await api.scheduler.schedule(
        "x", {"user": {"id": 7}, "plan": "pro"}, queue="a", tags=["red"], parent_id="p", delay=60
    )
    for options in ({"queue": "b", "tags": ["red"], "parent_id": "p"}, {"queue": "a"}, {"queue": "a", "tags": ["red"]}):
        await api.scheduler.schedule("x", {"user": {"id": 7}, "plan": "pro"}, delay=60, **options)
    await api.scheduler.schedule("x", {"user": {"id": 8}}, queue="a", tags=["red"], parent_id="p", delay=60)
    query = {"name": "x", "queue": "a", "tag": "red", "parentId": "p", "data.user.id": "7", "key": "plan:pro"}
    for state in ({}, {"state": "pending"}):
        assert ids(await api.get(SEARCH, params=query | state)) == [wanted.id]


async def test_a_value_is_compared_as_text_and_as_the_number_or_truth_that_it_is(api: Api) -> None:
    for value in (5, "5", 5.5, True, "true", None, {"$gt": 0}, '"5"'):
        await api.scheduler.schedule("x", {"v": value}, delay=60)

    async def found(text: str) -> list[Any]:
        return [job["data"]["v"] for job in (await api.get(SEARCH, params={"data.v": text})).data]

    assert await found("5") == ["5", 5]
    assert await found("5.5") == [5.5]
    assert await found("true") == ["true", True]
    assert await found('"5"') == ['"5"', "5"]
    assert await found("null") == []
    assert await found('"\\ud800"') == []
    assert await found("9" * 40) == []
    assert await found('{"$gt": 0}') == []


@pytest.mark.parametrize(
    "query",
    [
        "state[$ne]=x",
        "name[$gt]=",
        "$where=sleep(5000)",
        "data.v[$ne]=1",
        "data.$where=1",
        "data.a.$gt=0",
        "data.=1",
        "data.a..b=1",
        "key=%24where:1",
        "key=plain",
        "state=any",
        "limit=0",
        "limit=201",
        "since=yesterday",
        "since=2026-01-01T00:00:00",
        "since=0001-01-01T00:00:00%2B14:00",
        "until=9999-12-31T23:59:59-12:00",
        "unknown=1",
        "cursor=nonsense",
    ],
)
async def test_what_no_search_can_mean_is_refused(api: Api, query: str) -> None:
    await api.scheduler.schedule("x", {"v": 1}, delay=60)
    reply = await api.get(f"{SEARCH}?{query}")
    assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("value", ['{"$ne": null}', '{"$gt": ""}', '{"$where": "sleep(5000)"}', '{"$exists": true}'])
@pytest.mark.parametrize("field", ["name", "queue", "tag", "scheduleId", "parentId", "data.v", "data.a.b"])
async def test_an_operator_is_a_text_like_any_other(api: Api, field: str, value: str) -> None:
    await api.scheduler.schedule("x", {"v": 1, "a": {"b": "c"}}, tags=["t"], parent_id="p", delay=60)
    assert ids(await api.get(SEARCH, params={field: value})) == []


async def test_a_cursor_is_for_the_search_that_it_came_from(api: Api) -> None:
    for _ in range(2):
        await api.scheduler.schedule("x", delay=60)
    cursor = (await api.get(SEARCH, params={"limit": "1"})).body["next"]
    assert (await api.get(SEARCH, params={"name": "x", "cursor": cursor})).status == 422


@pytest.mark.slow
async def test_finished_jobs_come_latest_first_even_if_many_ended_at_once(make_scheduler: Make, api: Api) -> None:
    scheduler = api.scheduler
    scheduler.job("x")(lambda: None)
    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "x"} for _ in range(40)])
    await settle(scheduler, jobs)
    ended = {job.id: job for job in [await scheduler.get_job(job.id) for job in jobs]}
    assert len({job.finished_at for job in ended.values()}) < 40
    for limit in (1, 7, 40):
        found = joined(await pages(api, state="completed", limit=limit))
        assert sorted(found) == sorted(ended)
        order = [(ended[one].finished_at, one) for one in found]
        assert order == sorted(order, reverse=True)


async def test_pending_jobs_come_in_the_order_in_which_they_run(api: Api) -> None:
    scheduler = api.scheduler
    late = await scheduler.schedule("x", priority=9)
    urgent = await scheduler.schedule("x", priority=1, delay=60)
    other = await scheduler.schedule("x", queue="a")
    found = await pages(api, state="pending", limit=2)
    assert found == [[other.id, urgent.id], [late.id]]
    assert joined(await pages(api, state="pending", queue="default", limit=1)) == [urgent.id, late.id]


@pytest.mark.slow
async def test_jobs_in_lines_and_jobs_without_a_handler_are_found_as_pending(api: Api) -> None:
    scheduler = api.scheduler
    going = asyncio.Event()

    @scheduler.job("slow", concurrency=1)
    async def slow() -> None:
        await going.wait()

    await scheduler.start()
    first = await scheduler.schedule("slow")
    await eventually(lambda: _is(scheduler, first.id, "running"))
    lined = [(await scheduler.schedule("slow")).id for _ in range(5)]
    unknown = [(await scheduler.schedule("nobody")).id for _ in range(5)]
    for one in [*lined, *unknown]:
        await eventually(partial(_is_held, scheduler, one))
    for limit in (2, 50):
        found = joined(await pages(api, state="pending", limit=limit))
        assert sorted(found) == sorted(lined + unknown)
    assert ids(await api.get(SEARCH, params={"state": "running"})) == [first.id]
    assert joined(await pages(api, state="pending", name="nobody", limit=2)) == sorted(unknown, reverse=True)
    going.set()
    await scheduler.wait(lined[-1], 60)


async def _is(scheduler: Scheduler, job_id: str, state: str) -> bool:
    return (await scheduler.get_job(job_id)).state == state


async def _is_held(scheduler: Scheduler, job_id: str) -> bool:
    return (await scheduler.get_job(job_id)).waiting_for is not None


async def test_the_jobs_of_a_schedule_are_found_with_those_made_by_hand(api: Api) -> None:
    scheduler = api.scheduler
    await scheduler.schedule("x", repeat=Cron("0 0 1 1 *"), schedule_id="yearly")
    made = [(await scheduler.schedules.trigger("yearly")).id for _ in range(5)]
    await scheduler.schedule("x", delay=60)
    assert sorted(joined(await pages(api, scheduleId="yearly", limit=2))) == sorted(made)
    assert sorted(joined(await pages(api, scheduleId="yearly", state="pending", limit=2))) == sorted(made)
    assert await pages(api, scheduleId="yearly", state="failed") == [[]]


@pytest.mark.parametrize("since", ["2106-02-07T06:28:16Z", "2158-11-01T01:45:00Z", "8999-12-31T00:00:00Z"])
async def test_a_time_beyond_what_ids_can_tell_finds_nothing(api: Api, since: str) -> None:
    await api.scheduler.schedule("x")
    assert (await api.get(SEARCH, params={"since": since})).data == []


async def test_since_and_until_are_about_when_a_job_was_made(api: Api) -> None:
    before = await api.scheduler.schedule("x", delay=60)
    await asyncio.sleep(0.01)
    cut = datetime.now(UTC).isoformat()
    await asyncio.sleep(0.01)
    after = await api.scheduler.schedule("x", delay=60)
    for state in ({}, {"state": "pending"}):
        assert ids(await api.get(SEARCH, params={"since": cut, **state})) == [after.id]
        assert ids(await api.get(SEARCH, params={"until": cut, **state})) == [before.id]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert ids(await api.get(SEARCH, params={"since": tomorrow})) == []


@pytest.mark.parametrize("state", [None, "pending", "completed"])
async def test_a_rare_match_costs_a_bounded_page_and_is_found_in_the_end(
    api: Api, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    monkeypatch.setattr(search, "SCANNED", 10)
    scheduler = api.scheduler
    scheduler.job("x")(lambda **data: None)
    names = [{"name": "x", "data": {"n": n}, "delay": 0 if state == "completed" else 60} for n in range(45)]
    jobs = await scheduler.schedule_bulk(names)
    if state == "completed":
        await scheduler.start()
        await settle(scheduler, jobs)
    query: dict[str, Any] = {"data.n": 3} | ({} if state is None else {"state": state})
    found = await pages(api, **query)
    assert joined(found) == [jobs[3].id]
    if state != "completed":
        assert len(found) > 3


@pytest.mark.fresh_database
async def test_every_walk_of_a_search_is_along_its_index(api: Api) -> None:
    """The servers of the tests refuse to scan a collection; a page looks at no more than what it is allowed to."""
    scheduler = api.scheduler
    await scheduler.schedule_bulk([{"name": "x", "data": {"n": n}, "delay": 60} for n in range(300)])
    store = await inside(scheduler).store()
    database = store.connection.db
    await database.command("profile", 2)
    first = await api.get(SEARCH, params={"state": "pending", "queue": "default", "limit": "10"})
    await database.command("profile", 0)
    assert len(first.data) == 10
    asked = await database["system.profile"].find({"op": "query", "command.hint": "claim"}).to_list()
    assert asked and max(one["keysExamined"] for one in asked) <= 12


async def test_a_redacted_value_cannot_be_guessed_by_searching(make_scheduler: Make, api: Api) -> None:
    api.scheduler.job("own", redact=["pin"])(lambda **data: None)
    await api.scheduler.schedule("x", {"password": "hunter2"}, delay=60)
    await api.scheduler.schedule("own", {"pin": 1234}, delay=60)
    seen = await api.scheduler.schedule("x", {"pin": 1234}, delay=60)
    assert (await api.get(SEARCH, params={"data.password": "hunter2"})).status == 422
    assert (await api.get(SEARCH, params={"data.pin": "1234", "name": "own"})).status == 422
    assert ids(await api.get(SEARCH, params={"data.pin": "1234"})) == [seen.id]


@pytest.mark.parametrize("redact", [None, []])
@pytest.mark.parametrize(
    ("path", "right", "wrong"),
    [
        ("request.headers.X-Api-Key", "right", "wrong"),
        ("request.headers.Cookie", "right", "wrong"),
        ("request.headers.Ocp-Apim-Subscription-Key", "right", "wrong"),
        ("request.query.sig", "right", "wrong"),
        ("request.url", "https://a.example/?token=right", "https://a.example/?token=wrong"),
    ],
)
async def test_a_credential_of_a_webhook_cannot_be_guessed_by_searching(
    make_scheduler: Make, redact: list[str] | None, path: str, right: str, wrong: str
) -> None:
    async with serving(make_scheduler(redact=redact)) as api:
        headers = dict.fromkeys(("X-Api-Key", "Cookie", "Ocp-Apim-Subscription-Key"), "right")
        request = {"url": "https://a.example/?token=right", "headers": headers, "query": {"sig": "right"}}
        for _ in range(3):
            await api.scheduler.schedule("mainspring:http", {"request": request}, delay=60)
        for limit in ("1", "2", "50"):
            for name in ({}, {"name": "mainspring:http"}):
                told = [await api.get(SEARCH, params={f"data.{path}": value, "limit": limit, **name})
                        for value in (right, wrong)]  # fmt: skip
                assert told[0].text == told[1].text, "neither what is found nor where the page ends tells"
        assert "right" not in (await api.get(SEARCH)).text


async def test_where_a_page_ends_does_not_tell_a_redacted_value(api: Api) -> None:
    api.scheduler.job("own", redact=["pin"])(lambda **data: None)
    for _ in range(3):
        await api.scheduler.schedule("own", {"pin": 1234}, delay=60)
    told = [await api.get(SEARCH, params={"data.pin": pin, "limit": "1"}) for pin in ("1234", "9999")]
    assert told[0].text == told[1].text


async def test_what_is_found_is_shown_without_secrets(api: Api) -> None:
    await api.scheduler.schedule("x", {"password": "hunter2", "ok": 1}, delay=60)
    request = {"url": "https://a.example", "headers": {"X-Api-Key": "k-1", "Accept": "*/*"}}
    await api.scheduler.schedule("mainspring:http", {"request": request}, delay=60)
    reply = await api.get(SEARCH)
    assert reply.data[1]["data"] == {"password": "[redacted]", "ok": 1}
    assert reply.data[0]["data"]["request"]["headers"] == {"X-Api-Key": "[redacted]", "Accept": "*/*"}


async def test_a_key_with_a_scope_finds_its_own_jobs_only(api: Api) -> None:
    own = await api.scheduler.schedule("acme.x", queue="a", delay=60)
    for name, queue in (("acme.x", "b"), ("other.x", "a"), ("acmf", "a")):
        await api.scheduler.schedule(name, queue=queue, delay=60)
    tenant = await keyed(api, "viewer", queues=["a"], prefixes=["acme."])
    for query in ({}, {"state": "pending"}, {"queue": "a"}, {"queue": "b"}, {"name": "other.x"}):
        expected = [own.id] if query in ({}, {"state": "pending"}, {"queue": "a"}) else []
        assert ids(await tenant.get(SEARCH, params=query)) == expected


async def test_a_search_in_python_finds_the_same(api: Api) -> None:
    job = await api.scheduler.schedule("x", {"n": 1}, delay=60)
    page = await api.scheduler.search(data={"n": 1}, limit=5)
    assert ([one.id for one in page.jobs], page.next, page.complete) == ([job.id], None, True)


async def test_failed_jobs_are_found_by_their_state(api: Api) -> None:
    @api.scheduler.job("bad")
    def bad() -> None:
        raise Fail("no")

    await api.scheduler.start()
    jobs = await api.scheduler.schedule_bulk([{"name": "bad"} for _ in range(5)])
    await settle(api.scheduler, jobs)
    found = joined(await pages(api, state="failed", name="bad", limit=2))
    assert sorted(found) == sorted(job.id for job in jobs)


@pytest.mark.parametrize("place", [[{"$ne": None}], [bson.Code("1")], [bson.Regex(".*")], ["a", "b", "c"], [[1]]])
@pytest.mark.parametrize("walk", [0, 1, -1, "x"])
async def test_a_cursor_that_was_made_up_is_refused(api: Api, place: list[Any], walk: Any) -> None:
    for state in (None, "pending", "completed", "running"):
        print = search.search_fingerprint(make_search({"state": state}))
        raw = bson.encode({"s": print, "w": walk, "p": place})
        query = {"cursor": urlsafe_b64encode(raw).decode()} | ({} if state is None else {"state": state})
        assert (await api.get(SEARCH, params=query)).status == 422


@pytest.mark.parametrize("name", [None, "x"])
async def test_jobs_that_ended_in_the_same_moment_are_each_found_once_however_they_are_stored(
    api: Api, name: str | None
) -> None:
    store = await inside(api.scheduler).store()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    stored = [f"j{n * 7 % 20:02}" for n in range(20)]
    made = {"v": 1, "name": "x", "queue": "a", "state": "completed", "finished_at": at, "created_at": at, "run_at": at}
    await store.connection.jobs.insert_many([{"_id": one, **made} for one in stored])
    query = {"state": "completed", "limit": 3} | ({} if name is None else {"name": name})
    assert joined(await pages(api, **query)) == sorted(stored, reverse=True)
