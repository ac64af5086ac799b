"""API keys over HTTP: shown once, limited to what their maker has, ended at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from api.access.test_sessions import log_in
from api.conftest import Api


async def made(api: Api, **options: object) -> Api:
    """The service, asked with a new admin's key."""
    return api.with_key((await api.scheduler.api_keys.create("ops", "admin", **options)).text)  # type: ignore[arg-type]


async def test_the_first_key_is_an_admins_and_every_other_an_operators(api: Api) -> None:
    first = (await api.post("/api/keys", {"name": "first"})).data
    assert (first["role"], first["scope"]) == ("admin", {"queues": None, "prefixes": None})
    assert (await api.with_key(first["key"]).post("/api/keys", {"name": "second"})).data["role"] == "operator"
    assert (await api.scheduler.api_keys.create("third")).key.role == "operator"


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"role": "operator"}, "role"),
        ({"role": "viewer"}, "role"),
        ({"queues": ["q"]}, "queues"),
        ({"prefixes": ["x"]}, "queues"),
    ],
)
async def test_a_first_key_that_could_make_no_other_is_refused(api: Api, choice: dict[str, Any], field: str) -> None:
    reply = await api.post("/api/keys", {"name": "first", **choice})
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, field)
    assert "The first API key must have the role admin" in reply.body["detail"]
    assert await api.scheduler.api_keys.all() == []


async def test_a_key_is_shown_once_and_opens_what_its_role_may(api: Api) -> None:
    ops = await api.scheduler.api_keys.create("ops", "admin")
    api = api.with_key(ops.text)
    body = {"name": "billing", "role": "viewer", "queues": ["billing"], "prefixes": ["acme."]}
    created = await api.post("/api/keys", body)
    key = created.data
    assert (created.status, key["scope"], key["createdBy"]) == (
        201,
        {"queues": ["billing"], "prefixes": ["acme."]},
        f"key:{ops.key.id}",
    )
    who = (await api.with_key(key["key"]).get("/api/session")).data
    assert (who["way"], who["role"], who["name"], who["scope"]) == ("key", "viewer", "billing", key["scope"])
    assert (await api.with_key(key["key"]).get("/api/keys")).status == 403
    listed = await api.get("/api/keys")
    assert [one["name"] for one in listed.data] == ["ops", "billing"]
    assert key["key"].split("_")[2] not in listed.text and "hash" not in listed.text.lower()


async def test_a_key_ends_when_it_was_said_to(api: Api) -> None:
    end = api.scheduler.now() + timedelta(days=1)
    key = (await api.post("/api/keys", {"name": "short", "expiresAt": end.isoformat()})).data
    who = (await api.with_key(key["key"]).get("/api/session")).data
    assert who["expiresAt"] == key["expiresAt"] == end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "role": "owner"},
        {"name": "x", "queues": []},
        {"name": "x", "queues": "mail"},
        {"name": "x", "expiresAt": "2020-01-01T00:00:00Z"},
        {"name": "x", "expiresAt": "2030-01-01T00:00:00"},
        {"name": "x", "hash": "0"},
        {"name": "x", "createdAt": "2030-01-01T00:00:00Z"},
        {"name": {"$ne": None}},
    ],
    ids=str,
)
async def test_a_key_that_makes_no_sense_is_refused_with_the_field(api: Api, body: dict[str, object]) -> None:
    reply = await api.post("/api/keys", body)
    assert reply.status == 422
    assert await api.scheduler.api_keys.all() == []
    assert await api.scheduler.audit.find() == []


@pytest.mark.slow
async def test_a_rotated_key_has_a_new_secret_and_the_old_one_counts_for_the_grace_time(api: Api) -> None:
    admin = await made(api)
    key = (await admin.post("/api/keys", {"name": "billing"})).data
    path = f"/api/keys/{key['id']}/rotate"
    second = (await admin.post(path, {"grace": "1h"})).data
    assert second["oldUntil"] > second["rotatedAt"]
    for text in (key["key"], second["key"]):
        assert (await api.with_key(text).get("/api/session")).status == 200
    third = (await admin.post(path)).data
    statuses = [(await api.with_key(one["key"]).get("/api/session")).status for one in (key, second, third)]
    assert statuses == [401, 401, 200]
    assert (await admin.post(path, {"grace": "31d"})).status == 422


