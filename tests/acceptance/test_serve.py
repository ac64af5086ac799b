"""`mainspring serve`, `mainspring keys`, and the service beside the worker of `mainspring up`."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.commands import MAINSPRING, Command, clean_environment
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.client.service_backend import ServiceBackend

Start = Callable[..., Command]


async def answering(command: Command) -> str:
    """Where a command's service is, once it answers."""
    found = await eventually(lambda: re.search(r"API +(http://\S+)\n", command.output) or command.process.poll(), 60)
    assert isinstance(found, re.Match), command.output
    return str(found[1])


def ask(url: str, key: str | None = None, **body: Any) -> tuple[int, Any]:
    """The status and the JSON of an answer; with a body, it is posted."""
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*MAINSPRING, *arguments]
    env = clean_environment(**environment)
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)


async def test_serve_says_where_to_look_answers_and_ends_in_order(start: Start, uri: str) -> None:
    serve = start("serve", "--open", "--uri", uri, "--port", "0")
    url = await answering(serve)
    assert f"docs      {url}/docs" in serve.output and "mainspring keys create NAME" in serve.output
    assert ask(f"{url}/livez") == (200, {"status": "ok"})
    assert ask(f"{url}/api/session")[1]["data"]["way"] == "local"
    serve.signal(signal.SIGTERM)
    assert serve.wait() == 0
    assert serve.output.endswith("Stopped.\n") and "Traceback" not in serve.output


