"""API keys over HTTP: shown once, limited to what their maker has, ended at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from api.conftest import Api


async def made(api: Api, **options: object) -> Api:
    """The service, asked with a new admin's key."""
    return api.with_key((await api.scheduler.create_api_key("ops", "admin", **options)).text)  # type: ignore[arg-type]


async def test_a_key_is_shown_once_and_opens_what_its_role_may(api: Api) -> None:
    body = {"name": "billing", "role": "viewer", "queues": ["billing"], "prefixes": ["acme."]}
    created = await api.post("/api/keys", body)
    key = created.data
    assert (created.status, key["scope"], key["createdBy"]) == (
        201,
        {"queues": ["billing"], "prefixes": ["acme."]},
        "local",
    )
    who = (await api.with_key(key["key"]).get("/api/session")).data
    assert (who["way"], who["role"], who["name"], who["scope"]) == ("key", "viewer", "billing", key["scope"])
    assert (await api.with_key(key["key"]).get("/api/keys")).status == 403
    listed = await (await made(api)).get("/api/keys")
    assert [one["name"] for one in listed.data] == ["billing", "ops"]
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
    assert await api.scheduler.api_keys() == []
    assert await api.scheduler.changes() == []


async def test_a_rotated_key_has_a_new_secret_and_the_old_one_counts_for_the_grace_time(api: Api) -> None:
    admin = await made(api)
    key = (await admin.post("/api/keys", {"name": "billing"})).data
    path = f"/api/keys/{key['id']}/rotate"
    second = (await admin.post(path, {"grace": 3_600_000})).data
    assert second["oldUntil"] > second["rotatedAt"]
    for text in (key["key"], second["key"]):
        assert (await api.with_key(text).get("/api/session")).status == 200
    third = (await admin.post(path)).data
    statuses = [(await api.with_key(one["key"]).get("/api/session")).status for one in (key, second, third)]
    assert statuses == [401, 401, 200]
    assert (await admin.post(path, {"grace": 31 * 86_400_000})).status == 422


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
    everywhere = await api.scheduler.create_api_key("root", "admin")
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


async def test_each_change_of_a_key_is_written_down_once_and_never_its_secret(api: Api) -> None:
    admin = await made(api)
    key = (await admin.post("/api/keys", {"name": "billing", "role": "viewer"})).data
    rotated = (await admin.post(f"/api/keys/{key['id']}/rotate", {"grace": 1000})).data
    await admin.delete(f"/api/keys/{key['id']}")
    rows = await api.scheduler.changes()
    assert [(row.action, row.target, row.address) for row in rows] == [
        (f"key.{verb}", key["id"], "127.0.0.1") for verb in ("revoke", "rotate", "create")
    ]
    assert all(row.actor.startswith("key:") for row in rows)
    assert rows[2].value_after()["role"] == "viewer" and "revokedAt" in rows[0].value_after()
    assert not [text for text in (key["key"], rotated["key"]) if text.split("_")[2] in str(rows)]
