"""Flows over HTTP: started, listed, looked at, cancelled, retried; and what is refused before anything is stored."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from api.views.test_events import reading
from harness.api_keys import actions
from harness.inside import inside
from harness.pages import ROOT, blocks
from harness.waiting import eventually
from mainspring import Fail, JobContext
from mainspring.api.dependencies import Service

SOON = 20


@pytest.fixture
def ran(api: Api) -> list[Any]:
    """What the handlers of these tests have noted."""
    noted: list[Any] = []

    @api.scheduler.job("extract")
    async def extract(day: int = 0) -> dict[str, Any]:
        noted.append(("extract", day))
        return {"shards": [{"n": 1}, {"n": 2}, {"n": 3}], "rows": 7}

    @api.scheduler.job("transform")
    async def transform(shard: dict[str, int]) -> int:
        noted.append(("transform", shard["n"]))
        return shard["n"] * 10

    @api.scheduler.job("load")
    async def load(ctx: JobContext, rows: int, into: dict[str, Any] | None = None) -> int:
        noted.append(("load", rows, into))
        return rows

    @api.scheduler.job("fail", retry=1)
    async def fail() -> None:
        noted.append("fail")
        if noted.count("fail") == 1:
            raise Fail("no luck")

    return noted


NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "data": {"day": 3, "password": "hunter2-hunter2"},
    "nodes": [
        {"name": "extract", "job": "extract", "data": {"day": 3}},
        {
            "name": "transform",
            "job": "transform",
            "after": ["extract"],
            "over": {"node": "extract", "path": ["shards"]},
            "item": "shard",
        },
        {
            "name": "load",
            "job": "load",
            "after": ["transform"],
            "fills": [
                {"at": ["rows"], "node": "extract", "path": ["rows"]},
                {"at": ["into", "first", 0], "node": "extract", "path": ["shards", 0, "n"]},
            ],
            "data": {"into": {"first": [None]}},
        },
    ],
}


async def ended(api: Api, flow_id: str) -> dict[str, Any]:
    async def flow() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.get(f"/api/flows/{flow_id}")).data
        return found if found["finishedAt"] is not None else None

    found: dict[str, Any] = await eventually(flow, SOON)
    return found


@pytest.mark.slow
async def test_a_flow_runs_its_nodes_in_order_with_earlier_results(api: Api, ran: list[Any]) -> None:
    started = (await api.post("/api/flows", NIGHTLY)).data
    assert (started["name"], started["kind"], started["state"]) == ("nightly", "declared", "pending")
    assert [node["name"] for node in started["nodes"]] == ["extract", "transform", "load"]
    assert started["nodes"][2]["holding"] == "The flow has not stored it yet."
    await api.scheduler.start()
    flow = await ended(api, started["id"])
    assert flow["state"] == "completed", flow
    assert ran[0] == ("extract", 3) and ran[-1] == ("load", 7, {"first": [1]})
    assert sorted(ran[1:-1]) == [("transform", 1), ("transform", 2), ("transform", 3)]
    extract, transform, load = flow["nodes"]
    assert (extract["state"], transform["map"], transform["counts"]) == ("completed", True, {"completed": 3})
    assert load["after"] == ["transform"] and load["startedAt"] and load["finishedAt"]
    assert flow["counts"] == {"completed": 6} and flow["complete"] is True
    assert flow["edges"] == [
        {"before": "extract", "after": "transform", "when": "success"},
        {"before": "transform", "after": "load", "when": "success"},
    ]
    assert await actions(api) == [("flow.start", flow["id"])]


@pytest.mark.slow
async def test_the_members_of_a_flow_are_jobs_that_are_found_by_flow_and_node(api: Api, ran: list[Any]) -> None:
    flow_id = (await api.post("/api/flows", NIGHTLY)).data["id"]
    await api.scheduler.start()
    await ended(api, flow_id)
    found = (await api.get(f"/api/jobs/search?flowId={flow_id}")).data
    assert len(found) == 6 and all(job["flowId"] == flow_id for job in found)
    mapped = (await api.get(f"/api/jobs/search?flowId={flow_id}&node=transform")).data
    assert [job["node"].partition("/")[0] for job in mapped] == ["transform"] * 4
    assert (await api.get(f"/api/jobs/search?flowId={flow_id}&node=transform&state=failed")).data == []
    pages: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await api.get(f"/api/jobs/search?flowId={flow_id}&limit=2{cursor}")).body
        pages += [job["id"] for job in page["data"]]
        cursor = None if page["next"] is None else f"&cursor={page['next']}"  # type: ignore[assignment]
    assert sorted(pages) == sorted(job["id"] for job in found)
    refused = await api.get("/api/jobs/search?node=transform")
    assert refused.status == 422 and "flow" in refused.body["detail"]
    counted = (await api.get(f"/api/jobs/counts?flowId={flow_id}")).data
    assert {one["state"]: one["count"] for one in counted}["completed"] == 6


async def test_a_blocked_job_shows_its_waits(api: Api, ran: list[Any]) -> None:
    @api.scheduler.job("hold")
    async def hold(ctx: JobContext) -> None:
        await ctx.call("child", "nobody-handles-this")

    await api.scheduler.start()
    job = await api.scheduler.schedule("hold")

    async def blocked() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.get(f"/api/jobs/{job.id}/detail")).data
        return found if found["state"] == "blocked" else None

    found = await eventually(blocked, SOON)
    assert found["waits"]["on"] == [{"name": "child", "total": 1, "tolerate": 0, "failFast": False}]
    flow = (await api.get(f"/api/flows/{job.id}")).data
    assert (flow["kind"], flow["name"], flow["state"]) == ("dynamic", "hold", "blocked")
    assert [(node["name"], node["counts"]) for node in flow["nodes"]] == [("child", {"pending": 1})]


@pytest.mark.slow
async def test_blocked_jobs_are_counted(api: Api, ran: list[Any]) -> None:
    @api.scheduler.job("hold")
    async def hold(ctx: JobContext) -> None:
        await ctx.call("child", "nobody-handles-this")

    nodes = [{"job": "nobody", "name": "first"}, {"job": "load", "data": {"rows": 1}, "after": ["first"]}]
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": nodes})).data["id"]
    await api.scheduler.start()
    for _ in range(2):
        await api.scheduler.schedule("hold")

    async def counted(query: str) -> int:
        found = (await api.get(f"/api/jobs/counts?{query}")).data
        return int({one["state"]: one["count"] for one in found}["blocked"])

    async def all_blocked() -> bool:
        return await counted("") == 4  # two of hold, the root of the flow, and its second node

    await eventually(all_blocked, SOON)
    assert await counted("name=hold") == 2 and await counted("name=else") == 0
    assert await counted(f"flowId={flow_id}") == 1


@pytest.mark.slow
async def test_a_failed_flow_is_retried_and_completed_nodes_are_not(api: Api, ran: list[Any]) -> None:
    nodes = [
        {"job": "extract"},
        {"job": "fail", "after": ["extract"]},
        {"name": "end", "job": "extract", "after": ["fail"]},
    ]
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": nodes})).data["id"]
    await api.scheduler.start()
    flow = await ended(api, flow_id)
    assert flow["state"] == "failed" and "'fail' failed" in flow["error"]
    states = {node["name"]: (node["state"], node["because"]) for node in flow["nodes"]}
    assert states["end"] == ("cancelled", flow["nodes"][1]["id"])
    again = await api.post(f"/api/flows/{flow_id}/retry", headers={"Idempotency-Key": "once"})
    assert again.status == 200, again.text
    assert (await ended(api, flow_id))["state"] == "completed"
    assert ran.count("fail") == 2 and ran.count(("extract", 0)) == 2
    repeated = await api.post(f"/api/flows/{flow_id}/retry", headers={"Idempotency-Key": "once"})
    assert repeated.headers["idempotency-replayed"] == "true"
    assert (await api.post(f"/api/flows/{flow_id}/retry")).status == 409
    assert await actions(api) == [("flow.start", flow_id), ("flow.retry", flow_id)]


@pytest.mark.slow
async def test_a_flow_is_cancelled_with_all_its_jobs(api: Api, ran: list[Any]) -> None:
    nodes = [{"job": "nobody", "name": "first"}, {"job": "load", "data": {"rows": 1}, "after": ["first"]}]
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": nodes})).data["id"]
    await api.scheduler.start()

    async def laid_out() -> Any:
        return (await api.get(f"/api/flows/{flow_id}")).data["counts"] == {"pending": 1, "blocked": 1}

    await eventually(laid_out, SOON)
    held = (await api.get(f"/api/flows/{flow_id}")).data["nodes"][1]["holding"]
    assert held == "It waits for 'first'."
    flow = (await api.post(f"/api/flows/{flow_id}/cancel", {"reason": "not needed"})).data
    assert flow["counts"] == {"cancelled": 2} and "not needed" in flow["error"]
    assert await actions(api) == [("flow.start", flow_id), ("flow.cancel", flow_id)]


async def test_flows_are_listed_in_pages_by_name_and_state(api: Api, ran: list[Any]) -> None:
    ids = [(await api.post("/api/flows", {"name": name, "nodes": [{"job": "extract"}]})).data["id"] for name in "aba"]
    assert [flow["id"] for flow in (await api.get("/api/flows")).data] == ids[::-1]
    assert [flow["id"] for flow in (await api.get("/api/flows?name=a")).data] == [ids[2], ids[0]]
    assert (await api.get("/api/flows?state=failed")).data == []
    first = (await api.get("/api/flows?limit=2")).body
    second = (await api.get(f"/api/flows?limit=2&cursor={first['next']}")).body
    assert [flow["id"] for flow in first["data"] + second["data"]] == ids[::-1] and second["next"] is None
    assert (await api.get("/api/flows?cursor=else")).status == 422


@pytest.mark.slow
async def test_the_timeline_of_a_flow_has_a_row_for_each_job(api: Api, ran: list[Any]) -> None:
    flow_id = (await api.post("/api/flows", NIGHTLY)).data["id"]
    await api.scheduler.start()
    flow = await ended(api, flow_id)
    chart = (await api.get(f"/api/flows/{flow_id}/timeline")).data
    starts = {row["node"]: row["start"] for row in chart["rows"]}
    for node in flow["nodes"]:
        assert node["startedAt"] == starts[node["name"]], "a node starts when its job does, not when it is stored"
    assert (chart["by"], chart["complete"], len(chart["rows"])) == ("job", True, 6)
    assert chart["rows"][0]["node"] == "extract" and chart["rows"][-1]["node"] == "load"
    assert all(row["start"] <= row["end"] <= chart["now"] for row in chart["rows"])


async def test_no_job_of_a_timeline_ends_after_the_time_of_the_answer(
    api: Api, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow_id = (await api.post("/api/flows", NIGHTLY)).data["id"]
    await api.scheduler.start()
    await ended(api, flow_id)
    behind = api.scheduler.now() - timedelta(hours=1)
    monkeypatch.setattr(Service, "now", lambda service: behind)
    chart = (await api.get(f"/api/flows/{flow_id}/timeline")).data
    assert max(row["end"] for row in chart["rows"]) == chart["now"]


async def test_no_job_of_a_timeline_ends_before_it_starts(api: Api, ran: list[Any]) -> None:
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": [{"job": "extract"}]})).data["id"]
    await api.scheduler.start()
    await ended(api, flow_id)
    ahead = {"attempts.0.started_at": api.scheduler.now() + timedelta(hours=1)}  # by the clock of its worker
    jobs = inside(api.scheduler).open_store.connection.jobs
    await jobs.update_one({"_id": f"{flow_id}.extract"}, {"$set": ahead}, hint="_id_")
    (row,) = [row for row in (await api.get(f"/api/flows/{flow_id}/timeline")).data["rows"] if row["id"] != flow_id]
    assert row["start"] == row["end"]
    job = await api.scheduler.get_job(row["id"])
    assert job.attempts[0].duration == timedelta(0)


async def test_a_repeated_request_starts_one_flow(api: Api, ran: list[Any]) -> None:
    body = {"name": "f", "nodes": [{"job": "extract"}]}
    key = {"Idempotency-Key": "k"}
    first, second = [await api.post("/api/flows", body, headers=key) for _ in range(2)]
    assert first.data["id"] == second.data["id"] and second.headers["idempotency-replayed"] == "true"
    assert len((await api.get("/api/flows")).data) == 1
    once = [await api.post("/api/flows", {**body, "dedupeKey": "day"}) for _ in range(2)]
    assert [reply.status for reply in once] == [201, 200] and once[1].data["deduplicated"] is True
    other = await api.post("/api/flows", {**body, "name": "other", "dedupeKey": "day"})
    assert (other.status, other.body["errors"][0]["field"]) == (409, "dedupeKey")


@pytest.mark.parametrize(
    ("nodes", "field", "words"),
    [
        ([{"job": "x"}, {"job": "x", "name": "x"}], "nodes.1", "'x'"),
        ([{"job": "x", "after": ["y"]}], "nodes.0.after", "'y'"),
        ([{"job": "x", "after": ["y"]}, {"job": "y", "after": ["x"]}], "nodes", "'x' waits for 'y'"),
        (
            [{"job": "a"}, {"job": "b", "fills": [{"at": ["n"], "node": "a"}]}],
            "nodes.1",
            "'b' refers to the result of 'a'",
        ),
        ([{"job": "a", "data": {"n": 1}, "fills": [{"at": ["n"], "node": "a"}]}], "nodes.0.fills.0.at", "value"),
        ([{"job": "mainspring:flow"}], "nodes.0.job", "mainspring:"),
        ([{"job": "a"}, {"name": "hook", "endpoint": "ftp://x"}], "nodes.1.endpoint", "Node 'hook'"),
        ([{"name": "none"}], "nodes.0.job", "work is missing"),
        ([{"job": "a", "tolerate": 1}], "nodes.0.tolerate", "maps"),
        ([{"job": "a", "over": [1, 2]}], "nodes.0", "item"),
        ([{"name": "hook", "endpoint": "https://example.com/", "over": [{}]}], "nodes.0.over", "handler"),
        ([{"job": "a", "name": "a/b"}], "nodes.0.name", "pattern"),
        ([], "nodes", "at least 1"),
        ([{"job": "a", "runAt": "2030-01-01T00:00:00Z"}], "nodes.0.runAt", "no such field"),
    ],
)
async def test_a_refusal_names_the_node_and_the_field(
    api: Api, nodes: list[dict[str, Any]], field: str, words: str
) -> None:
    reply = await api.post("/api/flows", {"name": "f", "nodes": nodes})
    assert reply.status == 422, reply.text
    assert reply.body["errors"][0]["field"] == field and words in reply.body["detail"], reply.text
    assert (await api.get("/api/flows")).data == [] and await actions(api) == []


async def test_data_that_a_handler_would_refuse_is_refused(api: Api, ran: list[Any]) -> None:
    reply = await api.post("/api/flows", {"name": "f", "nodes": [{"job": "load", "data": {"rows": "many"}}]})
    assert reply.status == 422 and reply.body["detail"].startswith("Node 'load'"), reply.text


async def test_hidden_values_of_nodes_are_shown_nowhere(api: Api, ran: list[Any]) -> None:
    nodes = [{"job": "nobody", "data": {"password": "hunter2-hunter2"}}]
    started = await api.post("/api/flows", {**NIGHTLY, "nodes": nodes})
    flow_id = started.data["id"]
    assert started.data["data"] == {"day": 3, "password": "[redacted]"}
    paths = [f"flows/{flow_id}", "flows", f"jobs/{flow_id}", f"jobs/{flow_id}/detail", f"flows/{flow_id}/timeline"]
    for path in (*paths, "jobs/search", "audit"):
        assert "hunter2" not in (await api.get(f"/api/{path}")).text, path


async def test_a_webhook_is_a_node_with_results_in_its_templates(api: Api, ran: list[Any]) -> None:
    nodes = [
        {"job": "extract"},
        {
            "name": "hook",
            "endpoint": "https://example.com/{{data.rows}}",
            "after": ["extract"],
            "fills": [{"at": ["rows"], "node": "extract", "path": ["rows"]}],
        },
    ]
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": nodes})).data["id"]
    root = await api.scheduler.get_job(flow_id)
    stored = root.data["nodes"][1]
    assert stored["job"] == "mainspring:http" and stored["options"]["queue"] == "http"
    assert stored["fills"] == [{"at": ["data", "rows"], "node": "extract", "path": ["rows"]}]


async def test_an_unknown_flow_and_a_plain_job_are_no_flows(api: Api) -> None:
    job = await api.scheduler.schedule("x", delay=60)
    for flow_id in ("6890b1f2c7a4e1d2f3a4b5c6", job.id):
        for method, path in (("GET", ""), ("GET", "/timeline"), ("POST", "/cancel"), ("POST", "/retry")):
            assert (await api.call(method, f"/api/flows/{flow_id}{path}")).status == 404


async def test_a_signal_is_sent_once_and_its_payload_reaches_the_handler(api: Api) -> None:
    got: list[Any] = []

    @api.scheduler.job("approve")
    async def approve(ctx: JobContext) -> None:
        got.append(await ctx.wait_for("approved"))

    await api.scheduler.start()
    job = await api.scheduler.schedule("approve")

    async def blocked() -> bool:
        return bool((await api.get(f"/api/jobs/{job.id}/detail")).data["state"] == "blocked")

    await eventually(blocked, SOON)
    detail = (await api.get(f"/api/jobs/{job.id}/detail")).data
    assert detail["waits"]["signals"] == ["approved"]
    path, key = f"/api/jobs/{job.id}/signals/approved", {"Idempotency-Key": "k"}
    sent = [await api.post(path, {"payload": {"by": "ann"}}, headers=key) for _ in range(2)]
    assert [reply.status for reply in sent] == [200, 200]
    await api.scheduler.wait(job.id, SOON)
    assert got == [{"by": "ann"}]
    assert (await api.post(path, {"payload": 1})).status == 409
    assert await actions(api) == [("job.signal", job.id)]
    assert "ann" not in (await api.get("/api/audit")).text


async def test_the_data_of_a_flow_is_not_changed_behind_its_checks(api: Api) -> None:
    flow_id = (await api.post("/api/flows", {"name": "f", "delay": "1h", "nodes": [{"job": "x"}]})).data["id"]
    data = {"label": "f", "nodes": [{"name": "x", "job": "elsewhere", "options": {"queue": "other"}}], "data": {}}
    for method, path, body in (
        ("PUT", f"jobs/{flow_id}", {"data": data}),
        ("POST", f"jobs/{flow_id}/copy", {"data": data}),
        ("POST", f"jobs/{flow_id}/copy", {}),
        ("POST", "dead-letters/retry", {"ids": [flow_id], "data": data}),
        ("POST", "dead-letters/retry", {"filter": {"name": "mainspring:flow"}, "data": data}),
    ):
        reply = await api.call(method, f"/api/{path}", json=body)
        assert (reply.status, reply.body["errors"][0]["field"]) == (422, "data"), (path, reply.text)


@pytest.mark.slow
async def test_the_stream_of_changes_follows_one_flow(api: Api, ran: list[Any]) -> None:
    other = (await api.post("/api/flows", {"name": "other", "nodes": [{"job": "extract"}]})).data["id"]
    flow_id = (await api.post("/api/flows", {"name": "f", "nodes": [{"job": "extract"}]})).data["id"]
    wanted = {
        *((flow_id, change, None) for change in ("suspended", "completed")),
        (f"{flow_id}.extract", "completed", flow_id),
    }

    def seen() -> set[tuple[str, str, str | None]]:
        return {(event.data["id"], event.data["change"], event.data.get("flowId")) for event in client.events}

    async with reading(api, f"?flowId={flow_id}") as client:
        await api.scheduler.start()
        await ended(api, flow_id)
        await eventually(lambda: wanted <= seen(), 60)
    assert not [one for one in seen() if one[0].startswith(other)]
    assert (await api.get("/api/events?flowId=6890b1f2c7a4e1d2f3a4b5c6")).status == 404


@pytest.mark.slow
async def test_the_flow_of_the_how_to_runs(api: Api, ran: list[Any]) -> None:
    page = ROOT / "docs" / "howto" / "http-api.md"
    (example,) = [json.loads(block.text) for block in blocks(page) if (block.mark, block.argument) == ("flow", "")]
    example["nodes"][0]["data"]["day"] = 3

    @api.scheduler.job("alarm")
    async def alarm() -> None:
        ran.append("alarm")

    flow_id = (await api.post("/api/flows", example)).data["id"]
    await api.scheduler.start()
    flow = await ended(api, flow_id)
    assert (flow["state"], ran[-1], "alarm" in ran) == ("completed", ("load", 7, None), False)
    assert flow["nodes"][3]["skipped"] is True
