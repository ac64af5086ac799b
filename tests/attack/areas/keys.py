"""Keys and sessions: texts that look like keys, sessions that were forged, and rights that were never given."""

from __future__ import annotations

import asyncio
import base64
import string
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any

from attack.asking import Answer
from attack.books import Row, probe
from attack.stage import Stage

_ADDRESS = "127.0.0.9"
"""Where wrong keys come from, so that a limit on them concerns no other row."""


@probe("keys", "A text that is not exactly a key in force is none, wherever it stands", fast=True)
async def key_texts(stage: Stage, row: Row) -> None:
    key = stage.client.keys["operator"]
    kind, identity, secret = key.split("_")
    other = stage.client.keys["viewer"]
    texts = [
        *(key[:-1], key + "x", key[1:], key.lower(), key.upper(), key.swapcase(), f'"{key}"', f"{key},{key}"),
        *(f"{key} {key}", f"{kind}__{secret}", f"{kind}_{identity}_", f"{kind}_{identity}", secret, identity, "", " "),
        *(f"{kind}_{identity}_{secret[::-1]}", f"{kind}_{identity}_{'0' * 43}", f"{kind}_{identity}_{'Z' * 43}"),
        *(f"{kind}_{identity}_{other.split('_')[2]}", f"{kind}_{other.split('_')[1]}_{secret}", "null", "undefined"),
        *(f"{kind}_$ne_{secret}", '{"$ne": null}', f"{kind}_{identity}%00_{secret}", key.replace("_", "-")),
        *(f"{kind}_{identity}_{secret[:42]}{chr(ord(secret[42]) ^ 1)}", key * 40, "ms_" + "A" * 12 + "_" + "A" * 43),
    ]
    for number, text in enumerate(stage.some(dict.fromkeys(texts), 12)):
        # Each from another address: a limit on wrong keys would refuse a text that counts as a key, too.
        answer = await stage.client.get("/api/session", headers=_bearer(text), source=f"127.0.2.{number + 1}")
        row.check(answer.status == 401, answer)
    places: list[tuple[str, dict[str, str]]] = [
        (f"/api/session?api_key={key}", {}),
        (f"/api/session?access_token={key}", {}),
        (f"/api/session?key={key}", {}),
        ("/api/session", {"Authorization": key}),
        ("/api/session", {"Authorization": f"Basic {base64.b64encode(f'x:{key}'.encode()).decode()}"}),
        ("/api/session", {"Authorization": f"Token {key}"}),
        ("/api/session", {"Authorization": f"Bearer\t{key}"}),
        ("/api/session", {"Cookie": f"mainspring_session={key}"}),
        ("/api/session", {"Cookie": f"key={key}"}),
        ("/api/session", {"Proxy-Authorization": f"Bearer {key}"}),
        ("/api/session", {"X-Auth-Token": key}),
    ]
    for number, (path, headers) in enumerate(places):
        answer = await stage.client.get(path, headers=headers, source=f"127.0.3.{number + 1}")
        row.check(answer.status in (401, 422), answer)
    row.control((await stage.client.get("/api/session", "operator")).ok, "the key itself")


def _bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@probe("keys", "A key is 256 random bits, shown once and stored as a hash", fast=True)
async def shown_once(stage: Stage, row: Row) -> None:
    once = {"Idempotency-Key": f"once-{stage.dice.random()}"}
    body = {"name": "shown once", "role": "viewer"}
    first = await stage.client.post("/api/keys", "admin", body, headers=once)
    again = await stage.client.post("/api/keys", "admin", body, headers=once)
    row.control(first.status == 201 and again.ok, again)
    text: str = first.data["key"]
    row.check(again.data["key"] is None and text not in again.text, again)
    secret = text.split("_")[2]
    row.check(len(secret) >= 43 and set(secret) <= {*string.ascii_letters, *string.digits}, "the form of a key")
    listed = await stage.client.get("/api/keys", "admin")
    document = await stage.db["jobs.access"].find_one({"_id": text.split("_")[1]})
    row.control(document is not None, "the key is stored")
    row.check(secret not in listed.text and secret not in repr(document), "the secret of a key is stored or listed")
    drawn = set()
    for _ in range(4 if stage.quick else 20):
        made = await stage.client.post("/api/keys", "admin", {"name": "one of many", "role": "viewer"})
        drawn.add(made.data["key"].split("_")[2][:8])
        await stage.client.ask("DELETE", f"/api/keys/{made.data['id']}", "admin")
    row.check(len(drawn) == (4 if stage.quick else 20), f"secrets begin alike: {drawn}")


