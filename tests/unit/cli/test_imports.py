"""A command imports what it needs and no more: imports are nearly all of its time."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from fastapi.routing import APIRoute

import mainspring
from mainspring.api.endpoints import routers, subject_of
from mainspring.cli.app import app
from mainspring.cli.command_table import COMMANDS

SERVICE = {"fastapi", "starlette", "uvicorn"}
DRIVER = {"pymongo", "bson"}
HEAVY = SERVICE | DRIVER | {"aiohttp", "pydantic", "opentelemetry", "sentry_sdk", "mcp", "prometheus_client"}
RUN = "import sys; sys.argv[:1] = ['mainspring']; from mainspring.cli.app import run; run()"


def imported(code: str, *arguments: str) -> set[str]:
    """The modules that a process has imported after some code."""
    told = "import json, os, sys; os.write(3, json.dumps(sorted(sys.modules)).encode())"
    reading, writing = os.pipe()
    script = f"try:\n    exec({code!r})\nfinally:\n    exec({told.replace('3,', f'{writing},')!r})"
    with os.fdopen(reading) as modules:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            pass_fds=[writing],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        found: list[str] = json.load(modules)
        process.wait(60)
    return set(found)


@pytest.mark.parametrize("arguments", ["version", "--help", "jobs list --help", "jobs list --url http://127.0.0.1:9"])
def test_a_command_without_a_database_imports_neither_the_driver_nor_the_service(arguments: str) -> None:
    found = imported(RUN, *arguments.split())
    assert "mainspring.cli.app" in found
    assert found & HEAVY == set()
    assert [name for name in found if name.startswith(("mainspring.store", "mainspring.engine"))] == []


def test_a_program_that_stores_jobs_imports_neither_pydantic_nor_the_parts_of_rare_subjects() -> None:
    found = imported("from mainspring import Scheduler; Scheduler('mongodb://127.0.0.1:9/none')")
    assert "mainspring.store.jobs.insert" in found
    assert found & (HEAVY - DRIVER) == set()
    rare = ("alerts", "doctor", "importing", "operations", "access.audit", "privacy.reencrypt", "views.statistics")
    parts = tuple(f"mainspring.store.{one}" for one in rare)
    worker = ("mainspring.engine.worker", "mainspring.engine.chores", "mainspring.engine.claim.producer")
    subjects = ("mainspring.model.doctor", "mainspring.model.explain.facts", "mainspring.jobtypes", "mainspring.mongod")
    assert [name for name in found if name.startswith((*parts, *worker, *subjects))] == []


def test_the_package_alone_imports_little_but_its_errors() -> None:
    found = imported("import mainspring")
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("mainspring.")} == {"mainspring.errors", "mainspring.durations"}


def test_a_worker_imports_no_web_framework_and_no_terminal() -> None:
    found = imported(
        "import mainspring.cli.supervision.worker_process, mainspring.engine.worker\n"
        "from mainspring.cli.support.builtin_jobs import open_target\n"
        "open_target(None)"
    )
    assert "mainspring.engine.worker" in found
    assert found & (SERVICE | {"typer", "rich", "prometheus_client", "opentelemetry", "sentry_sdk"}) == set()


def test_the_service_imports_no_http_client() -> None:
    found = imported("from mainspring.api.app import make_app; from mainspring.api.endpoints import routers; routers()")
    assert "mainspring.api.endpoints.alerts" in found
    assert "aiohttp" not in found


def test_the_endpoints_of_one_subject_import_no_others() -> None:
    found = imported("from mainspring.api.endpoints import routers; routers('queues')")
    assert "mainspring.api.endpoints.queues" in found
    assert {"mainspring.api.endpoints.alerts", "mainspring.api.endpoints.bulk"} & found == set()


def test_every_router_is_found_by_the_subjects_of_its_paths() -> None:
    for router in routers():
        paths = [route.path for route in router.routes if isinstance(route, APIRoute)]
        assert paths and all(router in routers(subject_of(path)) for path in paths), paths


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_tells_what_a_command_tells_of_itself(name: str) -> None:
    root: Any = typer.main.get_command(app)
    command = root.commands[name]
    assert command.name == name
    assert (command.help or "").split("\n\n")[0] == COMMANDS[name].about


@pytest.mark.parametrize("group", [[], ["jobs"], ["schedules"], ["flows"]])
def test_the_list_of_commands_has_whole_sentences_in_a_pipe(
    group: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "rich_markup_mode", None)
    app([*group, "--help"], standalone_mode=False, terminal_width=80)
    listed = capsys.readouterr().out.partition("Commands:")[2]
    assert listed and "..." not in listed


def test_the_lazy_names_of_the_package_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(inspect.getfile(mainspring)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        one.asname or one.name: f"{node.module}" + (f":{one.name}" if one.asname else "")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    del seen["MountedService"]
    assert seen == mainspring._PLACES