async def test_a_revoked_key_stays_in_the_list_and_opens_nothing(api: Api) -> None:
    admin = await made(api)
    key = (await admin.post("/api/keys", {"name": "billing"})).data
    revoked = (await admin.delete(f"/api/keys/{key['id']}")).data
    assert revoked["revokedAt"] is not None
    assert (await api.with_key(key["key"]).get("/api/session")).status == 401
    assert key["id"] in [one["id"] for one in (await admin.get("/api/keys")).data]
    assert (await admin.post(f"/api/keys/{key['id']}/rotate")).status == 404


async def test_an_admin_with_a_scope_gives_away_no_more_than_he_has(api: Api) -> None:
    admin = await made(api, queues=["acme"], prefixes=["acme."])
    everywhere = await api.scheduler.api_keys.create("root", "admin")
    assert (await admin.post("/api/keys", {"name": "x"})).status == 403
    assert (await admin.post("/api/keys", {"name": "x", "queues": ["acme"]})).status == 403
    assert (
        await admin.post("/api/keys", {"name": "x", "queues": ["acme", "other"], "prefixes": ["acme."]})
    ).status == 403
    assert (await admin.post("/api/keys", {"name": "x", "queues": ["acme"], "prefixes": ["acm"]})).status == 403
    mine = (await admin.post("/api/keys", {"name": "mine", "queues": ["acme"], "prefixes": ["acme.mail"]})).data
    assert [one["name"] for one in (await admin.get("/api/keys")).data] == ["ops", "mine"]
    for path, method in (
        (f"/api/keys/{everywhere.key.id}", "DELETE"),
        (f"/api/keys/{everywhere.key.id}/rotate", "POST"),
    ):
        assert (await admin.call(method, path)).status == 404
    assert (await api.with_key(everywhere.text).get("/api/session")).status == 200
    assert (await admin.delete(f"/api/keys/{mine['id']}")).status == 200


async def test_a_key_ends_no_later_than_the_one_it_was_made_with(api: Api) -> None:
    end = api.scheduler.now() + timedelta(minutes=10)
    admin = await made(api, expires_at=end)
    told = end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (await admin.post("/api/keys", {"name": "same"})).data["expiresAt"] == told
    sooner = (end - timedelta(minutes=5)).isoformat()
    assert (await admin.post("/api/keys", {"name": "sooner", "expiresAt": sooner})).data["expiresAt"] < told
    refused = await admin.post("/api/keys", {"name": "x", "expiresAt": (end + timedelta(seconds=1)).isoformat()})
    assert (refused.status, refused.body["errors"][0]["field"]) == (403, "expiresAt")
    assert [key.name for key in await api.scheduler.api_keys.all()] == ["ops", "same", "sooner"]


@pytest.mark.slow
async def test_a_session_makes_no_key_that_ends_later_than_its_own(api: Api) -> None:
    end = api.scheduler.now() + timedelta(minutes=10)
    key = await api.scheduler.api_keys.create("ops", "admin", expires_at=end)
    browser, token = await log_in(api, key.text)
    same = (await browser.post("/api/keys", {"name": "same"}, headers={"X-Csrf-Token": token})).data
    assert same["expiresAt"] == end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.slow
async def test_an_admin_is_not_shown_the_secret_of_a_key_that_ends_later_than_its_own(api: Api) -> None:
    lasting = await api.scheduler.api_keys.create("root", "admin")
    admin = await made(api, expires_at=api.scheduler.now() + timedelta(minutes=10))
    refused = await admin.post(f"/api/keys/{lasting.key.id}/rotate")
    assert (refused.status, "key" in refused.body) == (403, False)
    assert (await api.with_key(lasting.text).get("/api/session")).status == 200
    own = (await admin.get("/api/session")).data["actor"].removeprefix("key:")
    assert (await admin.post(f"/api/keys/{own}/rotate")).status == 200


@pytest.mark.slow
async def test_an_admin_with_a_scope_sees_and_changes_only_itself_and_what_was_made_with_it(api: Api) -> None:
    root = await made(api)
    sibling = await api.scheduler.api_keys.create("sibling", "operator", queues=["acme"])
    admin = await api.scheduler.api_keys.create("tenant", "admin", queues=["acme"])
    tenant = api.with_key(admin.text)
    child = (await tenant.post("/api/keys", {"name": "child", "role": "admin", "queues": ["acme"]})).data
    grandchild = (await api.with_key(child["key"]).post("/api/keys", {"name": "grandchild", "queues": ["acme"]})).data
    assert [one["name"] for one in (await tenant.get("/api/keys")).data] == ["tenant", "child", "grandchild"]
    assert [one["name"] for one in (await api.with_key(child["key"]).get("/api/keys")).data] == ["child", "grandchild"]
    for one, other in ((tenant, sibling.key.id), (api.with_key(child["key"]), admin.key.id)):
        assert (await one.post(f"/api/keys/{other}/rotate")).status == 404
        assert (await one.delete(f"/api/keys/{other}")).status == 404
    for text in (sibling.text, admin.text):
        assert (await api.with_key(text).get("/api/session")).status == 200
    assert (await tenant.post(f"/api/keys/{grandchild['id']}/rotate")).status == 200
    assert (await root.post(f"/api/keys/{sibling.key.id}/rotate")).status == 200


