"""Requests made from the OpenAPI document, valid and not: no fault of ours, and every answer is one that it names.

MAINSPRING_SCHEMA=full tries many more requests of each operation.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import zlib
from collections.abc import Iterator
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

from api.conftest import Api, serving
from api.places import make_places
from harness.servers import Servers
from mainspring import Scheduler
from mainspring.api.app import make_app
from mainspring.api.middleware import rate_limit
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
# Streams and long polls answer when something happens; lines of JSON are tested by hand.
_NOT_HERE = "events|wait|bulk"

schema = schemathesis.openapi.from_dict(
    specification(make_app(Scheduler("embedded:.mainspring"), service_settings()))
).exclude(path_regex=_NOT_HERE)


@dataclass
class Running:
    """A service in a thread of its own: schemathesis waits for answers in this one."""

    api: Api
    key: str
    loop: asyncio.AbstractEventLoop

    def places(self, path: str) -> dict[str, str]:
        """What is there, made anew, for the parameters of a path."""
        return asyncio.run_coroutine_threadsafe(make_places(self.api.scheduler, path), self.loop).result(30)


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
        patch.setattr(rate_limit, "_WRONG_KEYS", 1_000_000)
        thread.start()
        assert up.wait(60)
        yield found[0]
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
    loop.close()


@schema.parametrize()
@_EXAMPLES
def test_no_request_meets_a_fault_of_ours_with_a_key_or_is_let_in_without_one(case: Any, service: Running) -> None:
    """Both in one, since it takes longer to think of the requests than to make them."""
    # Names that were made up are not there. Of most others, what they lead to is.
    if case.path_parameters and zlib.crc32(repr((case.path_parameters, case.body)).encode()) % 4:
        case.path_parameters |= service.places(case.path)

    def call(key: str) -> Any:
        return case.call(base_url=service.api.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    stranger = call("nobody")
    assert stranger.status_code in (401, 403, 413, 415), stranger.text
    answer = call(service.key)
    # No worker takes the jobs that were created here for the past; that health says so is no fault.
    ill = case.path.endswith("/health") and answer.status_code == 503
    case.validate_response(answer, checks=_CHECKS[1:] if ill else _CHECKS)
