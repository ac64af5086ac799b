"""Requests made from the OpenAPI document, valid and not: no fault of ours, and every answer is one that it names.

MAINSPRING_SCHEMA=full tries many more requests of each operation.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import secrets
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.generation.drivers import CoverageGenerator
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.generation.overrides import Override

from api.conftest import Api, serving
from api.contract.test_reference import DOCUMENT
from api.places import make_places
from harness.servers import Servers
from mainspring import Scheduler
from mainspring.api.app import make_app
from mainspring.api.middleware import request_bounds
from mainspring.api.settings import service_settings
from mainspring.api.specification import specification

FULL = os.environ.get("MAINSPRING_SCHEMA") == "full"
pytestmark = [pytest.mark.timeout(1800 if FULL else 120), pytest.mark.slow]
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_EXAMPLES = settings(
    max_examples=100 if FULL else 4,
    deadline=None,
    database=None,
    derandomize=not FULL,
    suppress_health_check=list(HealthCheck),
)
# Of the requests made by rule, the first of each kind is made, and of all others one in so many.
_SAMPLED = 1 if FULL else 5
# Streams and long polls answer when something happens; lines of JSON are tested by hand.
_NOT_HERE = "events|wait|bulk|batch"

# The operations by their names in the committed document, which test_reference.py compares with the code: to make the
# document and the requests takes seconds, and each of the processes of pytest would do so only to list the tests.
OPERATIONS = sorted(
    f"{method.upper()} {path}"
    for path, methods in json.loads(DOCUMENT.read_text())["paths"].items()
    for method in methods
    if not re.search(_NOT_HERE, path)
)


@functools.cache
def _operations() -> dict[str, Any]:
    """The operations of the code, by their names."""
    schema = schemathesis.openapi.from_dict(
        specification(make_app(Scheduler("embedded:.mainspring"), service_settings()))
    ).exclude(path_regex=_NOT_HERE)
    found: list[Any] = list(schema.get_all_operations())
    return {result.ok().label: result.ok() for result in found}


@dataclass
class Running:
    """A service in a thread of its own: schemathesis waits for answers in this one."""

    api: Api
    key: str
    loop: asyncio.AbstractEventLoop

    def places(self, path: str) -> dict[str, str]:
        """What is there, made anew, for the parameters of a path."""
        return asyncio.run_coroutine_threadsafe(make_places(self.api.scheduler, path), self.loop).result(60)


@pytest.fixture(scope="module")
def service(servers: Servers) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    done = asyncio.Event()
    found: list[Running] = []
    up = threading.Event()

    async def run() -> None:
        scheduler = Scheduler(servers.uri(f"t_{secrets.token_hex(4)}"), keys={"k": "A" * 43 + "="})
        async with serving(scheduler, requests_per_minute=1_000_000) as api:
            key = await scheduler.api_keys.create("tests", "admin")
            found.append(Running(api, key.text, loop))
            up.set()
            await done.wait()
        await scheduler.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_bounds, "_WRONG_KEYS", 1_000_000)
        thread.start()
        assert up.wait(60)
        yield found[0]
        loop.call_soon_threadsafe(done.set)
        thread.join(60)
    loop.close()


def test_every_operation_has_its_test() -> None:
    assert sorted(_operations()) == OPERATIONS


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_meets_a_fault_of_ours_with_a_key_or_is_let_in_without_one(label: str, service: Running) -> None:
    """Both in one, since it takes longer to think of the requests than to make them."""
    operation = _operations()[label]
    for case in _covering(operation):
        _try(case, service)
    modes = [HypothesisTestMode.EXAMPLES, HypothesisTestMode.FUZZING]
    config = HypothesisTestConfig(project=operation.schema.config, modes=modes, settings=_EXAMPLES)
    create_test(operation=operation, test_func=_try, config=config)(service=service)


def _covering(operation: Any) -> Iterator[Any]:
    """Requests at and beyond each bound of the document: of each kind of value in each place one at least."""
    generation = operation.schema.config.generation_for(operation=operation, phase="coverage")
    cases: Iterable[Any] = CoverageGenerator(
        operation=operation,
        generation_modes=generation.modes,
        generation_config=generation,
        auth_storage=None,
        override=Override(),
        feedback=FeedbackSources(),
    )
    seen: set[Any] = set()
    for place, case in enumerate(cases):
        kind = case.meta.phase.data
        key = (case.method, kind.scenario, kind.parameter_location, kind.parameter, kind.description)
        if key not in seen or place % _SAMPLED == 0:
            seen.add(key)
            yield case


def _try(case: Any, service: Running) -> None:
    # Names that were made up are not there. Of most others, what they lead to is.
    if case.path_parameters and zlib.crc32(repr((case.path_parameters, case.body)).encode()) % 4:
        case.path_parameters |= service.places(case.path)

    def call(key: str) -> Any:
        return case.call(base_url=service.api.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    stranger = call("nobody")
    assert stranger.status_code in (401, 403, 413, 415, 431), stranger.text
    answer = call(service.key)
    # No worker takes the jobs that were created here for the past; that health says so is no fault.
    ill = case.path.endswith("/health") and answer.status_code == 503
    case.validate_response(answer, checks=_CHECKS[1:] if ill else _CHECKS)
