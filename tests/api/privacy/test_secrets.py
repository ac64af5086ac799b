"""Secrets over HTTP: written, listed by name, never read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from api.conftest import Api, serving
from mainspring import Scheduler
from mainspring.jobtypes.http.signing import secret_key

Make = Callable[..., Scheduler]
CANARY = "canary-3f9a-not-to-be-seen"
ANY: dict[str, Any] = {"origins": ["*"]}


@pytest.fixture
async def sealed(make_scheduler: Make) -> AsyncIterator[Api]:
    async with serving(make_scheduler(keys={"k1": bytes(32)})) as one:
        yield one


async def rows(api: Api) -> list[Any]:
    return [(row.action, row.target) for row in await api.scheduler.audit.find()]


async def test_a_secret_is_stored_and_listed_without_its_value(sealed: Api) -> None:
    put = await sealed.put("/api/secrets/token", {"value": CANARY, **ANY})
    assert put.data | {"createdAt": 0, "updatedAt": 0} == {
        "name": "token",
        "keyId": "k1",
        "version": 1,
        "createdAt": 0,
        "updatedAt": 0,
        "actor": "local",
        "oldUntil": None,
        "origins": ["*"],
        "queues": None,
        "prefixes": None,
        "value": None,
    }
    listed = await sealed.get("/api/secrets")
    assert [one["name"] for one in listed.data] == ["token"]
    assert CANARY not in put.text + listed.text
    assert await rows(sealed) == [("secret.put", "token")]
    assert await sealed.scheduler.secrets.value("token") == CANARY


async def test_a_signing_secret_made_by_the_server_is_shown_once(sealed: Api) -> None:
    made = (await sealed.put("/api/secrets/signer", {"generate": "signing", **ANY})).data["value"]
    assert len(secret_key(made)) == 32
    again = (await sealed.put("/api/secrets/signer", {"generate": "signing", "keepOld": "1m", **ANY})).data
    assert (again["version"], again["value"] != made, again["oldUntil"][-1]) == (2, True, "Z")
    assert await sealed.scheduler.secrets.values("signer") == [again["value"], made]
    listed = await sealed.get("/api/secrets")
    assert made not in listed.text and again["value"] not in listed.text
    assert made not in str(await sealed.scheduler.audit.find())


async def test_a_deleted_secret_is_gone_and_deleting_it_again_finds_nothing(sealed: Api) -> None:
    await sealed.put("/api/secrets/token", {"value": CANARY, **ANY})
    assert (await sealed.delete("/api/secrets/token")).data["name"] == "token"
    assert (await sealed.get("/api/secrets")).data == []
    assert (await sealed.delete("/api/secrets/token")).status == 404
    assert await rows(sealed) == [("secret.delete", "token"), ("secret.put", "token")]


async def test_without_keys_for_encryption_storing_a_secret_is_refused_with_the_cure(api: Api) -> None:
    refused = await api.put("/api/secrets/token", {"value": CANARY, **ANY})
    assert refused.status == 422 and "mainspring generate-key" in refused.body["detail"]
    assert CANARY not in refused.text
    assert (await api.get("/api/secrets")).data == [] and await rows(api) == []


@pytest.mark.parametrize(
    "body",
    [{}, {"value": ""}, {"value": 5}, {"value": CANARY, "generate": "signing"}, {"generate": "x"}, {"valeu": CANARY},
     {"value": CANARY * 2000}, {"value": CANARY + "\ud800"}, {"value": CANARY, "keepOld": -1}],
    ids=["nothing", "empty", "number", "both", "kind", "field", "large", "surrogate", "negative"],
)  # fmt: skip
async def test_a_body_that_is_wrong_is_refused_without_repeating_the_value(sealed: Api, body: dict[str, Any]) -> None:
    refused = await sealed.put("/api/secrets/token", {**ANY, **body})
    assert refused.status in (400, 422), refused.text
    assert CANARY not in refused.text
    assert (await sealed.get("/api/secrets")).data == []


@pytest.mark.parametrize("name", ["a.b", "a%20b", "%24where", "x" * 65, "a%2Fb", "ключ"])
async def test_a_name_that_is_none_is_refused(sealed: Api, name: str) -> None:
    assert (await sealed.put(f"/api/secrets/{name}", {"value": CANARY, **ANY})).status in (404, 422)
    assert (await sealed.get("/api/secrets")).data == []


async def test_secrets_are_for_admins_that_reach_everything(sealed: Api) -> None:
    await sealed.scheduler.secrets.put("token", CANARY, origins=["*"])
    for role, scope, status in (("viewer", {}, 403), ("operator", {}, 403), ("admin", {"queues": ["http"]}, 403)):
        key = await sealed.scheduler.api_keys.create(role, role, **scope)  # type: ignore[arg-type]
        asked = sealed.with_key(key.text)
        assert (await asked.get("/api/secrets")).status == status
        assert (await asked.put("/api/secrets/token", {"value": "mine", **ANY})).status == status
        assert (await asked.delete("/api/secrets/token")).status == status
    assert await sealed.scheduler.secrets.value("token") == CANARY
