"""Creating jobs and schedules over HTTP, and listing, changing and deleting them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from api.conftest import Api, Reply, serving
from mainspring import Every, Scheduler
from mainspring.api.wire.job_requests import Creation

Make = Callable[..., Scheduler]
HOOK = {"endpoint": "https://api.example.com/webhook"}
CRON = {"schedule": "0 */5 * * * *", **HOOK}
LATER = "2126-01-01T12:00:00Z"


def instant(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


async def rows(api: Api) -> list[tuple[str, str]]:
    """The audit log: what was done to what, oldest first."""
    return [(row.action, row.target) for row in reversed(await api.scheduler.audit.find())]


def refused(reply: Reply, field: str, *words: str, status: int = 422) -> None:
    assert reply.status == status, reply.text
    assert reply.body["success"] is False
    assert reply.body["errors"][0]["field"] == field, reply.text
    assert all(word in reply.body["detail"] for word in words), reply.body["detail"]


# -- creating ------------------------------------------------------------------------------------------------------


async def test_a_cron_expression_with_seconds_creates_a_schedule_that_calls_an_endpoint(api: Api) -> None:
    body = {
        **CRON,
        "method": "PUT",
        "headers": {"Content-Type": "application/json"},
        "body": {"event": "scheduled_task", "timestamp": "{{timestamp}}"},
    }
    reply = await api.post("/api/jobs", body)
    assert (reply.status, reply.body["success"]) == (201, True)
    made = reply.data
    assert (made["schedule"], made["endpoint"], made["method"]) == ("0 */5 * * * *", body["endpoint"], "PUT")
    assert made["kind"] == "schedule" and made["enabled"] and made["queue"] == "http"
    following = instant(made["nextRunAt"])
    assert (following.minute % 5, following.second) == (0, 0)
    schedule = await api.scheduler.schedules.get(made["jobId"])
    assert schedule.data["target"] == "https://api.example.com:443"
    assert await rows(api) == [("schedule.create", made["jobId"])]


async def test_what_has_no_schedule_is_a_job_that_is_due_at_once_and_posts(api: Api) -> None:
    made = (await api.post("/api/jobs", {**HOOK, "runAt": "2020-01-01T00:00:00Z"})).data
    assert (made["kind"], made["type"], made["method"], made["state"]) == ("job", "http", "POST", "pending")
    job = await api.scheduler.get_job(made["jobId"])
    assert job.run_at < api.scheduler.now()
    assert await rows(api) == [("job.create", made["jobId"])]


async def test_a_name_runs_a_handler_with_the_data_in_the_default_queue(api: Api) -> None:
    body = {"name": "resize", "data": {"width": 640}, "priority": 1, "tags": ["a"], "delay": "90s", "timeout": "5s"}
    made = (await api.post("/api/jobs", body)).data
    job = await api.scheduler.get_job(made["jobId"])
    assert (job.name, job.data, job.queue, job.priority, job.tags) == ("resize", {"width": 640}, "default", 1, ("a",))
    assert job.timeout == timedelta(seconds=5) and job.retry_policy is None
    assert timedelta(seconds=80) < job.run_at - api.scheduler.now() <= timedelta(seconds=90)


async def test_retries_count_after_the_first_try_and_have_the_defaults_of_the_settings(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), retry_attempts=7, retry_delay_ms=250) as api:
        usual = (await api.post("/api/jobs", HOOK)).data
        own = (await api.post("/api/jobs", {**HOOK, "retryAttempts": 0, "retryDelay": 1500})).data
        once = (await api.post("/api/jobs", {**HOOK, "executionType": "AT_MOST_ONCE"})).data
    assert (usual["retryAttempts"], usual["retryDelay"]) == (7, 250)
    assert (own["retryAttempts"], own["retryDelay"]) == (0, 1500)
    assert (once["executionType"], once["retryAttempts"]) == ("AT_MOST_ONCE", None)
    retry = (await api.scheduler.get_job(usual["jobId"])).retry_policy
    assert retry is not None and (retry.attempts, retry.delay, retry.backoff) == (8, 0.25, "exponential")


async def test_cron_expressions_are_in_the_zone_of_the_settings_unless_they_say_another(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), timezone="Asia/Kolkata") as api:
        here = (await api.post("/api/jobs", {"schedule": "0 0 9 * * *", **HOOK})).data
        there = (await api.post("/api/jobs", {"schedule": "0 9 * * *", "timezone": "UTC", **HOOK})).data
    assert (here["timezone"], there["timezone"]) == ("Asia/Kolkata", "UTC")
    assert instant(here["nextRunAt"]).strftime("%H:%M") == "03:30"
    assert instant(there["nextRunAt"]).strftime("%H:%M") == "09:00"


async def test_intervals_are_milliseconds_or_words(api: Api) -> None:
    first = (await api.post("/api/jobs", {"every": 1500, **HOOK})).data
    second = (await api.post("/api/jobs", {"repeat": {"every": "1h30m"}, **HOOK})).data
    third = (await api.post("/api/jobs", {"repeat": {"rrule": "FREQ=DAILY", "timezone": "UTC"}, **HOOK})).data
    assert (first["every"], second["every"], third["timezone"]) == (1500, 5_400_000, "UTC")


async def test_what_is_created_disabled_does_not_fire_until_it_is_enabled(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    runs: list[int] = []

    @scheduler.job("tick")
    async def tick() -> None:
        runs.append(1)

    async with serving(scheduler) as api, scheduler:
        made = (await api.post("/api/jobs", {"name": "tick", "every": 100, "enabled": False})).data
        assert (made["enabled"], made["nextRunAt"], made["state"]) == (False, None, "paused")
        assert (await api.scheduler.schedules.get(made["jobId"])).runs == 0
        enabled = (await api.put(f"/api/jobs/{made['jobId']}", {"enabled": True})).data
        assert enabled["enabled"] and enabled["nextRunAt"]
        run = [job async for job in scheduler.jobs(schedule_id=made["jobId"], limit=1)]
        while not run:
            run = [job async for job in scheduler.jobs(schedule_id=made["jobId"], limit=1)]
        assert run[0].scheduled_for is not None and run[0].scheduled_for >= instant(enabled["updatedAt"])


async def test_a_mail_without_a_server_is_accepted_and_says_what_it_waits_for(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler, smtp_url=None) as api:
        made = (await api.post("/api/jobs", {"type": "email", "data": {"to": "a@example.com", "body": "hi"}})).data
        assert (made["state"], made["queue"]) == ("pending", "email")
        assert "MAINSPRING_SMTP_URL" in made["waiting"]
        assert "MAINSPRING_SMTP_URL" in str(await scheduler.explain(made["jobId"]))


async def test_a_mail_from_another_sender_than_the_configured_one_is_refused(make_scheduler: Make) -> None:
    smtp = {"smtp_url": "smtps://mail.example.com", "smtp_from": "Shop <shop@example.com>"}
    mail = {"to": "ann@example.com", "from": "ceo@bank.test", "body": "Pay at once."}
    async with serving(make_scheduler(), **smtp) as api:
        refused = await api.post("/api/jobs", {"type": "email", "data": mail})
        assert refused.status == 403 and "MAINSPRING_SMTP_SENDERS" in refused.text
        own = await api.post("/api/jobs", {"type": "email", "data": {**mail, "from": "Us <shop@example.com>"}})
        assert own.status == 201
        changed = await api.put(f"/api/jobs/{own.data['jobId']}", {"data": mail})
        assert changed.status == 403
    async with serving(make_scheduler(), **smtp, smtp_senders="@bank.test") as api:
        assert (await api.post("/api/jobs", {"type": "email", "data": mail})).status == 201


async def test_a_dedupe_key_that_is_held_answers_with_the_job_that_holds_it(api: Api) -> None:
    body = {"name": "report", "dedupeKey": "daily", "runAt": LATER}
    first, second = await api.post("/api/jobs", body), await api.post("/api/jobs", body)
    assert (first.status, second.status) == (201, 200)
    assert first.data["jobId"] == second.data["jobId"] and second.data["deduplicated"]
    assert len(await rows(api)) == 1


async def test_a_schedule_can_be_given_an_id_and_is_replaced_under_it(api: Api) -> None:
    await api.post("/api/jobs", {"id": "nightly", "name": "report", "schedule": "0 2 * * *"})
    made = (await api.post("/api/jobs", {"id": "nightly", "name": "report", "schedule": "0 3 * * *"})).data
    assert (made["jobId"], made["schedule"]) == ("nightly", "0 3 * * *")
    assert len((await api.get("/api/jobs")).data) == 1


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "name", ["endpoint", "email", "name"]),
        ({**HOOK, "unknown": 1}, "unknown", ["no such field", "/docs"]),
        ({**HOOK, "schedle": "0 9 * * *"}, "schedle", ["no such field", "did you mean schedule?"]),
        ({**HOOK, "retryAttempt": 1}, "retryAttempt", ["did you mean retryAttempts?"]),
        ({**HOOK, "_id": "x"}, "_id", ["no such field"]),
        ({**HOOK, "state": "completed"}, "state", ["no such field"]),
        ({"endpoint": "http://127.0.0.1/"}, "endpoint", ["MAINSPRING_HTTP_ALLOW"]),
        ({"endpoint": "http://[::ffff:169.254.169.254]/"}, "endpoint", ["only public ones"]),
        ({"endpoint": "file:///etc/passwd"}, "endpoint", ["http:// or https://"]),
        ({"endpoint": "https://user:pw@example.com/"}, "endpoint", ["Authorization"]),
        ({**HOOK, "headers": {"Host": "x"}}, "headers", ["Host"]),
        ({**HOOK, "headers": {"X-A": "a\r\nB: c"}}, "headers", ["line break"]),
        ({**HOOK, "body": {"a": "{{7*7}}"}}, "body", []),
        ({**HOOK, "body": {"a": "{{data.missing}}"}}, "body", []),
        ({**HOOK, "method": "GET", "body": {}}, "body", ["GET"]),
        ({**HOOK, "method": "TRACE"}, "method", []),
        ({**HOOK, "name": "mainspring:x"}, "name", ["Mainspring's own"]),
        ({**HOOK, "schedule": "61 * * * * *"}, "schedule", []),
        ({**HOOK, "schedule": "0 0 30 2 *"}, "schedule", []),
        ({**HOOK, "schedule": "* * * * *", "every": 1000}, "every", ["one of"]),
        ({**HOOK, "schedule": "* * * * *", "timezone": "Mars/Olympus"}, "schedule", ["Mars"]),
        ({**HOOK, "every": 1}, "every", ["100 milliseconds"]),
        ({**HOOK, "every": 1000, "runAt": LATER}, "runAt", ["startAt"]),
        ({**HOOK, "every": 1000, "timezone": "UTC"}, "timezone", []),
        ({**HOOK, "maxRuns": 3}, "maxRuns", ["schedules"]),
        ({**HOOK, "enabled": False}, "enabled", ["schedule"]),
        ({**HOOK, "schedule": "0 0 * * *", "dedupeWindow": "1h"}, "dedupeWindow", ["firings"]),
        ({**HOOK, "runAt": "2026-01-01T00:00:00"}, "runAt", ["Z"]),
        ({**HOOK, "runAt": LATER, "delay": "5ms"}, "runAt", []),
        ({**HOOK, "priority": 11}, "priority", []),
        ({**HOOK, "executionType": "EXACTLY_ONCE"}, "executionType", ["AT_LEAST_ONCE"]),
        ({**HOOK, "executionType": "SOMETIMES"}, "executionType", []),
        ({"type": "email", "data": {"subject": "x"}}, "data.to", []),
        ({"type": "email", "data": {"to": "a@b.c\r\nBcc: d@e.f"}}, "data.to", []),
        ({"type": "email", "data": {"to": "a@example.com", "text": "a", "body": "b"}}, "data", ["one of them"]),
        ({"type": "email"}, "data.to", []),
        ({"name": "mainspring:http", "data": {}}, "name", ["Mainspring's own"]),
        ({"name": "x", "headers": {"A": "b"}}, "headers", ["webhooks"]),
        ({"name": "x", "queue": "\u0000"}, "queue", []),
        ({"name": "x", "data": {"n": 2**70}}, "data", []),
        ({"name": "x", "id": "own"}, "id", []),
    ],
)
@pytest.mark.slow
async def test_what_cannot_be_created_is_refused_with_the_field_and_the_cure(
    api: Api, body: dict[str, Any], field: str, words: list[str]
) -> None:
    refused(await api.post("/api/jobs", body), field, *words)
    assert (await api.get("/api/jobs")).data == [] and await rows(api) == []


async def test_a_refusal_never_repeats_the_value_of_a_header(api: Api) -> None:
    reply = await api.post("/api/jobs", {**HOOK, "headers": {"Authorization": "Bearer canary\u00e9"}})
    assert reply.status == 422 and "canary" not in reply.text


async def test_every_field_of_the_stored_document_is_refused_in_a_request(api: Api) -> None:
    for name in (
        "rev",
        "token",
        "tries",
        "attempts",
        "waiting_for",
        "claim",
        "worker",
        "sealed",
        "v",
        "ready",
        "parent_id",
    ):
        refused(await api.post("/api/jobs", {"name": "x", name: 1}), name)


# -- what is shown -------------------------------------------------------------------------------------------------


async def test_credentials_in_headers_are_never_shown_and_references_to_secrets_are(api: Api) -> None:
    api.scheduler.privacy.set_keys({"k": bytes(32)})
    await api.scheduler.secrets.put("stripe", "canary-four", origins=["*"])
    headers = {
        "Authorization": "Bearer canary-one",
        "Cookie": "session=canary-two",
        "X-Api-Key": "canary-three",
        "X-Auth-Token": "Bearer secret://stripe",
        "Accept": "text/plain",
    }
    made = await api.post("/api/jobs", {**CRON, "headers": headers})
    job = await api.post("/api/jobs", {**HOOK, "headers": headers, "runAt": LATER})
    listed, one = await api.get("/api/jobs"), await api.get(f"/api/jobs/{made.data['jobId']}")
    expected = dict.fromkeys(headers, "[redacted]")
    expected |= {"X-Auth-Token": "Bearer secret://stripe", "Accept": "text/plain"}
    assert made.data["headers"] == one.data["headers"] == job.data["headers"] == expected
    changed = await api.put(f"/api/jobs/{made.data['jobId']}", {"schedule": "0 0 * * * *", "headers": expected})
    assert not any("canary" in reply.text for reply in (made, job, listed, one, changed))
    kept = (await api.scheduler.schedules.get(made.data["jobId"])).data["request"]["headers"]
    assert kept == headers, "who sends back what he was shown means it to stay"
    assert "canary" not in str(await api.scheduler.audit.find())


async def test_encrypted_data_leaves_as_a_word(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys={"k": "A" * 43 + "="})
    async with serving(scheduler) as api:
        job = await scheduler.schedule("pay", {"card": "4111-canary"}, encrypt=["card"])
        schedule = await scheduler.schedule("pay", {"card": "4111-canary"}, encrypt=["card"], repeat=Every("1h"))
        for one in (job.id, schedule.id):
            assert (await api.get(f"/api/jobs/{one}")).data["data"] == {"card": "[encrypted]"}
        assert "canary" not in (await api.get("/api/jobs")).text


# -- listing -------------------------------------------------------------------------------------------------------


async def test_the_list_has_what_was_created_newest_first_page_by_page(api: Api) -> None:
    made = []
    for number in range(5):
        body = {"name": f"job-{number}", "runAt": LATER} if number % 2 else {"name": f"job-{number}", "every": 60_000}
        made.append((await api.post("/api/jobs", body)).data["jobId"])
    await api.scheduler.schedules.trigger(made[0])
    pages = [await api.get(f"/api/jobs?page={page}&limit=2") for page in (1, 2, 3)]
    assert [[one["jobId"] for one in page.data] for page in pages] == [made[:2:-1], made[2:0:-1], made[:1]]
    assert [page.body["complete"] for page in pages] == [True] * 3 and pages[2].body["next"] is None
    walked = [await api.get("/api/jobs?limit=2")]
    while walked[-1].body["next"]:
        walked.append(await api.get(f"/api/jobs?limit=2&cursor={walked[-1].body['next']}"))
    assert [page.body["data"] for page in walked] == [page.body["data"] for page in pages]
    for wrong in ("nonsense", walked[0].body["next"] + "&page=2"):
        reply = await api.get(f"/api/jobs?cursor={wrong}")
        assert (reply.status, reply.body["errors"][0]["field"] if "errors" in reply.body else "cursor") == (
            422,
            "cursor",
        )
    assert (await api.get(f"/api/v1/jobs?cursor={walked[0].body['next']}")).status == 422, "it is of another list"


@pytest.mark.parametrize("query", ["page=0", "limit=0", "limit=101", "page=x", "page=200&limit=100", "page[$gt]=1"])
async def test_pages_are_bounded(api: Api, query: str) -> None:
    reply = await api.get(f"/api/jobs?{query}")
    assert reply.status == 422, reply.text


async def test_what_is_not_there_is_a_404(api: Api) -> None:
    for path in ("/api/jobs/507f1f77bcf86cd799439011", "/api/jobs/nothing", "/api/jobs/nothing/executions"):
        reply = await api.get(path)
        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
    assert (await api.put("/api/jobs/nothing", {"priority": 1})).status == 404
    assert (await api.delete("/api/jobs/nothing")).status == 404


# -- changing ------------------------------------------------------------------------------------------------------


async def test_a_change_of_a_schedule_is_merged_into_it(api: Api) -> None:
    made = (await api.post("/api/jobs", {**CRON, "body": {"a": 1}, "endAt": LATER, "tags": ["x"]})).data
    body = {"schedule": "0 */10 * * * *", "enabled": True, "endAt": None, "retryAttempts": 9}
    changed = (await api.put(f"/api/jobs/{made['jobId']}", body)).data
    assert (changed["schedule"], changed["retryAttempts"]) == ("0 */10 * * * *", 9)
    for name in ("endpoint", "body", "method", "tags", "retryDelay", "queue", "createdAt"):
        assert changed[name] == made[name], name
    schedule = await api.scheduler.schedules.get(made["jobId"])
    assert schedule.end_at is None and schedule.data["request"]["body"] == {"a": 1}
    moved = (await api.put(f"/api/jobs/{made['jobId']}", {"endpoint": "https://other.example.com/x"})).data
    assert (moved["endpoint"], moved["body"]) == ("https://other.example.com/x", {"a": 1})
    assert (await api.scheduler.schedules.get(made["jobId"])).data["target"] == "https://other.example.com:443"
    assert [action for action, _ in await rows(api)] == ["schedule.create", "schedule.update", "schedule.update"]


async def test_enabled_pauses_and_resumes_a_schedule(api: Api) -> None:
    path = f"/api/jobs/{(await api.post('/api/jobs', CRON)).data['jobId']}"
    paused = (await api.put(path, {"enabled": False})).data
    assert (paused["enabled"], paused["state"], paused["nextRunAt"]) == (False, "paused", None)
    resumed = (await api.put(path, {"enabled": True})).data
    assert (resumed["enabled"], resumed["state"]) == (True, "active") and resumed["nextRunAt"]


async def test_a_time_zone_alone_moves_a_cron_schedule(api: Api) -> None:
    path = f"/api/jobs/{(await api.post('/api/jobs', {**HOOK, 'schedule': '0 9 * * *'})).data['jobId']}"
    changed = (await api.put(path, {"timezone": "Asia/Kolkata"})).data
    assert (changed["schedule"], changed["timezone"]) == ("0 9 * * *", "Asia/Kolkata")
    assert instant(changed["nextRunAt"]).strftime("%H:%M") == "03:30"


async def test_a_pending_job_can_be_changed_and_one_that_has_ended_cannot(api: Api) -> None:
    made = (await api.post("/api/jobs", {**HOOK, "runAt": LATER, "body": "x"})).data
    path = f"/api/jobs/{made['jobId']}"
    changed = (await api.put(path, {"runAt": "2126-02-01T00:00:00Z", "priority": 2, "method": "PATCH"})).data
    assert (changed["runAt"], changed["priority"]) == ("2126-02-01T00:00:00.000Z", 2)
    assert (changed["method"], changed["body"]) == ("PATCH", "x")
    await api.scheduler.cancel(made["jobId"])
    assert (await api.put(path, {"priority": 3})).status == 409
    assert [action for action, _ in await rows(api)] == ["job.create", "job.update"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedule": "* * * * *"}, "schedule"),
        ({"enabled": False}, "enabled"),
        ({"executionType": "AT_MOST_ONCE"}, "executionType"),
        ({"startAt": LATER}, "startAt"),
        ({"endpoint": "http://10.0.0.1/"}, "endpoint"),
        ({"name": "other"}, "name"),
        ({"method": "GET"}, "body"),
    ],
)
async def test_a_change_of_a_job_that_makes_no_sense_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    made = (await api.post("/api/jobs", {**HOOK, "runAt": LATER, "body": "x"})).data
    refused(await api.put(f"/api/jobs/{made['jobId']}", body), field)


# -- deleting ------------------------------------------------------------------------------------------------------


async def test_jobs_and_schedules_can_be_deleted(api: Api) -> None:
    for body in (CRON, {**HOOK, "runAt": LATER}):
        made = (await api.post("/api/jobs", body)).data
        path = f"/api/jobs/{made['jobId']}"
        assert (await api.delete(path)).data == {"jobId": made["jobId"], "deleted": True}
        assert (await api.get(path)).status == 404
    actions = [action for action, _ in await rows(api)]
    assert actions == ["schedule.create", "schedule.delete", "job.create", "job.delete"]


# -- who may -------------------------------------------------------------------------------------------------------


async def test_a_key_with_a_scope_reaches_its_own_queues_and_names_only(api: Api) -> None:
    admin = api.with_key((await api.scheduler.api_keys.create("root", "admin")).text)
    key = await api.scheduler.api_keys.create("tenant", "operator", queues=["acme"], prefixes=["acme."])
    tenant = api.with_key(key.text)
    foreign = [
        (await admin.post("/api/jobs", {"name": "other", **more})).data["jobId"] for more in ({"every": 1000}, {})
    ]
    own = (await tenant.post("/api/jobs", {"name": "acme.report", "queue": "acme", "runAt": LATER})).data["jobId"]
    assert [one["jobId"] for one in (await tenant.get("/api/jobs")).data] == [own]
    assert len((await admin.get("/api/jobs")).data) == 3
    for one in foreign:
        for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/executions")):
            given = {"priority": 1} if method == "PUT" else None
            reply = await tenant.call(method, f"/api/jobs/{one}{path}", json=given)
            assert reply.status == 404, (method, path)
    for body in ({"name": "other", "queue": "acme"}, {"name": "acme.x"}, {"name": "acme.x", "queue": "other"}):
        assert (await tenant.post("/api/jobs", body)).status == 403
    assert (await tenant.put(f"/api/jobs/{own}", {"queue": "other"})).status == 403
    taken = {"name": "acme.x", "queue": "acme", "schedule": "* * * * *", "id": foreign[0]}
    assert (await tenant.post("/api/jobs", taken)).status == 422
    assert (await admin.get(f"/api/jobs/{foreign[0]}")).data["name"] == "other"


async def test_a_job_gets_the_queue_of_a_live_workers_handler_unless_the_key_has_a_scope_of_queues(
    api: Api, make_scheduler: Make
) -> None:
    worker = make_scheduler(queues=["nothing"])
    worker.job("acme.report", queue="slow", priority=9)(lambda: None)
    await worker.start()
    create = api.scheduler.api_keys.create
    admin = api.with_key((await create("root", "admin")).text)
    by_name = api.with_key((await create("names", "operator", prefixes=["acme."])).text)
    by_queue = api.with_key((await create("queues", "operator", queues=["default"])).text)
    body = {"name": "acme.report"}
    for client, queue in ((admin, "slow"), (by_name, "slow"), (by_queue, "default")):
        job_id = (await client.post("/api/jobs", body)).data["jobId"]
        job = await api.scheduler.get_job(job_id)
        assert (job.queue, job.priority) == (queue, 9)
    schedule_id = (await by_name.post("/api/jobs", {**body, "every": 1000})).data["jobId"]
    assert (await api.scheduler.schedules.get(schedule_id)).queue == "slow"


async def test_a_viewer_sees_and_changes_nothing(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=600)
    viewer = api.with_key((await api.scheduler.api_keys.create("eyes", "viewer")).text)
    assert (await viewer.get(f"/api/jobs/{job.id}")).status == 200
    replies = [
        await viewer.post("/api/jobs", {"name": "x"}),
        await viewer.put(f"/api/jobs/{job.id}", {"priority": 1}),
        await viewer.delete(f"/api/jobs/{job.id}"),
        await viewer.post("/api/v1/create-job", {"type": "x"}),
    ]
    assert [reply.status for reply in replies] == [403] * 4


def test_the_examples_of_the_specification_are_valid() -> None:
    schema = Creation.model_config["json_schema_extra"]
    assert isinstance(schema, dict)
    examples: Any = schema["examples"]
    assert all(Creation.model_validate(example) for example in examples)


# -- repeated webhooks, fixed delays, and when a thing changed -----------------------------------------------------


async def test_a_repeated_webhook_does_not_overlap_itself_unless_it_says_so(api: Api) -> None:
    usual = (await api.post("/api/jobs", CRON)).data["jobId"]
    allowed = (await api.post("/api/jobs", {**CRON, "overlap": "allow"})).data["jobId"]
    handler = (await api.post("/api/jobs", {"name": "resize", "every": "5m"})).data["jobId"]
    overlaps = [(await api.scheduler.schedules.get(one)).policy.overlap for one in (usual, allowed, handler)]
    assert overlaps == ["skip", "allow", "allow"]


async def test_a_fixed_delay_counts_from_the_end_of_the_run_before(api: Api) -> None:
    made = (await api.post("/api/jobs", {"repeat": {"every": "5m", "after": "end"}, **HOOK})).data
    body = {"name": "resize", "repeat": {"every": 300_000, "after": "end"}}
    other = (await api.put("/api/schedules/cleaning", body)).data
    rules = [(await api.scheduler.schedules.get(one)).rule for one in (made["jobId"], other["id"])]
    assert rules == [Every("5m", after="end")] * 2
    wrong = await api.post("/api/jobs", {"repeat": {"cron": "* * * * *", "after": "end"}, **HOOK})
    assert wrong.status == 422 and "after is for every" in wrong.text


async def test_a_job_tells_when_it_was_last_changed(api: Api) -> None:
    made = (await api.post("/api/jobs", {"name": "resize", "runAt": LATER})).data
    assert made["updatedAt"] == made["createdAt"]
    await api.scheduler.update(made["jobId"], priority=1)
    edited = (await api.get(f"/api/jobs/{made['jobId']}")).data
    assert instant(edited["updatedAt"]) > instant(edited["createdAt"])
    await api.post(f"/api/jobs/{made['jobId']}/cancel")
    ended = (await api.get(f"/api/jobs/{made['jobId']}")).data
    assert ended["updatedAt"] == ended["finishedAt"]
