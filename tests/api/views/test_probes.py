"""The probes of containers: the paths that the manifests name, and the command `mainspring probe`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from api.conftest import Api
from harness.pages import ROOT
from mainspring import Scheduler, Unavailable
from mainspring.cli import probe as probe_module
from mainspring.cli.app import app


async def run(*words: str, **variables: str) -> tuple[int, str]:
    """Run the command in a thread, since it has an event loop of its own; its exit code and its output."""
    done = await asyncio.to_thread(lambda: CliRunner().invoke(app, ["probe", *words], env=variables))
    return done.exit_code, done.stdout


async def test_the_paths_of_the_manifests_are_answered_without_a_key(api: Api) -> None:
    (deployment, *_) = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "serve.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert set(paths) == {"startupProbe", "livenessProbe", "readinessProbe"}
    for path in paths.values():
        assert (await api.get(path)).status == 200, path


async def test_the_service_is_probed_at_its_port(api: Api) -> None:
    port = api.url.rpartition(":")[2]
    for host in ("127.0.0.1", "0.0.0.0"):
        assert (await run("serve", MAINSPRING_PORT=port, MAINSPRING_HOST=host))[0] == 0
    assert await run("serve", "--ready", MAINSPRING_PORT=port) == (0, "/readyz answers with 200.\n")
    code, said = await run("serve", MAINSPRING_PORT="9")
    assert code == 1 and "does not answer" in said


@pytest.mark.slow
async def test_a_worker_is_probed_by_its_heartbeat(
    make_scheduler: Callable[..., Scheduler], uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await run("worker", "--uri", uri))[0] == 1
    scheduler = make_scheduler()
    await scheduler.start()
    code, said = await run("worker", "--uri", uri)
    assert (code, said.rstrip()[-3:]) == (0, " 1.")
    monkeypatch.setattr("socket.gethostname", lambda: "another host")
    assert (await run("worker", "--uri", uri))[0] == 1
    silent = {"_id": "w", "host": "another host", "beat_at": scheduler.now() - timedelta(days=1), "queues": None}
    await scheduler.client.get_default_database()["jobs.workers"].insert_one(silent)
    assert (await run("worker", "--uri", uri))[0] == 1, "it has been silent for a day"


async def test_a_database_that_cannot_be_reached_makes_a_worker_not_ready_but_not_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*given: Any) -> None:
        raise Unavailable("no server")

    monkeypatch.setattr(probe_module, "on_database", unreachable)
    there = ("worker", "--uri", "mongodb://127.0.0.1:1/x")
    assert [(await run(*there, *words))[0] for words in ((), ("--ready",))] == [0, 1]
