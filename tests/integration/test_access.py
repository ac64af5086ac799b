"""API keys in the database: made, found, used, rotated and revoked; what is stored is of no use to a thief."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.looking import Database
from mainspring import ConfigurationError, KeyNotFound, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.access import ADMIN, OPERATOR, VIEWER, Scope, verify
from mainspring.store.access import Access


@pytest.fixture
async def access(timed: Scheduler) -> Access:
    return Access((await timed._store()).connection)


@pytest.fixture
async def others(make_scheduler: Callable[..., Scheduler], clock: ManualClock) -> list[Access]:
    """Access from other processes."""
    return [Access((await make_scheduler(clock=clock)._store()).connection) for _ in range(4)]


async def test_a_key_is_made_found_by_its_id_and_told_by_its_text(access: Access, clock: ManualClock) -> None:
    end = clock.now() + timedelta(days=1, microseconds=5)
    scope = Scope(("mail",), ("acme.",))
    text, key = await access.create("deploy", OPERATOR, scope=scope, expires_at=end, actor="ada")
    found = await access.get(key.id)
    assert found == key
    assert (key.role, key.scope, key.actor, key.created_at) == (OPERATOR, scope, "ada", clock.now())
    assert verify(text, found, clock.now())
    assert await access.get("nobody") is None


async def test_what_is_stored_cannot_be_used_as_a_key(access: Access, db: Database) -> None:
    text, key = await access.create("deploy", ADMIN)
    _, rotated = await access.rotate(key.id, timedelta(hours=1))
    document = await db["jobs.access"].find_one({"_id": key.id})
    assert document is not None
    assert text.split("_")[2] not in str(document)
    assert (document["hash"], document["old_hash"]) == (rotated.hash, key.hash)


async def test_keys_are_listed_in_the_order_in_which_they_were_made(access: Access, clock: ManualClock) -> None:
    made = []
    for name in ("one", "two", "three"):
        made.append((await access.create(name, VIEWER))[1])
        clock.advance(1)
    assert await access.find() == made


async def test_there_is_no_key_until_one_is_made_and_a_revoked_one_still_counts(access: Access) -> None:
    assert not await access.any_exists()
    _, key = await access.create("first", ADMIN)
    assert await access.any_exists()
    await access.revoke(key.id)
    assert await access.any_exists()


async def test_a_revoked_key_is_refused_everywhere_at_once(
    access: Access, others: list[Access], clock: ManualClock
) -> None:
    text, key = await access.create("deploy", OPERATOR)
    await others[0].revoke(key.id)
    for one in (access, *others):
        assert not verify(text, await one.get(key.id), clock.now())


async def test_revoking_twice_keeps_the_first_time(access: Access, clock: ManualClock) -> None:
    _, key = await access.create("deploy", OPERATOR)
    first = await access.revoke(key.id)
    clock.advance(60)
    assert await access.revoke(key.id) == first
    assert first.revoked_at == clock.now() - timedelta(seconds=60)


async def test_a_rotated_key_keeps_everything_but_its_secret(access: Access, clock: ManualClock) -> None:
    text, key = await access.create("deploy", OPERATOR, scope=Scope(("mail",)))
    clock.advance(60)
    fresh, after = await access.rotate(key.id, timedelta(hours=1))
    assert await access.get(key.id) == after
    assert (after.id, after.name, after.role, after.scope) == (key.id, key.name, key.role, key.scope)
    assert verify(text, after, clock.now()) and verify(fresh, after, clock.now())
    clock.advance(timedelta(hours=1))
    assert not verify(text, after, clock.now()) and verify(fresh, after, clock.now())


async def test_a_rotation_without_grace_forgets_the_old_secret(access: Access, clock: ManualClock) -> None:
    text, key = await access.create("deploy", OPERATOR)
    second, _ = await access.rotate(key.id, timedelta(hours=1))
    third, after = await access.rotate(key.id)
    assert await access.get(key.id) == after
    assert [verify(one, after, clock.now()) for one in (text, second, third)] == [False, False, True]


async def test_of_many_rotations_at_once_the_last_two_secrets_count(
    access: Access, others: list[Access], clock: ManualClock
) -> None:
    _, key = await access.create("deploy", OPERATOR)
    made = await asyncio.gather(*(one.rotate(key.id, timedelta(hours=1)) for one in (access, *others)))
    stored = await access.get(key.id)
    assert sum(verify(text, stored, clock.now()) for text, _ in made) == 2


async def test_what_is_not_in_force_is_not_rotated(access: Access, clock: ManualClock) -> None:
    _, key = await access.create("deploy", OPERATOR, expires_at=clock.now() + timedelta(hours=1))
    _, other = await access.create("deploy", OPERATOR)
    await access.revoke(other.id)
    clock.advance(timedelta(hours=1))
    for identity in (key.id, other.id, "nobody"):
        with pytest.raises(KeyNotFound, match="There is no API key"):
            await access.rotate(identity)
    with pytest.raises(KeyNotFound):
        await access.revoke("nobody")


async def test_the_last_use_is_noted_once_a_minute_at_most(access: Access, db: Database, clock: ManualClock) -> None:
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
    access: Access, others: list[Access], clock: ManualClock, db: Database
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
async def test_a_key_that_makes_no_sense_is_not_stored(access: Access, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await access.create(**{"name": "deploy", "role": OPERATOR, **options})
    assert not await access.any_exists()
