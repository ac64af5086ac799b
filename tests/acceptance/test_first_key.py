"""`mainspring serve` is closed: its first start makes an admin key, and tells it to its user alone."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.test_serve import answering, ask
from harness.commands import MAINSPRING, Command, clean_environment
from harness.waiting import eventually
from mainspring import Scheduler

Start = Callable[..., Command]
KEY = re.compile(r"ms_\w{12}_\w{43}")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where this user's settings lie; the commands of `start` know it, too."""
    return tmp_path / "config"


@pytest.fixture
def api_key(uri: str, config: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `mainspring keys` on the test's database."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = clean_environment(XDG_CONFIG_HOME=str(config))
        command = [*MAINSPRING, "keys", *arguments, "--uri", uri]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)

    return run


def stored(config: Path) -> list[Path]:
    folder = config / "mainspring" / "api-keys"
    return sorted(folder.iterdir()) if folder.exists() else []


async def test_the_first_start_stores_an_admin_key_for_its_user_and_keeps_it_out_of_logs(
    start: Start, uri: str, client: Scheduler, config: Path, api_key: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    serve = start("serve", "--uri", uri, "--port", "0")
    url = await answering(serve)
    (path,) = stored(config)
    command = f"mainspring keys show --uri {shlex.quote(uri)}"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    await eventually(lambda: f"stored    {path}; {command} prints it\n" in serve.output)
    assert "  first key created, since there was none (admin)\n" in serve.output
    assert "access    with an API key\n" in serve.output and not KEY.search(serve.output)
    key = path.read_text().strip()
    assert ask(f"{url}/api/session")[0] == 401
    assert ask(f"{url}/api/session", key)[1]["data"]["role"] == "admin"
    assert api_key("show").stdout == f"{key}\n"
    (row,) = await client.audit.find()
    assert (row.action, row.target) == ("key.create", path.name) and key not in str(row)
    serve.signal(signal.SIGTERM)
    assert serve.wait() == 0
    again = start("serve", "--uri", uri, "--port", "0")
    url = await answering(again)
    assert ask(f"{url}/api/session", key)[0] == 200
    assert "stored" not in again.output and len(await client.api_keys.all()) == 1


async def test_services_that_start_at_once_make_one_key(
    start: Start, uri: str, client: Scheduler, config: Path
) -> None:
    services = [start("serve", "--uri", uri, "--port", "0") for _ in range(3)]
    urls = [await answering(serve) for serve in services]
    (path,) = stored(config)
    assert {ask(f"{url}/api/session", path.read_text().strip())[0] for url in urls} == {200}
    assert len(await client.api_keys.all()) == 1
    await eventually(lambda: all("stop      Ctrl-C" in serve.output for serve in services))
    assert sum("stored" in serve.output for serve in services) == 1


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)


@pytest.mark.parametrize("storable", [True, False])
def test_on_a_terminal_the_first_key_is_printed_this_once(uri: str, config: Path, storable: bool) -> None:
    if not storable:
        config.write_text("a file, not a folder")
    with terminal() as (ours, theirs):
        command = [*MAINSPRING, "serve", "--uri", uri, "--port", "0"]
        env = clean_environment(XDG_CONFIG_HOME=str(config))
        serve = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        try:
            shown = ""
            while "Ctrl-C" not in shown:
                shown += os.read(ours, 4096).decode()
        finally:
            serve.kill()
            serve.wait()
    (key,) = KEY.findall(shown)
    assert "first key ms_" in shown and "not shown again" in shown
    assert [path.read_text().strip() for path in (stored(config) if storable else [])] == ([key] if storable else [])
    assert ("stored    " in shown) is storable


async def test_without_a_place_to_store_the_first_key_or_a_terminal_nothing_is_started(
    start: Start, uri: str, client: Scheduler, config: Path
) -> None:
    config.write_text("a file, not a folder")
    serve = start("serve", "--uri", uri, "--port", "0")
    assert serve.wait() == 2
    assert "the first one cannot be stored in" in serve.output and "mainspring keys create NAME" in serve.output
    assert await client.api_keys.all() == []


async def test_the_stored_key_follows_its_rotation_and_goes_with_its_end(
    start: Start, uri: str, client: Scheduler, config: Path, api_key: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    serve = start("serve", "--uri", uri, "--port", "0")
    await answering(serve)
    serve.stop()
    (path,) = stored(config)
    rotated = api_key("rotate", path.name).stdout
    assert path.read_text() == rotated == api_key("show").stdout
    await client.api_keys.rotate(path.name)
    shown = api_key("show")
    assert (shown.returncode, shown.stdout) == (2, "") and "No valid key for this database" in shown.stderr
    api_key("revoke", path.name)
    assert stored(config) == []


async def test_serve_is_open_only_if_asked_to_and_on_loopback(start: Start, uri: str, client: Scheduler) -> None:
    refused = start("serve", "--open", "--uri", uri, "--host", "0.0.0.0", "--port", "0")
    assert refused.wait() == 2 and "only this machine may be served, not 0.0.0.0" in refused.output
    serve = start("serve", "--open", "--uri", uri, "--port", "0")
    url = await answering(serve)
    assert ask(f"{url}/api/session")[1]["data"]["way"] == "local"
    assert "access    without a key, only for this user on this machine" in serve.output
    await client.api_keys.create("ops")
    assert ask(f"{url}/api/session")[0] == 401


async def test_a_service_for_other_machines_makes_the_first_key_before_it_answers(
    start: Start, uri: str, config: Path
) -> None:
    serve = start("serve", "--uri", uri, "--host", "0.0.0.0", "--port", "0")
    port = (await answering(serve)).rpartition(":")[2]
    (path,) = stored(config)
    assert ask(f"http://127.0.0.1:{port}/api/session")[0] == 401
    assert ask(f"http://127.0.0.1:{port}/api/session", path.read_text().strip())[1]["data"]["role"] == "admin"
    await eventually(lambda: "  first key created, since there was none (admin)\n" in serve.output)
