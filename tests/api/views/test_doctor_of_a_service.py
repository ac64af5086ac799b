"""The doctor on a running service: what it tells over HTTP, with and without a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from api.conftest import Api, serving
from harness.sinks import Sink, reply
from mainspring import Finding, Scheduler
from mainspring.cli.calls.service_checks import _check_health, _check_overview, _check_way, check_service

Make = Callable[..., Scheduler]


async def look(api: Api, key: str | None = None) -> dict[str, Finding]:
    found = await asyncio.to_thread(lambda: list(check_service(api.url, key)))
    return {finding.check: finding for finding in found}


async def test_a_service_without_keys_is_told_with_its_problems(make_scheduler: Make) -> None:
    async with serving(make_scheduler()) as api:
        found = await look(api)
    assert found["service keys"].status == "warning" and "keys create" in found["service keys"].cure
    assert found["TLS of the service"].status == "ok"
    assert found["health"].status == "warning" and "No worker is alive" in found["health"].text
    assert found["overview"].status == "warning" and "No worker is alive" in found["overview"].text
    assert "mainspring worker MODULE:SCHEDULER" in found["overview"].cure
    assert found["database"].status == "skipped" and "indexes" in found["database"].text


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://jobs.example.com", "ok"),
        ("http://localhost:8080", "ok"),
        ("http://[::1]:8080", "ok"),
        ("http://jobs.example.com", "problem"),
        ("http://10.0.0.5", "problem"),
    ],
)
def test_a_service_on_another_machine_is_to_be_reached_over_tls(url: str, status: str) -> None:
    assert [finding.status for finding in _check_way(url)] == [status]


@pytest.mark.parametrize(
    ("health", "status"),
    [
        ({"status": "healthy"}, "ok"),
        ({"status": "degraded"}, "warning"),
        ({"status": "unhealthy"}, "problem"),
        (None, "problem"),
    ],
)
def test_the_health_of_a_service_is_judged(health: object, status: str) -> None:
    assert [finding.status for finding in _check_health(health)] == [status]


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ({"kind": "queue", "id": "mail"}, "mainspring jobs list --queue mail --state pending"),
        ({"kind": "name", "id": "send; rm"}, "mainspring jobs list --name 'send; rm'"),
        ({"kind": "breaker", "id": "pay", "scope": "queue"}, "mainspring jobs list --queue pay --state failed"),
        ({"kind": "breaker", "id": "pay", "scope": "name"}, "mainspring jobs list --name pay --state failed"),
        ({"kind": "schedule", "id": "nightly"}, "mainspring schedules show nightly"),
        ({"kind": "error", "id": "86fa"}, "mainspring dead list --fingerprint 86fa"),
        ({"kind": "job", "id": "17"}, "mainspring jobs explain 17"),
        ({"kind": "of a later version"}, "mainspring status"),
        (None, "mainspring status"),
    ],
)
def test_a_problem_of_the_overview_names_the_command_that_shows_more_of_it(target: object, command: str) -> None:
    problem = {"severity": "warning", "text": "It is late.", "target": target, "cures": []}
    (found,) = _check_overview(200, {"data": {"problems": [problem]}})
    assert found.cure == f"See more: {command}"


async def test_the_key_is_sent_to_the_given_address_and_nowhere_else() -> None:
    async with Sink() as other, Sink() as sink:
        sink.answers = [reply(302, b"{}", Location=other.url)]
        found = await asyncio.to_thread(lambda: list(check_service(sink.url, "ms_canary")))
        assert "Bearer ms_canary" in [one.header("Authorization") for one in sink.received]
        assert other.connections == 0 and found[-1].check == "database"


async def test_a_service_with_keys_tells_more_to_a_caller_with_one(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.job("work")
    async def work() -> None: ...

    made = await scheduler.api_keys.create("ops", "admin")
    async with scheduler, serving(scheduler) as api:
        without, wrong = await look(api), await look(api, "nonsense")
        found = await look(api, made.text)
    assert without["service keys"].status == "ok" and without["health"].status == "skipped"
    assert "overview" not in without and "health" not in wrong
    assert wrong["API key"].status == "problem" and "keys create" in wrong["API key"].cure
    assert found["health"].status == found["overview"].status == "ok"
