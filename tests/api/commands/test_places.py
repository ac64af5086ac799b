"""Which service or database a command calls, and the sentence where it cannot be called."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from api.commands.conftest import Run
from api.conftest import serving
from mainspring import Scheduler

Make = Callable[..., Scheduler]


@pytest.mark.slow
async def test_the_environment_names_the_service_and_the_key(
    bare: Run, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    key = (await make_scheduler().api_keys.create("ops", "admin")).text
    async with serving(make_scheduler(), keyless=False) as api:
        monkeypatch.setenv("MAINSPRING_URL", api.url)
        refused = await bare("status")
        assert refused.code == 2 and "needs an API key: give --key, or set MAINSPRING_API_KEY" in refused.err
        wrong = await bare("status", "--key", f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}")
        assert wrong.code == 2 and "does not accept this API key" in wrong.err and "mainspring keys create" in wrong.err
        monkeypatch.setenv("MAINSPRING_API_KEY", key)
        assert api.url in (await bare("status")).out
        monkeypatch.setenv("MAINSPRING_URI", uri)
        assert api.url in (await bare("status")).out  # the service comes first
        viewer = (await make_scheduler().api_keys.create("eyes", "viewer")).text
        forbidden = await bare("jobs", "add", "report", "--key", viewer)
        assert forbidden.code == 2 and "needs the role operator" in forbidden.err
        assert api.url not in (await bare("status", "--uri", uri)).out


async def test_a_service_that_is_down_is_told_with_what_to_do(bare: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = await bare("jobs", "list", "--url", f"http://127.0.0.1:{port}")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"The service at http://127.0.0.1:{port} cannot be reached" in ran.err and "mainspring serve" in ran.err


async def test_another_service_is_told(bare: Run, make_scheduler: Make) -> None:
    async with serving(make_scheduler()) as api:
        ran = await bare("jobs", "list", "--url", f"{api.url}/other")
    assert ran.code in (2, 3) and ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "mongodb://localhost"], "give it as --uri"),
        (["--uri", "http://localhost:3000"], "give it as --url"),
        (["--url", "localhost:3000"], "must be the URL of a service"),
        (["--url", "http://u:p@localhost"], "must not contain a password"),
        (["--url", "http://localhost", "--uri", "mongodb://localhost"], "Give one of --url, --uri and --folder"),
        (["--key", "ms_a_b", "--uri", "mongodb://localhost"], "--key is for a service"),
        (["--folder", "missing"], "the folder missing does not exist"),
        ([], "the folder .mainspring does not exist"),
    ],
)
@pytest.mark.parametrize("command", ["jobs list", "doctor"])
async def test_a_wrong_place_is_refused_and_no_database_is_started(
    command: str, arguments: list[str], sentence: str, bare: Run, tmp_path: Path
) -> None:
    ran = await bare(*command.split(), *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1) and sentence in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["status", "doctor", "migrate", "migrate --status", "keys show", "audit seal", "probe worker"]
)
async def test_a_command_does_not_create_a_database_in_a_folder_that_holds_none(
    command: str, bare: Run, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, why in (((), ".mainspring does not exist"), (("--folder", "empty"), "empty holds none")):
        ran = await bare(*command.split(), *arguments)
        assert (ran.code, ran.out) == (2, "") and f"There is no database here: the folder {why}." in ran.err
        assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


async def test_the_doctor_checks_the_service_that_the_environment_names(
    bare: Run, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    key = (await make_scheduler().api_keys.create("ops", "admin")).text
    async with serving(make_scheduler(), keyless=False) as api:
        monkeypatch.setenv("MAINSPRING_URL", api.url)
        monkeypatch.setenv("MAINSPRING_API_KEY", key)
        checks = {one["check"] for one in json.loads((await bare("doctor", "--json")).out)["findings"]}
        assert {"service keys", "health", "overview"} <= checks
        assert "topology: " in (await bare("doctor", "--uri", uri)).out
        wrong = await bare("doctor", "--key", f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}")
        assert wrong.code == 1 and "PROBLEM  API key: The service does not accept this API key" in wrong.out
        monkeypatch.delenv("MAINSPRING_API_KEY")
        assert "skipped  health: " in (await bare("doctor")).out


async def test_a_misspelt_command_or_option_is_refused(bare: Run) -> None:
    for arguments in (("jbos",), ("jobs", "lst"), ("jobs", "list", "--stat", "failed")):
        ran = await bare(*arguments)
        assert ran.code == 2 and "Did you mean" in ran.err.replace("\n", " ").replace(
            "Possible options", "Did you mean"
        )
