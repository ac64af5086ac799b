"""The settings of the service over HTTP: values, sources, versions, indexes, and no secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Api, serving
from mainspring import Scheduler
from mainspring.api.settings import service_settings

Make = Callable[..., Scheduler]


def by_name(settings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in settings}


async def test_the_settings_in_force_are_shown_with_their_sources(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOB_RETRY_ATTEMPTS", "7")
    given = service_settings(session_hours=3).model_dump(exclude={"port"}, exclude_unset=True)
    async with serving(make_scheduler(lease="30s"), **given) as api:
        found = (await api.get("/api/settings")).data
    service, scheduler = by_name(found["service"]), by_name(found["scheduler"])
    assert (service["retry_attempts"]["value"], service["retry_attempts"]["source"]) == (7, "environment")
    assert service["retry_attempts"]["variable"] == "JOB_RETRY_ATTEMPTS"
    assert (service["session_hours"]["value"], service["session_hours"]["source"]) == (3, "program")
    assert (service["timezone"]["value"], service["timezone"]["source"]) == ("UTC", "default")
    assert service["timezone"]["variable"] == "MAINSPRING_TIMEZONE"
    assert (scheduler["lease"]["value"], scheduler["lease"]["source"]) == (30, "program")
    assert scheduler["grace"]["source"] == "default"


async def test_no_secret_and_no_password_is_shown(make_scheduler: Make) -> None:
    keys = {"2026a": b"canary-encryption-key-32-bytes!!"}
    scheduler = make_scheduler(keys=keys, audit_keys={"log1": b"canary-audit-key-of-32-bytes!!!!"})
    smtp, session = "smtp://user:canary-password@127.0.0.1:1", "canary-session-secret-of-32-bytes"
    async with serving(scheduler, smtp_url=smtp, session_secret=session) as api:
        reply = await api.get("/api/settings")
    assert "canary" not in reply.text
    assert reply.data["encryption"] == {"keyIds": ["2026a"], "auditKeyIds": ["log1"]}
    service = by_name(reply.data["service"])
    assert service["smtp_url"]["value"] == service["session_secret"]["value"] == "[set]"


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_the_database_is_shown_with_its_indexes_and_a_missing_one(api: Api) -> None:
    db = api.scheduler.client.get_default_database()
    await db["jobs.audit"].drop_index("actor")
    found = (await api.get("/api/settings")).data
    database = found["database"]
    assert (database["topology"], database["embedded"], database["transactions"]) == ("replica set", False, True)
    assert database["database"] == db.name and database["collection"] == "jobs" and database["setName"]
    assert all(address.startswith("127.0.0.1:") for address in database["addresses"])
    absent = [(one["collection"], one["name"]) for one in database["indexes"] if not one["present"]]
    assert absent == [("jobs.audit", "actor")] and len(database["indexes"]) > 20
    assert found["access"] == "local" and database["version"].count(".") == 2
