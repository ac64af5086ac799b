"""Secrets: sealed where they are stored, readable by whoever has the key, replaced with a time of grace."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.looking import Database
from mainspring import ConfigurationError, Scheduler, Secret, SecretNotFound
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]
CANARY = "canary-77b1-not-to-be-seen"
ONE, TWO = bytes(32), bytes([7]) * 32


async def stored(db: Database) -> list[dict[str, Any]]:
    return await db["jobs.secrets"].find({}, hint="_id_").to_list(None)


async def test_a_secret_comes_back_for_handlers_and_lies_sealed_in_the_database(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(keys={"k1": ONE})
    put = await scheduler.put_secret("token", CANARY, actor="anna")
    assert (put.name, put.kid, put.version, put.actor, put.old_until) == ("token", "k1", 1, "anna", None)
    assert await scheduler.secret_value("token") == CANARY
    assert await make_scheduler(keys={"k1": ONE}).secret_value("token") == CANARY
    (document,) = await stored(db)
    assert CANARY not in repr(document) and CANARY.encode() not in document["value"]["c"]
    assert await scheduler.secrets() == [put]
    assert CANARY not in repr(put)


async def test_a_value_is_bound_to_its_name(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys={"k1": ONE})
    await scheduler.put_secret("mine", CANARY)
    await scheduler.put_secret("yours", "another")
    (mine, _) = await stored(db)
    await db["jobs.secrets"].update_one({"_id": "yours"}, {"$set": {"value": mine["value"]}})
    with pytest.raises(ConfigurationError, match="The secret 'yours' cannot be opened"):
        await scheduler.secret_value("yours")


async def test_a_replaced_value_is_signed_with_until_its_grace_is_over(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(keys={"k1": ONE}, clock=clock)
    await scheduler.put_secret("signer", "one")
    replaced = await scheduler.put_secret("signer", "two", keep_old=60)
    assert (replaced.version, replaced.old_until) == (2, replaced.updated_at + timedelta(seconds=60))
    assert await scheduler.signing_values("signer") == ["two", "one"]
    assert await scheduler.secret_value("signer") == "two"
    clock.advance(61)
    assert await scheduler.signing_values("signer") == ["two"]
    await scheduler.put_secret("signer", "three")
    assert await scheduler.signing_values("signer") == ["three"]


async def test_without_a_key_nothing_is_stored_and_the_sentence_says_how_to_make_one(
    scheduler: Scheduler, db: Database
) -> None:
    with pytest.raises(ConfigurationError, match="`mainspring keys new` prints one") as refused:
        await scheduler.put_secret("token", CANARY)
    assert CANARY not in str(refused.value)
    assert await stored(db) == []


async def test_a_process_without_the_key_lists_secrets_and_says_which_key_it_lacks(make_scheduler: Make) -> None:
    await make_scheduler(keys={"k1": ONE}).put_secret("token", CANARY)
    other = make_scheduler(keys={"k2": TWO})
    assert [secret.name for secret in await other.secrets()] == ["token"]
    with pytest.raises(ConfigurationError, match="with the key 'k1', which this process does not have"):
        await other.secret_value("token")


async def test_a_secret_that_is_missing_is_a_lookup_error_that_says_how_to_store_it(scheduler: Scheduler) -> None:
    for verb in (scheduler.secret_value, scheduler.signing_values, scheduler.delete_secret, scheduler.get_secret):
        with pytest.raises(SecretNotFound, match="There is no secret 'token'; store it with put_secret") as missing:
            await verb("token")
        assert isinstance(missing.value, LookupError)
        assert pickle.loads(pickle.dumps(missing.value)).name == "token"


async def test_resealing_covers_secrets_so_that_the_old_key_can_go(make_scheduler: Make, db: Database) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(keys={"k1": ONE}, clock=clock)
    await scheduler.put_secret("signer", "one")
    await scheduler.put_secret("signer", "two", keep_old=60)
    await scheduler.put_secret("lapsed", "one")
    await scheduler.put_secret("lapsed", "two", keep_old=1)
    assert await scheduler.keys_in_use() == {"k1": 2}
    clock.advance(2)
    scheduler.set_keys({"k2": TWO, "k1": ONE})
    assert await scheduler.reseal() == 2
    assert await scheduler.reseal() == 0
    assert await scheduler.keys_in_use() == {"k2": 2}
    scheduler.set_keys({"k2": TWO})
    assert await scheduler.signing_values("signer") == ["two", "one"]
    assert await scheduler.signing_values("lapsed") == ["two"]
    assert [("old" in document) for document in await stored(db)] == [False, True]


async def test_of_many_who_store_at_once_each_gets_a_version_of_its_own(make_scheduler: Make) -> None:
    schedulers = [make_scheduler(keys={"k1": ONE}) for _ in range(3)]
    put = await asyncio.gather(*(schedulers[i % 3].put_secret("token", f"value-{i}") for i in range(9)))
    assert sorted(secret.version for secret in put) == list(range(1, 10))
    last: Secret = max(put, key=lambda secret: secret.version)
    assert await schedulers[0].secret_value("token") == f"value-{put.index(last)}"


@pytest.mark.parametrize("name", ["", "a.b", "$where", "a b", "x" * 65, 5, None])
async def test_a_name_that_is_none_is_refused_and_not_repeated(make_scheduler: Make, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="A secret's name is 1 to 64 letters"):
        await make_scheduler(keys={"k1": ONE}).put_secret(name, CANARY)


@pytest.mark.parametrize("value", ["", None, b"x", 5, CANARY * 2000, CANARY + "\ud800"])
async def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(make_scheduler: Make, value: Any) -> None:
    with pytest.raises(ConfigurationError, match="A secret's value") as refused:
        await make_scheduler(keys={"k1": ONE}).put_secret("token", value)
    assert CANARY not in str(refused.value)