@probe("keys", "Sessions: HttpOnly and Strict, no change without the token, nothing forged is taken", fast=True)
async def sessions(stage: Stage, row: Row) -> None:
    cookie, token, opened = await _log_in(stage, "operator")
    said = opened.headers["Set-Cookie"].lower()
    row.check("httponly" in said and "samesite=strict" in said, opened.headers["Set-Cookie"])
    row.control((await _by(stage, cookie)).ok, "the session")
    job = {"name": "plain", "queue": "qa", "delay": "1h"}
    made = await _change(stage, cookie, job, token)
    row.control(made.ok, made)
    _, others_token, _ = await _log_in(stage, "tenant")
    for wrong in (None, "", "x", others_token, token[:-1], token.swapcase(), f"{token}x"):
        answer = await _change(stage, cookie, job, wrong)
        row.check(answer.status == 403, answer)
    for headers in ({"Origin": "http://evil.test"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = await _change(stage, cookie, job, token, **headers)
        row.check(answer.status == 403, answer)
    name, _, value = cookie.partition("=")
    for forged in _forgeries(value, stage.key_id("operator"), stage.key_id("admin")):
        answer = await _by(stage, f"{name}={forged}")
        row.check(answer.status == 401, answer)
    outside = await stage.client.post("/api/session", "operator", headers={"Host": "jobs.example.test"})
    said = outside.headers.get("Set-Cookie", "")
    row.check(said.startswith("__Host-") and "Secure" in said, f"{outside.request} → {said}")


def _forgeries(value: str, own: str, admin: str) -> list[str]:
    """Sessions that were tampered with: each part changed, cut, extended, and the key's id swapped for an admin's."""
    parts = value.split(".") if "." in value else [value]
    found = [value[:-1], value + "x", value[::-1], value.replace(own, admin), value.swapcase(), "", "s1"]
    for place, part in enumerate(parts):
        changed = "0" * len(part) if part != "0" * len(part) else "1" * len(part)
        found.append(".".join([*parts[:place], changed, *parts[place + 1 :]]))
    return [one for one in found if one != value]


async def _log_in(stage: Stage, by: str) -> tuple[str, str, Answer]:
    """A session's cookie, its token, and the answer that set them."""
    answer = await stage.client.post("/api/session", by)
    assert answer.status == 201, answer
    ((name, morsel),) = SimpleCookie(answer.headers["Set-Cookie"]).items()
    return f"{name}={morsel.value}", answer.data["csrfToken"], answer


async def _by(stage: Stage, cookie: str) -> Answer:
    return await stage.client.get("/api/session", headers={"Cookie": cookie})


async def _change(stage: Stage, cookie: str, body: Any, token: str | None, **headers: str) -> Answer:
    sent = {"Cookie": cookie, **headers} | ({} if token is None else {"X-Csrf-Token": token})
    return await stage.client.post("/api/jobs", None, body, headers=sent)


@probe("keys", "What was ended is over at once: keys, old secrets, and the sessions that stand for them", fast=True)
async def endings(stage: Stage, row: Row) -> None:
    await stage.make_key("ending", role="operator", queues=["qa"])
    identity, old = stage.key_id("ending"), stage.client.keys["ending"]
    cookie, token, _ = await _log_in(stage, "ending")
    out = await stage.client.ask("DELETE", "/api/session", headers={"Cookie": cookie, "X-Csrf-Token": token})
    row.control(out.ok, out)
    row.check((await _by(stage, cookie)).status == 401, "a cookie was good after its session was closed")
    cookie, _, _ = await _log_in(stage, "ending")
    rotated = await stage.client.post(f"/api/keys/{identity}/rotate", "admin", {})
    row.control(rotated.ok, rotated)
    row.check((await _by(stage, cookie)).status == 401, "a session was good after its key was rotated")
    answer = await stage.client.get("/api/session", headers=_bearer(old), source=_ADDRESS)
    row.check(answer.status in (401, 429), f"a secret was good after the rotation: {answer}")
    stage.client.keys["ending"] = rotated.data["key"]
    row.control((await stage.client.get("/api/session", "ending")).ok, "the new secret")
    cookie, _, _ = await _log_in(stage, "ending")
    await stage.client.ask("DELETE", f"/api/keys/{identity}", "admin")
    row.check((await _by(stage, cookie)).status == 401, "a session was good after its key was revoked")
    answer = await stage.client.get("/api/session", "ending", source=_ADDRESS)
    row.check(answer.status in (401, 429), answer)
    for by in ("expired", "revoked"):
        answer = await stage.client.get("/api/session", by, source=_ADDRESS)
        row.check(answer.status in (401, 429), answer)


_WIDER: tuple[dict[str, Any], ...] = (
    {},
    {"queues": ["qb"]},
    {"queues": ["qa", "qb"]},
    {"prefixes": ["qa"]},
    {"prefixes": ["p."], "role": "viewer"},
    {"queues": ["QA"]},
    {"queues": ["qa "]},
    {"queues": ["q"]},
    {"queues": []},
    {"queues": None},
    {"queues": [""]},
    {"queues": ["*"]},
    {"role": "admin"},
    {"role": "viewer"},
)


@probe("keys", "A key gives no more than it has: neither reach, nor role, nor time", fast=True)
async def new_keys(stage: Stage, row: Row) -> None:
    made = await stage.make_key("narrow", "tenant-admin", role="admin", queues=["qa"])
    row.control(made.ok, made)
    for scope in _WIDER:
        answer = await stage.client.post("/api/keys", "tenant-admin", {"name": "wider", **scope})
        row.check(answer.status in (403, 422), answer)
    for by in ("tenant", "operator", "viewer", "both"):
        answer = await stage.client.post("/api/keys", by, {"name": "wider", "role": "viewer", "queues": ["qa"]})
        row.check(answer.status == 403, answer)
    end = datetime.now(UTC) + timedelta(minutes=10)
    await stage.make_key("short", role="admin", expiresAt=_instant(end))
    for wish in ({}, {"expiresAt": _instant(end + timedelta(days=90))}, {"expiresAt": None}):
        answer = await stage.client.post("/api/keys", "short", {"name": "longer", "role": "admin", **wish})
        given = answer.data.get("expiresAt") if answer.ok else None
        capped = given is not None and datetime.fromisoformat(given) <= end + timedelta(seconds=1)
        row.check(answer.refused or capped, f"{answer}: a key that outlives its maker")


def _instant(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@probe("keys", "A scoped admin takes over no key that it has not made", fast=True)
async def siblings(stage: Stage, row: Row) -> None:
    sibling = await stage.make_key("sibling", role="admin", queues=["qa"])
    row.control(sibling.ok, sibling)
    before = stage.client.keys["sibling"]
    answer = await stage.client.post(f"/api/keys/{stage.key_id('sibling')}/rotate", "tenant-admin", {})
    row.check(answer.refused, answer)
    row.check((await stage.client.get("/api/session", "sibling")).ok, "the sibling's secret was replaced")
    for by in ("foreign-admin", "prefix-admin"):
        answer = await stage.client.post(f"/api/keys/{stage.key_id('sibling')}/rotate", by, {})
        row.check(answer.status in (403, 404), answer)
        answer = await stage.client.ask("DELETE", f"/api/keys/{stage.key_id('sibling')}", by)
        row.check(answer.status in (403, 404), answer)
    own = await stage.make_key("own", "tenant-admin", role="viewer", queues=["qa"])
    rotated = await stage.client.post(f"/api/keys/{stage.key_id('own')}/rotate", "tenant-admin", {})
    row.control(own.ok and rotated.ok, f"a key that it has made itself: {rotated}")
    stage.client.keys["sibling"] = before


@probe("keys", "Wrong keys from an address lock no right key out", fast=True)
async def wrong_keys(stage: Stage, row: Row) -> None:
    address = "127.0.0.10"
    identity = stage.key_id("admin")
    for number in range(40 if stage.quick else 80):
        text = f"ms_{identity if number % 2 else 'AAAAAAAAAAAA'}_{number:043d}"
        answer = await stage.client.get("/api/session", headers=_bearer(text), source=address)
        row.check(answer.status in (401, 429), answer)
    for by in ("expired", "revoked"):
        await stage.client.get("/api/session", by, source=address)
    for by in ("admin", "operator", "viewer", "tenant", "prefix"):
        answer = await stage.client.get("/api/session", by, source=address)
        row.check(answer.ok, f"after many wrong keys from {address}: {answer}")


@probe("keys", "How long a known and an unknown key id take (told, not judged: ids are no secret)")
async def timing(stage: Stage, row: Row) -> None:
    took: dict[str, list[float]] = {"known": [], "unknown": []}
    for number in range(160):
        for kind, identity in (("known", stage.key_id("admin")), ("unknown", f"{number:012d}")):
            began = _now()
            headers = _bearer(f"ms_{identity}_{'Z' * 43}")
            answer = await stage.client.get("/api/session", headers=headers, source=f"127.0.1.{number}")
            took[kind].append(_now() - began)
            row.check(answer.status in (401, 429), answer)
    middle = {kind: sorted(times)[len(times) // 2] * 1000 for kind, times in took.items()}
    row.note = f"median {middle['known']:.2f} ms known, {middle['unknown']:.2f} ms unknown"


def _now() -> float:
    return asyncio.get_running_loop().time()
