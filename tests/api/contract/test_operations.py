"""Every operation of the API with a request that it was made for: it succeeds, as the OpenAPI document says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import requests
import schemathesis

from api.access.test_matrix import TABLE
from api.conftest import serving
from api.places import make_places
from mainspring import Scheduler
from mainspring.api.app import make_app
from mainspring.api.settings import service_settings
from mainspring.api.specification import specification

Make = Callable[..., Scheduler]
# It goes on for as long as it is read.
_ENDLESS = "/api/events"


@pytest.mark.slow
async def test_every_operation_succeeds_with_an_answer_that_the_document_names(make_scheduler: Make) -> None:
    document = specification(make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings()))
    schema: Any = schemathesis.openapi.from_dict(document)
    operations = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    async with serving(make_scheduler(keys={"k": "A" * 43 + "="})) as api:
        key = {"Authorization": f"Bearer {(await api.scheduler.api_keys.create('tests', 'admin')).text}"}
        tried = set()
        for route, row in TABLE.items():
            method, _, path = route.replace(":path}", "}").partition(" ")
            if (method, path) not in operations or path == _ENDLESS:
                continue
            url = api.url + path.format_map(await make_places(api.scheduler, path)) + row.query
            answer = await asyncio.to_thread(requests.request, method, url, json=row.body, headers=key, timeout=60)
            assert answer.ok, (route, answer.text)
            schema[path][method].validate_response(answer)
            tried.add((method, path))
    assert operations - tried == {("GET", _ENDLESS)}
