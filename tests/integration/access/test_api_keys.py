"""API keys in the database: made, found, used, rotated and revoked; what is stored is of no use to a thief."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from mainspring import ConfigurationError, KeyNotFound, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.access.api_keys import ADMIN, OPERATOR, VIEWER, Scope, verify
from mainspring.store.access.api_keys import ApiKeys


@pytest.fixture
async def access(timed: Scheduler) -> ApiKeys:
    return ApiKeys((await inside(timed).store()).connection)


@pytest.fixture
async def others(make_scheduler: Callable[..., Scheduler], clock: ManualClock) -> list[ApiKeys]:
    """ApiKeys from other processes."""
    return [ApiKeys((await inside(make_scheduler(clock=clock)).store()).connection) for _ in range(4)]


async def test_a_key_is_made_found_by_its_id_and_told_by_its_text(access: ApiKeys, clock: ManualClock) -> None:
    end = clock.now() + timedelta(days=1, microseconds=5)
    scope = Scope(("mail",), ("acme.",))
    text, key = await access.create("deploy", OPERATOR, scope=scope, expires_at=end, actor="ada")
    found = await access.get(key.id)
    assert found == key
    assert (key.role, key.scope, key.actor, key.created_at) == (OPERATOR, scope, "ada", clock.now())
    assert verify(text, found, clock.now())
    assert await access.get("nobody") is None


async def test_what_is_stored_cannot_be_used_as_a_key(access: ApiKeys, db: Database) -> None:
    text, key = await access.create("deploy", ADMIN)
    _, rotated = await access.rotate(key.id, timedelta(hours=1))
    document = await db["jobs.access"].find_one({"_id": key.id})
    assert document is not None
    assert text.split("_")[2] not in str(document)
    assert (document["hash"], document["old_hash"]) == (rotated.hash, key.hash)


async def test_keys_are_listed_in_the_order_in_which_they_were_made(access: ApiKeys, clock: ManualClock) -> None:
    made = []
    for name in ("one", "two", "three"):
        made.append((await access.create(name, VIEWER))[1])
        clock.advance(1)
    assert await access.find() == made


async def test_there_is_no_key_until_one_is_made_and_a_revoked_one_still_counts(access: ApiKeys) -> None:
    assert not await access.any_exists()
    _, key = await access.create("first", ADMIN)
    assert await access.any_exists()
    await access.revoke(key.id)
    assert await access.any_exists()


async def test_a_revoked_key_is_refused_everywhere_at_once(
    access: ApiKeys, others: list[ApiKeys], clock: ManualClock
) -> None:
    text, key = await access.create("deploy", OPERATOR)
    await others[0].revoke(key.id)
    for one in (access, *others):
        assert not verify(text, await one.get(key.id), clock.now())


async def test_revoking_twice_keeps_the_first_time(access: ApiKeys, clock: ManualClock) -> None:
    _, key = await access.create("deploy", OPERATOR)
    first = await access.revoke(key.id)
    clock.advance(60)
    assert await access.revoke(key.id) == first
    assert first.revoked_at == clock.now() - timedelta(seconds=60)


async def test_a_rotated_key_keeps_everything_but_its_secret(access: ApiKeys, clock: ManualClock) -> None:
    text, key = await access.create("deploy", OPERATOR, scope=Scope(("mail",)))
    clock.advance(60)
    fresh, after = await access.rotate(key.id, timedelta(hours=1))
    assert await access.get(key.id) == after
    assert (after.id, after.name, after.role, after.scope) == (key.id, key.name, key.role, key.scope)
    assert verify(text, after, clock.now()) and verify(fresh, after, clock.now())
    clock.advance(timedelta(hours=1))
    assert not verify(text, after, clock.now()) and verify(fresh, after, clock.now())


async def test_a_rotation_without_grace_forgets_the_old_secret(access: ApiKeys, clock: ManualClock) -> None:
    text, key = await access.create("deploy", OPERATOR)
    second, _ = await access.rotate(key.id, timedelta(hours=1))
    third, after = await access.rotate(key.id)
    assert await access.get(key.id) == after
    assert [verify(one, after, clock.now()) for one in (text, second, third)] == [False, False, True]


async def test_of_many_rotations_at_once_the_last_two_secrets_count(
    access: ApiKeys, others: list[ApiKeys], clock: ManualClock
) -> None:
    _, key = await access.create("deploy", OPERATOR)
    made = await asyncio.gather(*(one.rotate(key.id, timedelta(hours=1)) for one in (access, *others)))
    stored = await access.get(key.id)
    assert sum(verify(text, stored, clock.now()) for text, _ in made) == 2


async def test_what_is_not_in_force_is_not_rotated(access: ApiKeys, clock: ManualClock) -> None:
    _, key = await access.create("deploy", OPERATOR, expires_at=clock.now() + timedelta(hours=1))
    _, other = await access.create("deploy", OPERATOR)
    await access.revoke(other.id)
    clock.advance(timedelta(hours=1))
    for identity in (key.id, other.id, "nobody"):
        with pytest.raises(KeyNotFound, match="There is no valid API key"):
            await access.rotate(identity)
    with pytest.raises(KeyNotFound):
        await access.revoke("nobody")


async def test_the_last_use_is_noted_once_a_minute_at_most(access: ApiKeys, db: Database, clock: ManualClock) -> None:
    _, key = await access.create("deploy", OPERATOR)
    await access.touch(key)
    used = clock.now()
    clock.advance(59)
    await access.touch(key)
    stored = await access.get(key.id)
    assert stored is not None
    assert stored.last_used_at == used
    clock.advance(1)
    await access.touch(stored)
    again = await access.get(key.id)
    assert again is not None
    assert again.last_used_at == clock.now()


async def test_another_process_does_not_note_a_use_that_was_just_noted(
    access: ApiKeys, others: list[ApiKeys], clock: ManualClock, db: Database
) -> None:
    _, key = await access.create("deploy", OPERATOR)
    await access.touch(key)
    await db["jobs.access"].update_one({"_id": key.id}, {"$set": {"seen": True}})
    clock.advance(30)
    found = await others[0].get(key.id)
    assert found is not None
    await others[0].touch(found)
    stored = await access.get(key.id)
    assert stored is not None
    assert stored.last_used_at == clock.now() - timedelta(seconds=30)


@pytest.mark.parametrize("options", [{"role": "owner"}, {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}], ids=str)
async def test_a_key_that_makes_no_sense_is_not_stored(access: ApiKeys, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await access.create(**{"name": "deploy", "role": OPERATOR, **options})
    assert not await access.any_exists()


async def test_of_many_processes_that_make_the_first_key_at_once_one_does(
    access: ApiKeys, others: list[ApiKeys], db: Database
) -> None:
    kept: list[str] = []
    everyone = [access, *others]
    made = await asyncio.gather(*(one.create_first("first", actor=None, keep=kept.append) for one in everyone * 3))
    ((text, key),) = [one for one in made if one is not None]
    assert [one.id for one in await access.find()] == [key.id] and key.role == ADMIN
    assert text in kept and {one.split("_")[1] for one in kept} == {key.id}
    assert await db["jobs.locks"].find_one({"_id": "first-key"}) is None
    assert await access.create_first("again", actor=None, keep=kept.append) is None


async def test_a_process_that_was_slow_to_make_the_first_key_makes_no_second_one(
    access: ApiKeys, others: list[ApiKeys], monkeypatch: pytest.MonkeyPatch
) -> None:
    agree = access._agreed_id

    async def slow() -> str:
        assert await others[0].create_first("first", actor=None, keep=lambda _: None) is not None
        return await agree()

    monkeypatch.setattr(access, "_agreed_id", slow)
    assert await access.create_first("second", actor=None, keep=lambda _: None) is None
    assert [key.name for key in await access.find()] == ["first"]


async def test_a_first_key_that_cannot_be_kept_is_not_made(access: ApiKeys) -> None:
    def refuse(text: str) -> None:
        raise ConfigurationError("no room")

    with pytest.raises(ConfigurationError, match="no room"):
        await access.create_first("first", actor=None, keep=refuse)
    assert not await access.any_exists()
    assert await access.create_first("first", actor=None, keep=lambda _: None) is not None
