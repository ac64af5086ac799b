"""A change keeps the values that its caller is not shown where they are: they follow to no other target."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from api.conftest import Api
from api.jobs.test_executions import KEYS, ended, running
from harness.api_keys import keyed
from harness.sinks import Sink, free_port, reply
from mainspring import Scheduler

Make = Callable[..., Scheduler]
LATER = "2099-01-01T00:00:00Z"
TOKEN, PASSWORD = "Bearer CANARYPLAINTOKEN", "CANARYPASSWORD"
KEPT: dict[str, Any] = {
    "headers": {"Authorization": TOKEN, "Ocp-Apim-Subscription-Key": TOKEN, "X-Plain": "1"},
    "query": {"token": TOKEN, "page": "2"},
    "body": {"at": "{{timestamp}}"},
    "data": {"password": PASSWORD, "user": {"name": "ann", "password": PASSWORD}, "n": 1},
    "queue": "qa",
}


@pytest.fixture
async def api(make_scheduler: Make) -> AsyncIterator[Api]:
    async with running(make_scheduler(keys=KEYS)) as one:
        yield one


@pytest.fixture
async def evil() -> AsyncIterator[Sink]:
    async with Sink() as sink:
        yield sink


@pytest.fixture
async def good() -> AsyncIterator[Sink]:
    async with Sink() as sink:
        yield sink


async def made(api: Api, sink: Sink, **fields: Any) -> str:
    asked = {**KEPT, "endpoint": f"{sink.url}/in", "runAt": LATER, **fields}
    job: str = (await (await keyed(api)).post("/api/jobs", asked)).data["jobId"]
    return job


async def tenant(api: Api) -> Api:
    return await keyed(api, "operator", queues=["qa"])


@pytest.mark.slow
async def test_a_new_target_gets_none_of_the_credentials_that_were_kept(api: Api, good: Sink, evil: Sink) -> None:
    job = await made(api, good)
    asked = await tenant(api)
    shown = (await asked.put(f"/api/jobs/{job}", {"endpoint": f"{evil.url}/out", "delay": "0s"})).data
    assert (await ended(api, job)).state == "completed"
    assert (shown["headers"], shown["query"]) == ({"X-Plain": "1"}, {"page": "2"})
    (received,) = evil.received
    assert received.path == "/out?page=2" and "CANARY" not in f"{received.headers} {received.body!r}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"body": {"p": "{{data.password}}"}}, "data"),
        ({"body": {"p": "{{data.user}}"}}, "data"),
        ({"body": {"p": "{{data}}"}}, "data"),
        ({"query": {"p": "{{data.password}}"}}, "data"),
        ({"headers": {"X-P": "{{data.password}}"}}, "data"),
        ({"headers": {"Authorization": "[redacted]"}}, "headers"),
        ({"query": {"token": "[redacted]"}}, "query"),
        ({"body": {"password": "[redacted]"}}, "body"),
        ({"body": {"p": "{{data.password}}"}, "data": {"password": "[redacted]"}}, "data"),
    ],
)
async def test_a_new_target_is_refused_with_a_value_that_is_not_shown(
    api: Api, good: Sink, evil: Sink, change: dict[str, Any], field: str
) -> None:
    job = await made(api, good, body={"password": PASSWORD})
    asked = await tenant(api)
    refused = await asked.put(f"/api/jobs/{job}", {"body": None, **change, "endpoint": evil.url, "delay": "0s"})
    assert refused.status == 422, refused.text
    assert refused.body["errors"][0]["field"] == field and "again" in refused.body["detail"]
    assert (await api.scheduler.get_job(job)).data["request"]["url"] == f"{good.url}/in"
    assert evil.connections == 0


@pytest.mark.slow
async def test_a_kept_body_or_template_with_a_value_that_is_not_shown_keeps_its_target(
    api: Api, good: Sink, evil: Sink
) -> None:
    asked = await tenant(api)
    for body in ({"password": PASSWORD}, {"p": "{{data.password}}"}, {"u": "https://x.example/?token=" + PASSWORD}):
        job = await made(api, good, body=body)
        refused = await asked.put(f"/api/jobs/{job}", {"endpoint": evil.url})
        assert refused.status == 422 and "again" in refused.body["detail"], refused.text
        assert (await asked.put(f"/api/jobs/{job}", {"endpoint": f"{good.url}/other"})).status == 200
    assert evil.connections == 0


async def test_a_template_that_newly_names_a_redacted_value_is_refused_at_the_same_target_too(
    api: Api, good: Sink
) -> None:
    job = await made(api, good)
    asked = await tenant(api)
    assert (await asked.put(f"/api/jobs/{job}", {"body": {"p": "{{data.password}}"}})).status == 422
    given = {"body": {"p": "{{data.password}}", "n": "{{data.n}}"}, "data": {"password": "my own", "n": 1}}
    assert (await asked.put(f"/api/jobs/{job}", given)).status == 200
    again = {"body": {"p": "{{data.password}}", "x": "{{data.password}}"}}
    assert (await asked.put(f"/api/jobs/{job}", again)).status == 200, "it was named before"


async def test_what_was_shown_and_is_sent_back_stays_as_it_is_at_the_same_target(api: Api, good: Sink) -> None:
    url = f"{good.url}/in?token={PASSWORD}&x=1"
    job = await made(api, good, endpoint=url, query={})
    asked = await tenant(api)
    shown = (await asked.get(f"/api/jobs/{job}")).data
    assert shown["endpoint"] == f"{good.url}/in?token=[redacted]&x=1" and "CANARY" not in str(shown)
    sent = {name: shown[name] for name in ("endpoint", "headers", "body", "data")}
    assert (await asked.put(f"/api/jobs/{job}", {**sent, "priority": 3})).status == 200
    kept = (await api.scheduler.get_job(job)).data
    assert (kept["request"]["url"], kept["request"]["headers"], kept["data"]) == (url, KEPT["headers"], KEPT["data"])
    half = {"endpoint": shown["endpoint"].replace("x=1", "x=2")}
    assert (await asked.put(f"/api/jobs/{job}", half)).status == 422, "it stands for no value that is stored there"


async def test_a_schedule_keeps_its_credentials_at_its_target_too(api: Api, good: Sink, evil: Sink) -> None:
    fields = {"runAt": None, "schedule": "0 0 1 1 *"}
    asked = {**KEPT, "endpoint": good.url, **fields}
    made = (await (await keyed(api)).post("/api/jobs", {k: v for k, v in asked.items() if v is not None})).data["jobId"]
    shown = (await (await tenant(api)).put(f"/api/jobs/{made}", {"endpoint": evil.url})).data
    assert shown["headers"] == {"X-Plain": "1"}
    assert "CANARYPLAIN" not in str((await api.scheduler.schedules.get(made)).data)


async def test_an_encrypted_value_follows_to_no_other_target(api: Api, good: Sink, evil: Sink) -> None:
    data = {
        "request": {"url": good.url, "body": {"c": "{{data.card}}"}},
        "data": {"card": PASSWORD},
        "target": good.url,
    }
    job = await api.scheduler.schedule("mainspring:http", data, encrypt=["data.card"], delay=3600, queue="qa")
    asked = await tenant(api)
    assert (await asked.put(f"/api/jobs/{job.id}", {"endpoint": evil.url, "delay": "0s"})).status == 422
    assert (await asked.put(f"/api/jobs/{job.id}", {"endpoint": f"{good.url}/x", "delay": "0s"})).status == 200
    await ended(api, job.id)
    assert evil.connections == 0 and PASSWORD.encode() in good.received[0].body


@pytest.mark.parametrize(("hidden", "mark"), [({"redact": ["text"]}, "[redacted]"), ({}, "[encrypted]")])
async def test_a_mail_with_a_text_that_is_not_shown_goes_to_no_other_recipient(
    make_scheduler: Make, hidden: dict[str, Any], mark: str
) -> None:
    mail = {"to": "ann@example.com", "subject": "x", "text": PASSWORD}
    smtp = {"smtp_url": f"smtp://127.0.0.1:{free_port('127.0.0.1')}?starttls=off", "smtp_from": "us@example.com"}
    encrypt = None if hidden else ["text"]
    async with running(make_scheduler(keys=KEYS, **hidden), **smtp) as api:
        asked = await tenant(api)
        job = await api.scheduler.schedule("mainspring:email", mail, queue="qa", delay=3600, encrypt=encrypt)
        for to, status in (("eve@example.com", 422), ("ann@example.com", 200)):
            change = {"data": {"to": to, "subject": "y", "text": mark}}
            assert (await asked.put(f"/api/jobs/{job.id}", change)).status == status
        dead = await api.scheduler.schedule("mainspring:email", mail, queue="qa", retry=1, encrypt=encrypt)
        assert (await ended(api, dead.id)).state == "failed"
        for edit in ({"to": "eve@example.com"}, {"cc": "eve@example.com"}):
            assert (await asked.post("/api/dead-letters/retry", {"ids": [dead.id], "data": edit})).status == 422
        if hidden:
            whole = {"to": "eve@example.com", "text": "mine"}
            assert (await asked.post("/api/dead-letters/retry", {"ids": [dead.id], "data": whole})).status == 202


async def test_an_edit_of_a_dead_letter_does_not_name_a_value_that_is_not_shown(
    api: Api, good: Sink, evil: Sink
) -> None:
    good.answers = [reply(404)]
    job = await made(api, good, runAt=None, delay="0s")
    await ended(api, job)
    asked = await tenant(api)
    for request, status in (
        ({"url": evil.url, "body": {"p": "{{data.password}}"}}, 422),
        ({"url": evil.url, "headers": {"X": "[redacted]"}}, 422),
        ({"url": "http://10.0.0.1/"}, 422),
        ({"url": evil.url, "body": {"p": "{{data.n}}"}}, 202),
    ):
        edit = {"ids": [job], "data": {"request": request}}
        assert (await asked.post("/api/dead-letters/retry", edit)).status == status, request
    assert (await ended(api, job)).state == "completed"
    assert [one.body for one in evil.received] == [b'{"p":1}']
