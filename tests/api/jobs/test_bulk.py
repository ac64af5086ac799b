"""Creating many jobs with one request: read, stored and answered line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from api.conftest import Api, serving
from harness.api_keys import actions, keyed
from mainspring import Scheduler, Unavailable
from mainspring.api.jobs.body_splitter import TOO_LONG, BrokenArray, Entries, Lines
from mainspring.client.service_backend import ServiceBackend

BULK = "/api/jobs/bulk"
NDJSON = {"Content-Type": "application/x-ndjson"}


def ndjson(*items: Any) -> bytes:
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)


async def send(api: Api, body: Any, **headers: str) -> list[dict[str, Any]]:
    sent = {**api.headers, **NDJSON, **headers}
    async with api.session.post(api.url + BULK, data=body, headers=sent) as answer:
        assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
        return [json.loads(line) async for line in answer.content]


async def stored(scheduler: Scheduler, answers: list[dict[str, Any]]) -> list[Any]:
    return [(await scheduler.get_job(one["jobId"])).data.get("n") for one in answers if "jobId" in one]


async def test_each_line_makes_a_job_and_is_answered_by_its_number(api: Api) -> None:
    answers = await send(api, ndjson(*({"name": "x", "data": {"n": n}} for n in range(1200))))
    assert [one["line"] for one in answers] == list(range(1, 1201))
    assert await stored(api.scheduler, answers[:3] + answers[-3:]) == [0, 1, 2, 1197, 1198, 1199]
    assert await actions(api) == [("job.bulk", "bulk")]


async def test_a_json_array_does_the_same(api: Api) -> None:
    body = json.dumps([{"name": "x", "data": {"n": 1, "s": '],{["\\"'}}, {"name": "x", "data": {"n": 2}}], indent=2)
    answers = await send(api, body, **{"Content-Type": "application/json"})
    assert [one["line"] for one in answers] == [1, 2]
    assert await stored(api.scheduler, answers) == [1, 2]


async def test_what_is_refused_is_told_line_by_line_and_the_rest_is_stored(api: Api) -> None:
    answers = await send(
        api,
        ndjson(
            {"name": "x", "data": {"n": 1}},
            b"{broken",
            {"name": "x", "colour": "red"},
            {"data": {}},
            {"name": "x", "schedule": "* * * * *"},
            {"name": "x", "priority": 11},
            b"",
            [1],
            b'{"name": "x", "data": {"n": NaN}}',
            {"endpoint": "http://127.0.0.1/"},
            {"name": "mainspring:http", "data": {}},
            {"name": "x", "data": {"n": 2}},
        ),
    )
    told = {one["line"]: one["error"]["status"] for one in answers if "error" in one}
    assert told == {2: 400, 3: 422, 4: 422, 5: 422, 6: 422, 8: 422, 9: 400, 10: 422, 11: 422}
    fields = {one["line"]: one["error"].get("field") for one in answers if "error" in one}
    assert (fields[3], fields[4], fields[6], fields[10]) == ("colour", "name", "priority", "endpoint")
    assert await stored(api.scheduler, answers) == [1, 2]
    (row,) = await api.scheduler.audit.find()
    told = row.value_after()
    assert (told["stored"]["count"], told["refused"]) == (2, 9)


async def test_the_row_of_a_bulk_tells_its_first_jobs_and_a_digest_of_all(api: Api) -> None:
    admin = await keyed(api)
    webhook = {"endpoint": "https://example.com/hook?token=canary"}
    mail = {"type": "email", "data": {"to": "ann@example.com", "subject": "x", "text": "y"}}
    items = [webhook, mail, *({"name": f"n{n}", "data": {}} for n in range(118))]
    ids = [one["jobId"] for one in await send(admin, ndjson(*items))]
    [row] = await api.scheduler.audit.find()
    stored = row.value_after()["stored"]
    assert (row.actor, row.action) == (f"key:{admin.headers['Authorization'].split('_')[1]}", "job.bulk")
    expected = [
        [ids[0], "mainspring:http", "https://example.com:443"],
        [ids[1], "mainspring:email", "ann@example.com"],
        *([one, f"n{n}", None] for n, one in enumerate(ids[2:])),
    ]
    assert (stored["count"], stored["first"]) == (120, expected[:100])
    lines = "".join(f"{json.dumps(one, separators=(',', ':'))}\n" for one in expected)
    assert stored["digest"] == sha256(lines.encode()).hexdigest()
    assert "canary" not in str(row)


async def test_the_row_of_a_bulk_with_long_names_tells_as_many_as_fit(api: Api) -> None:
    name = "\u5b57" * 200
    await send(api, ndjson(*({"name": name, "data": {}} for _ in range(60))))
    [row] = await api.scheduler.audit.find()
    stored = row.value_after()["stored"]
    assert stored["count"] == 60 and 5 < len(stored["first"]) < 20
    assert stored["first"][0][1] == name


async def test_the_row_of_a_bulk_leaves_out_jobs_that_were_there_already(api: Api) -> None:
    item = {"name": "x", "data": {}, "dedupeKey": "k"}
    first = await api.post("/api/jobs", item)
    await send(api, ndjson(item, {"name": "y", "data": {}}))
    [bulk, _] = await api.scheduler.audit.find()
    assert [one[1] for one in bulk.value_after()["stored"]["first"]] == ["y"]
    assert first.data["jobId"] not in str(bulk)
    await send(api, ndjson(item))
    assert len(await api.scheduler.audit.find()) == 2


async def test_an_item_is_answered_while_the_next_one_is_not_yet_sent(api: Api) -> None:
    answered: asyncio.Queue[bytes] = asyncio.Queue()
    seen: list[dict[str, Any]] = []

    async def body() -> AsyncIterator[bytes]:
        for n in range(3):
            yield ndjson({"name": "x", "data": {"n": n}})
            seen.append(json.loads(await answered.get()))

    async with api.session.post(api.url + BULK, data=body(), headers=NDJSON) as answer:
        async for line in answer.content:
            await answered.put(line)
    assert [one["line"] for one in seen] == [1, 2, 3]


async def test_a_client_that_leaves_half_way_keeps_what_it_was_told_of(api: Api) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield ndjson({"name": "x", "data": {"n": 1}})
        await asyncio.sleep(60)

    async with api.session.post(api.url + BULK, data=body(), headers=NDJSON) as answer:
        told = json.loads(await answer.content.readline())
        answer.close()
    assert (await api.scheduler.get_job(told["jobId"])).data == {"n": 1}
    for _ in range(200):
        if await actions(api):
            break
        await asyncio.sleep(0.05)
    assert await actions(api) == [("job.bulk", "bulk")]


async def test_an_item_that_is_too_long_is_passed_over(scheduler: Scheduler) -> None:
    async with serving(scheduler, max_body=2048) as api:
        long = {"name": "x", "data": {"text": "a" * 5000}}
        answers = await send(api, ndjson({"name": "x"}, long, {"name": "x"}))
    assert ["jobId" in one for one in answers] == [True, False, True]
    assert answers[1]["error"]["status"] == 413


K1 = {"Idempotency-Key": "k1"}


async def made(scheduler: Scheduler) -> list[Any]:
    return sorted([job.data.get("n", 0) async for job in scheduler.jobs()])


def results(answers: list[dict[str, Any]]) -> list[Any]:
    """What each line was answered: true for one that was there already, or the status of an error."""
    return [one["error"]["status"] if "error" in one else one.get("deduplicated", False) for one in answers]


async def test_the_same_bulk_with_the_same_key_makes_nothing_twice(api: Api) -> None:
    body = ndjson({"name": "x"}, {"name": "x", "dedupeKey": "own"})
    first = await send(api, body, **K1)
    again = await send(api, body, **K1)
    assert [one["jobId"] for one in again] == [one["jobId"] for one in first]
    assert [one.get("deduplicated") for one in again] == [True, True]
    other = await send(api, body, **{"Idempotency-Key": "k2"})
    assert other[0]["jobId"] != first[0]["jobId"]
    assert await actions(api) == [("job.bulk", "bulk")] * 2


async def test_jobs_of_a_bulk_that_have_ended_and_are_gone_are_not_made_again(api: Api) -> None:
    body = ndjson({"name": "x"}, {"name": "x", "dedupeKey": "own"})
    first = await send(api, body, **K1)
    await api.scheduler.cancel(first[1]["jobId"])
    await api.scheduler.delete(first[0]["jobId"])
    again = await send(api, body, **K1)
    assert [one["jobId"] for one in again] == [one["jobId"] for one in first]
    assert [job.id async for job in api.scheduler.jobs()] == [first[1]["jobId"]]


async def test_another_item_at_the_same_line_is_refused_and_the_others_stay(api: Api) -> None:
    items = [{"name": "x", "data": {"n": n, "m": 0}} for n in range(3)]
    first = await send(api, ndjson(*items), **K1)
    reordered = {"data": {"m": 0, "n": 2}, "name": "x"}
    again = await send(api, ndjson(items[0], {"name": "x", "data": {"n": 9}}, reordered), **K1)
    assert results(again) == [True, 422, True]
    assert (
        again[1]["error"]["field"] == "Idempotency-Key" and "another item at this line" in again[1]["error"]["detail"]
    )
    assert [again[0]["jobId"], again[2]["jobId"]] == [first[0]["jobId"], first[2]["jobId"]]
    assert await made(api.scheduler) == [0, 1, 2]
    assert await actions(api) == [("job.bulk", "bulk")]


async def test_more_lines_than_came_before_are_refused(api: Api) -> None:
    items = [{"name": "x", "data": {"n": n}} for n in range(3)]
    await send(api, ndjson(*items[:2]), **K1)
    assert results(await send(api, ndjson(*items), **K1)) == [True, True, 422]
    assert await made(api.scheduler) == [0, 1]


async def test_a_bulk_that_was_cut_off_is_completed_when_it_comes_again(api: Api) -> None:
    items = [{"name": "x", "data": {"n": n}} for n in range(3)]

    async def body() -> AsyncIterator[bytes]:
        yield ndjson(items[0])
        await asyncio.sleep(60)

    async with api.session.post(api.url + BULK, data=body(), headers=NDJSON | K1) as answer:
        first = json.loads(await answer.content.readline())
        answer.close()
    again = await send(api, ndjson(*items), **K1)
    assert (results(again), again[0]["jobId"]) == ([True, False, False], first["jobId"])
    assert await made(api.scheduler) == [0, 1, 2]


async def test_a_line_that_was_refused_can_be_put_right_under_the_same_key(api: Api) -> None:
    first = {"name": "x", "data": {"n": 1}}
    assert results(await send(api, ndjson(first, {"nome": "x"}), **K1)) == [False, 422]
    assert results(await send(api, ndjson(first, {"name": "x", "data": {"n": 2}}), **K1)) == [True, False]
    assert await made(api.scheduler) == [1, 2]


async def test_nothing_of_a_bulk_is_made_twice_after_a_death_before_it_was_written_down(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise Unavailable("the process dies here")

    items = [{"name": "x", "data": {"n": 1}}, {"name": "x", "data": {"n": 2}, "dedupeKey": "own"}]
    with monkeypatch.context() as patch:
        patch.setattr(ServiceBackend, "keep_replies", broken)
        assert results(await send(api, ndjson(*items), **K1)) == [503, 503]
    stored = [job.id async for job in api.scheduler.jobs()]
    await api.scheduler.cancel(stored[0])
    await api.scheduler.cancel(stored[1])
    assert results(await send(api, ndjson({"name": "x", "data": {"n": 9}}, items[1]), **K1)) == [422, True]
    again = await send(api, ndjson(*items), **K1)
    assert results(again) == [True, True] and {one["jobId"] for one in again} == set(stored)
    assert await made(api.scheduler) == [1, 2]


@pytest.mark.slow
async def test_bulks_at_once_with_the_same_key_make_each_job_once(api: Api) -> None:
    body = ndjson(*({"name": "x", "data": {"n": n}} for n in range(700)))
    answers = await asyncio.gather(*(send(api, body, **K1) for _ in range(3)))
    assert len({tuple(one["jobId"] for one in lines) for lines in answers}) == 1
    assert len(await made(api.scheduler)) == 700


async def test_a_key_of_another_request_is_none_for_a_bulk(api: Api) -> None:
    await api.post("/api/jobs", {"name": "x"}, headers=K1)
    reply = await api.call("POST", BULK, data=ndjson({"name": "x"}), headers=NDJSON | K1)
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, "Idempotency-Key")


async def test_a_key_of_a_bulk_belongs_to_the_caller(api: Api) -> None:
    callers = [await keyed(api, "operator"), await keyed(api, "operator")]
    answers = [await send(one, ndjson({"name": "x"}), **K1) for one in callers]
    assert len({one["jobId"] for (one,) in answers}) == 2


async def test_a_body_that_is_no_array_is_told_so(api: Api) -> None:
    for body in ('{"name": "x"}', '[{"name": "x"}', '[{"name": "x"}] 1', ""):
        answers = await send(api, body or b" ", **{"Content-Type": "application/json"})
        assert answers[-1]["error"]["status"] == 400
    assert await send(api, "[ ]", **{"Content-Type": "application/json"}) == []


async def test_another_type_of_body_is_refused(api: Api) -> None:
    assert (await api.call("POST", BULK, data=b"x", headers={"Content-Type": "text/plain"})).status == 415


async def test_a_key_with_a_scope_makes_jobs_within_it_only(api: Api) -> None:
    tenant = await keyed(api, "operator", queues=["a"], prefixes=["acme."])
    viewer = await keyed(api, "viewer")
    items = [{"name": "acme.x", "queue": "a"}, {"name": "acme.x"}, {"name": "x", "queue": "a"}]
    answers = await send(tenant, ndjson(*items))
    assert [one.get("error", {}).get("status") for one in answers] == [None, 403, 403]
    assert (await api.scheduler.get_job(answers[0]["jobId"])).queue == "a"
    assert (await viewer.call("POST", BULK, data=ndjson({"name": "x"}), headers=NDJSON)).status == 403


async def test_a_dedupe_key_does_not_give_away_the_job_of_somebody_else(api: Api) -> None:
    foreign = await api.scheduler.schedule("x", dedupe_key="d", delay=60)
    tenant = await keyed(api, "operator", queues=["a"])
    (answer,) = await send(tenant, ndjson({"name": "x", "queue": "a", "dedupeKey": "d"}))
    assert answer["jobId"] != foreign.id and "deduplicated" not in answer
    moved = await api.scheduler.update(answer["jobId"], queue="elsewhere")
    (answer,) = await send(tenant, ndjson({"name": "x", "queue": "a", "dedupeKey": "d"}))
    assert answer["error"]["status"] == 409 and moved.id not in json.dumps(answer)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_body_is_split_the_same_however_it_comes(size: int) -> None:
    array = b' [ {"a": "x,\\"]\\\\"} , [1, [2]], "}", 3 ] '
    splitter, items = Entries(100), []
    for start in range(0, len(array), size):
        items += splitter.feed(array[start : start + size])
    items += splitter.close()
    assert [json.loads(item) for item in items if isinstance(item, bytes)] == json.loads(array)
    lines, found = Lines(10), []
    text = b"one\n\n" + b"x" * 11 + b"\ntwo"
    for start in range(0, len(text), size):
        found += lines.feed(text[start : start + size])
    assert [*found, *lines.close()] == [b"one", b"", TOO_LONG, b"two"]


@pytest.mark.parametrize("text", [b"{}", b"[1", b"[1] 2", b'["', b"[}", b""])
def test_what_is_no_array_is_noticed(text: bytes) -> None:
    splitter = Entries(100)
    with pytest.raises(BrokenArray):
        splitter.feed(text)
        splitter.close()