async def test_the_settings_of_dot_env_count_by_the_names_of_before(start: Start, uri: str, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = f"MONGODB_URI={uri}\nPORT={port}\nSCHEDULER_POLL_INTERVAL=500\nMAX_CONCURRENT_JOBS=7\n"
    (tmp_path / ".env").write_text(names + "JOB_RETRY_ATTEMPTS=4\nJOB_RETRY_DELAY=250\n")
    up = start("up", cwd=tmp_path)
    url = await answering(up)
    assert url == f"http://127.0.0.1:{port}"
    _, made = ask(f"{url}/api/jobs", endpoint="https://example.com/hook", delay="1h")
    _, job = ask(f"{url}/api/jobs/{made['data']['jobId']}")
    assert (job["data"]["retryAttempts"], job["data"]["retryDelay"]) == (4, 250)
    _, health = ask(f"{url}/api/observability/health")
    assert (health["scheduler"]["maxConcurrentJobs"], health["scheduler"]["pollInterval"]) == (7, 500)


async def test_an_application_of_ones_own_checks_what_is_asked_for(start: Start, uri: str, client: Scheduler) -> None:
    serve = start("serve", "steady:blocking", "--open", "--uri", uri, "--port", "0")
    url = await answering(serve)
    status, refused = ask(f"{url}/api/jobs", name="work", data={"nonsense": 1})
    assert (status, "nonsense" in refused["detail"]) == (422, True)
    _, made = ask(f"{url}/api/jobs", name="work")
    assert (await client.get_job(made["data"]["jobId"])).state == "pending"
    serve.signal(signal.SIGINT)
    assert serve.wait() == 0, serve.output


async def test_only_this_machine_is_served_until_there_is_a_key(start: Start, uri: str) -> None:
    refused = run("serve", "--open", "--uri", uri, "--host", "0.0.0.0", "--port", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "mainspring keys create NAME --role admin" in refused.stderr and refused.stderr.count("\n") == 1
    scoped = run("keys", "create", "ops", "--role", "viewer", "--uri", uri)
    assert scoped.returncode != 0 and "The first API key must have the role admin" in scoped.stderr
    made = run("keys", "create", "ops", "--uri", uri)
    key = made.stdout.strip()
    assert re.fullmatch(r"ms_\w{12}_\w{43}", key) and "not shown again" in made.stderr
    serve = start("serve", "--uri", uri, "--host", "0.0.0.0", "--port", "0")
    port = (await answering(serve)).rpartition(":")[2]
    assert ask(f"http://127.0.0.1:{port}/api/session")[0] == 401
    assert ask(f"http://127.0.0.1:{port}/api/session", key)[1]["data"]["role"] == "admin"


async def test_keys_are_made_listed_rotated_and_revoked_by_commands(uri: str, client: Scheduler) -> None:
    await client.api_keys.create("ops")
    options = ("--queue", "mail", "--queue", "sms", "--prefix", "acme.", "--expires-in", "90d")
    first = run("keys", "create", "tenant", "--role", "viewer", *options, MAINSPRING_URI=uri).stdout.strip()
    key = await ServiceBackend(client).check_api_key(first)
    assert key is not None and key.expires_at is not None
    assert (key.name, key.role, key.scope.queues, key.scope.prefixes) == (
        "tenant",
        "viewer",
        ("mail", "sms"),
        ("acme.",),
    )
    assert (key.expires_at - key.created_at).days in (89, 90)
    second = run("keys", "rotate", key.id, "--grace", "1h", "--uri", uri).stdout.strip()
    assert await ServiceBackend(client).check_api_key(first) and await ServiceBackend(client).check_api_key(second)
    listed = run("keys", "list", "--uri", uri).stdout
    assert re.search(rf"{key.id} +tenant +viewer +in force until .* queue mail, queue sms, acme\.…", listed)
    assert first.split("_")[2] not in listed and second.split("_")[2] not in listed
    child = await client.api_keys.create("child", actor=f"key:{key.id}")
    assert run("keys", "revoke", key.id, "--made", "--uri", uri).returncode == 0
    assert await ServiceBackend(client).check_api_key(second) is None
    assert await ServiceBackend(client).check_api_key(child.text) is None
    assert "revoked" in run("keys", "list", "--uri", uri).stdout
    unknown = run("keys", "revoke", "nobody", "--uri", uri)
    assert (unknown.returncode, unknown.stderr) == (
        3,
        "mainspring: There is no valid API key 'nobody'; `mainspring keys list` shows the ids.\n",
    )
    rows = await client.audit.find()
    assert [(row.action, row.target) for row in rows] == [
        ("key.revoke", child.key.id),
        *((f"key.{verb}", key.id) for verb in ("revoke", "rotate", "create")),
    ]
    assert all(row.actor.startswith("cli") for row in rows)


def test_what_keeps_the_service_from_starting_is_said_in_a_sentence(uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = run("serve", "--uri", uri, "--port", port)
    assert (ran.returncode, ran.stderr) == (
        2,
        f"mainspring: Port {port} of 127.0.0.1 is taken by another program; choose another with --port, "
        "or --port 0 for any that is free.\n",
    )
    wrong = run("serve", "--uri", uri, JOB_RETRY_DELAY="soon")
    assert wrong.returncode == 2 and wrong.stderr.startswith("mainspring: JOB_RETRY_DELAY is wrong: ")
    short = run("serve", "--uri", uri, MAINSPRING_SESSION_SECRET="too-short-a-canary")
    assert short.returncode == 2 and "at least 32 bytes" in short.stderr and "canary" not in short.stderr
    nowhere = run("serve", "--uri", uri, "--host", "no.such.host.invalid")
    assert nowhere.returncode == 2 and "not an address of this machine" in nowhere.stderr


def test_a_database_out_of_reach_is_said_in_a_sentence() -> None:
    ran = run("serve", "--uri", "mongodb://127.0.0.1:9", "--port", "0")
    assert ran.returncode == 1
    assert ran.stderr.startswith("mainspring: MongoDB did not answer") and "Traceback" not in ran.stderr


def test_without_its_extra_the_service_says_how_to_get_it(uri: str, tmp_path: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; sys.argv = ['mainspring', *sys.argv[1:]]; "
    code += "from mainspring.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--uri", uri]
    ran = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), cwd=tmp_path, timeout=60)
    assert (ran.returncode, ran.stderr) == (
        2,
        "mainspring: The HTTP service, webhooks and email need the extra 'api'; pip install \"mainspring[api]\"\n",
    )


async def test_up_runs_what_its_service_was_asked_for(start: Start, uri: str, client: Scheduler) -> None:
    up = start("up", "steady:blocking", "--uri", uri, "--port", "0")
    url = await answering(up)
    await eventually(lambda: "in another terminal" in up.output)
    assert f"docs      {url}/docs" in up.output
    _, made = ask(f"{url}/api/jobs", name="work")
    assert (await client.wait(made["data"]["jobId"], timeout=60)).state == "completed"
    up.signal(signal.SIGTERM)
    assert up.wait() == 0, up.output
    assert "Traceback" not in up.output


async def test_up_does_not_play_in_a_database_that_the_environment_names(
    start: Start, uri: str, client: Scheduler, tmp_path: Path
) -> None:
    up = start("up", "--port", "0", "--for", "4", cwd=tmp_path, MONGODB_URI=uri)
    await eventually(lambda: "in another terminal" in up.output)
    assert "/api/jobs -H 'Content-Type: application/json' -d '{\"endpoint\":" in up.output
    assert up.wait() == 0
    assert [job async for job in client.jobs()] == []


async def test_a_service_that_is_killed_comes_back_with_all_that_it_has_acknowledged(start: Start) -> None:
    servers = Servers(1)
    servers.start()
    try:
        uri = servers.uri("kept")
        first = start("serve", "--open", "--uri", uri, "--port", "0")
        url = await answering(first)
        jobs = [ask(f"{url}/api/jobs", name="work")[1]["data"]["jobId"] for _ in range(20)]
        first.signal(signal.SIGKILL)
        second = start("serve", "--open", "--uri", uri, "--port", "0")
        url = await answering(second)
        assert {ask(f"{url}/api/jobs/{job}")[0] for job in jobs} == {200}
        second.stop()
    finally:
        servers.stop()