@pytest.mark.slow
async def test_a_leaked_key_is_revoked_with_all_that_was_made_with_it(api: Api) -> None:
    root = await made(api)
    leaked = (await root.post("/api/keys", {"name": "leaked", "role": "admin"})).data
    child = (await api.with_key(leaked["key"]).post("/api/keys", {"name": "child", "role": "admin"})).data
    grandchild = (await api.with_key(child["key"]).post("/api/keys", {"name": "grandchild"})).data
    other = (await root.post("/api/keys", {"name": "other"})).data
    assert (await root.delete(f"/api/keys/{leaked['id']}")).status == 200
    assert (await api.with_key(child["key"]).get("/api/session")).status == 200, "a successor stays in force"
    assert (await root.delete(f"/api/keys/{leaked['id']}?made=true")).status == 200
    statuses = [
        (await api.with_key(one["key"]).get("/api/session")).status for one in (leaked, child, grandchild, other)
    ]
    assert statuses == [401, 401, 401, 200]
    assert (await root.get("/api/session")).status == 200
    rows = [row.target for row in await api.scheduler.audit.find() if row.action == "key.revoke"]
    assert rows == [grandchild["id"], child["id"], leaked["id"], leaked["id"]]


async def test_a_key_whose_maker_is_revoked_meanwhile_is_not_left_in_force(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaked = await api.scheduler.api_keys.create("leaked", "admin")
    plain = api.scheduler.api_keys.create

    async def slowly(*args: Any, **options: Any) -> Any:
        await api.scheduler.api_keys.revoke(leaked.key.id)
        await api.scheduler.api_keys.revoke_made_with(leaked.key.id)
        return await plain(*args, **options)

    monkeypatch.setattr(api.scheduler.api_keys, "create", slowly)
    reply = await api.with_key(leaked.text).post("/api/keys", {"name": "late", "role": "admin"})
    assert (reply.status, "ms_" in reply.text.replace("ms_…", "")) == (401, False)
    assert [key.name for key in await api.scheduler.api_keys.all() if key.revoked_at is None] == []


@pytest.mark.slow
async def test_the_old_secret_of_a_rotated_key_changes_no_keys(api: Api) -> None:
    old = await api.scheduler.api_keys.create("ops", "admin")
    browser, token = await log_in(api, old.text)
    browser.headers["X-Csrf-Token"] = token
    other = await api.scheduler.api_keys.create("other")
    new = await api.scheduler.api_keys.rotate(old.key.id, timedelta(hours=1))
    for caller in (api.with_key(old.text), browser):
        assert (await caller.get("/api/keys")).status == 200
        for method, path in (
            ("POST", "/api/keys"),
            ("POST", f"/api/keys/{old.key.id}/rotate"),
            ("DELETE", f"/api/keys/{other.key.id}"),
        ):
            body = {"name": "x"} if path == "/api/keys" else None
            refused = await caller.call(method, path, json=body)
            assert (refused.status, "was rotated" in refused.body["detail"]) == (403, True)
    assert (await api.with_key(new.text).post("/api/keys", {"name": "x"})).status == 201


async def test_each_change_of_a_key_is_written_down_once_and_never_its_secret(api: Api) -> None:
    admin = await made(api)
    key = (await admin.post("/api/keys", {"name": "billing", "role": "viewer"})).data
    rotated = (await admin.post(f"/api/keys/{key['id']}/rotate", {"grace": "1s"})).data
    await admin.delete(f"/api/keys/{key['id']}")
    rows = await api.scheduler.audit.find()
    assert [(row.action, row.target, row.address) for row in rows] == [
        (f"key.{verb}", key["id"], "127.0.0.1") for verb in ("revoke", "rotate", "create")
    ]
    assert all(row.actor.startswith("key:") for row in rows)
    assert rows[2].value_after()["role"] == "viewer" and "revokedAt" in rows[0].value_after()
    assert not [text for text in (key["key"], rotated["key"]) if text.split("_")[2] in str(rows)]
