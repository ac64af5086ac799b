"""A Python client that openapi-python-client makes from the service's own document calls the service."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import keyed
from mainspring.api.generate_reference import document

TOOL = Path(sys.executable).with_name("openapi-python-client")
PACKAGE = "mainspring_client"


@pytest.fixture(scope="module")
def client_package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The generated package, importable."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(document()))
    (folder / "config.yaml").write_text("post_hooks: []\n")
    made = subprocess.run(
        [
            *(str(TOOL), "generate", "--path", "openapi.json", "--meta", "none"),
            *("--config", "config.yaml", "--output-path", PACKAGE),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Unable to parse" not in made.stdout + made.stderr
    sys.path.insert(0, str(folder))
    yield PACKAGE
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def part(package: str, name: str) -> Any:
    found: ModuleType = importlib.import_module(f"{package}.{name}")
    return found


@pytest.mark.slow
async def test_a_generated_client_makes_finds_and_cancels_a_job(api: Api, client_package: str) -> None:
    key = (await keyed(api, "operator")).headers["Authorization"].removeprefix("Bearer ")
    models = part(client_package, "models")
    client = part(client_package, "client").AuthenticatedClient(base_url=api.url, token=key)
    async with client:
        body = models.JobCreation.from_dict({"name": "send", "data": {"to": 7}, "delay": "1h"})
        made = await part(client_package, "api.jobs.create_job").asyncio(client=client, body=body)
        job_id = made.data.job_id
        found = await part(client_package, "api.jobs.search_jobs").asyncio(client=client, name="send")
        assert isinstance(found, models.SearchAnswer) and [job.id for job in found.data] == [job_id]
        reason = models.CancelIn(reason="not needed")
        ended = await part(client_package, "api.jobs.cancel_job").asyncio(job_id, client=client, body=reason)
        assert isinstance(ended, models.JobAnswer) and ended.data.state == "cancelled"
        refused = await part(client_package, "api.jobs.get_job_detail").asyncio("none", client=client)
        assert isinstance(refused, models.Problem) and refused.status == 404
    assert (await api.scheduler.get_job(job_id)).state == "cancelled"


def test_operations_and_schemas_have_names_that_a_client_can_use() -> None:
    spec = document()
    names = [operation["operationId"] for methods in spec["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() and name == name.lower() and "_" in name for name in names)
    assert not [name for name in names if "api" in name.split("_") or name.endswith(("_get", "_post", "_put"))]
    schemas = spec["components"]["schemas"]
    assert all(name.isalnum() and name[0].isupper() for name in schemas)
    assert not [name for name, schema in schemas.items() if schema.get("title", name) != name]
    assert {"JobCreation", "JobAnswer", "QueueListAnswer", "Problem"} <= set(schemas)
