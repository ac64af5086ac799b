"""The doctor's checks of a running HTTP service: what it tells over HTTP, and which checks need the database itself."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from mainspring.cli.calls.network import Network
from mainspring.cli.support.exit_codes import CommandFailed
from mainspring.model.doctor.findings import Finding

_HEALTH, _OVERVIEW = "/api/observability/health", "/api/overview"
_NEED_THE_DATABASE = (
    "server version, topology, write concern, clock skew, oplog, indexes, schema, TLS and authentication of MongoDB"
)
_WRONG_KEY = Finding(
    "API key",
    "problem",
    "The service does not accept this API key: it is unknown, expired or revoked.",
    "Make another on the machine that reaches the database: mainspring keys create NAME",
)


def check_service(url: str, key: str | None) -> Iterator[Finding]:
    """The findings about the service at an address."""
    with Network(url, None) as stranger, Network(url, key) as caller:
        try:
            status, _ = _get(stranger, _HEALTH)
        except CommandFailed as error:
            yield Finding("service", "problem", str(error), "Correct --url, or start the service.")
            return
        yield from _check_way(url)
        yield from _check_key(status)
        status, health = _get(caller, _HEALTH)
        if status == 401 and key is not None:
            yield _WRONG_KEY
        elif status == 401:
            yield Finding(
                "health",
                "skipped",
                "Reading the health of the service needs an API key.",
                "Give --key, or set MAINSPRING_API_KEY.",
            )
        else:
            yield from _check_health(health)
            yield from _check_overview(*_get(caller, _OVERVIEW))
    text = f"These checks need the database: {_NEED_THE_DATABASE}."
    yield Finding("database", "skipped", text, "Run it beside the database: mainspring doctor --uri URI")


def _check_way(url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        yield Finding("TLS of the service", "ok", "The service is reached over TLS.")
    elif _is_loopback(parts.hostname or ""):
        yield Finding("TLS of the service", "ok", "The service is reached without TLS, on this machine.")
    else:
        cure = "Put a TLS proxy in front of it: docs/howto/run-the-service.md."
        yield Finding(
            "TLS of the service",
            "problem",
            "The service is reached without TLS: API keys can be read in transit.",
            cure,
        )


def _check_key(status: int) -> Iterator[Finding]:
    if status == 401:
        yield Finding("service keys", "ok", "The service asks for a key.")
    else:
        text = "The service answers this user without a key, since no key exists yet."
        yield Finding("service keys", "warning", text, "Make the first key: mainspring keys create NAME")


def _check_health(health: Any) -> Iterator[Finding]:
    state = str(health.get("status", "")) if isinstance(health, dict) else ""
    reasons = [str(one) for one in health.get("reasons", ())] if isinstance(health, dict) else []
    told = {"healthy": "ok", "degraded": "warning"}.get(state, "problem")
    text = " ".join(reasons) or f"The service says that it is {state or 'in an unknown state'}."
    cure = "" if told == "ok" else "See the overview below, and docs/howto/why-is-it-not-running.md."
    yield Finding("health", told, text, cure)  # type: ignore[arg-type]


def _check_overview(status: int, overview: Any) -> Iterator[Finding]:
    if status != 200 or not isinstance(overview, dict):
        yield Finding(
            "overview",
            "skipped",
            f"The service refuses the overview ({status}).",
            "Give a key that may read the overview.",
        )
        return
    told = overview.get("data")
    found = told.get("problems", ()) if isinstance(told, dict) else ()
    problems = [one for one in found if isinstance(one, dict)]
    words = {"critical": "problem", "warning": "warning"}
    for one in problems:
        if one.get("severity") in words:
            finding = words[str(one["severity"])]
            yield Finding("overview", finding, str(one.get("text", "")), _next_command(one))  # type: ignore[arg-type]
    if not any(one.get("severity") in words for one in problems):
        yield Finding("overview", "ok", "No jobs are failing, late, stuck or without a worker.")


def _next_command(problem: Mapping[str, Any]) -> str:
    """The command that shows more of a problem, or ends it."""
    target = problem.get("target")
    target = target if isinstance(target, dict) else {}
    cures = problem.get("cures")
    verbs = {one.get("verb") for one in cures if isinstance(one, dict)} if isinstance(cures, list) else set()
    if "start_worker" in verbs:
        return "Start a worker that has the handler: mainspring worker MODULE:SCHEDULER"
    named = shlex.quote(str(target.get("id", "")))
    scope = "--queue" if "queue" in (target.get("kind"), target.get("scope")) else "--name"
    looks = {
        "queue": f"jobs list --queue {named} --state pending",
        "name": f"jobs list --name {named}",
        "breaker": f"jobs list {scope} {named} --state failed",
        "error": f"dead list --fingerprint {named}",
        "schedule": f"schedules show {named}",
        "job": f"jobs explain {named}",
    }
    return f"See more: mainspring {looks.get(str(target.get('kind')), 'status')}"


def _get(service: Network, path: str) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    reply = service.send("GET", path, None)
    try:
        return reply.status, json.loads(reply.body)
    except ValueError:
        return reply.status, None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
