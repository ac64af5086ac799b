"""Secrets: sealed where they are stored, readable by a process that has the key, replaced with a time of grace."""

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
    put = await scheduler.secrets.put("token", CANARY, actor="anna", origins=["*"])
    assert (put.name, put.key_id, put.version, put.actor, put.old_until) == ("token", "k1", 1, "anna", None)
    assert await scheduler.secrets.value("token") == CANARY
    assert await make_scheduler(keys={"k1": ONE}).secrets.value("token") == CANARY
    (document,) = await stored(db)
    assert CANARY not in repr(document) and CANARY.encode() not in document["value"]["c"]
    assert await scheduler.secrets.all() == [put]
    assert CANARY not in repr(put)


async def test_a_value_is_bound_to_its_name(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys={"k1": ONE})
    await scheduler.secrets.put("mine", CANARY, origins=["*"])
    await scheduler.secrets.put("yours", "another", origins=["*"])
    (mine, _) = await stored(db)
    await db["jobs.secrets"].update_one({"_id": "yours"}, {"$set": {"value": mine["value"]}})
    with pytest.raises(ConfigurationError, match="The secret 'yours' cannot be decrypted"):
        await scheduler.secrets.value("yours")


async def test_a_replaced_value_is_signed_with_until_its_grace_is_over(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(keys={"k1": ONE}, clock=clock)
    await scheduler.secrets.put("signer", "one", origins=["*"])
    replaced = await scheduler.secrets.put("signer", "two", keep_old=60, origins=["*"])
    assert (replaced.version, replaced.old_until) == (2, replaced.updated_at + timedelta(seconds=60))
    assert await scheduler.secrets.values("signer") == ["two", "one"]
    assert await scheduler.secrets.value("signer") == "two"
    clock.advance(61)
    assert await scheduler.secrets.values("signer") == ["two"]
    await scheduler.secrets.put("signer", "three", origins=["*"])
    assert await scheduler.secrets.values("signer") == ["three"]


async def test_without_a_key_nothing_is_stored_and_the_sentence_says_how_to_make_one(
    scheduler: Scheduler, db: Database
) -> None:
    with pytest.raises(ConfigurationError, match="`mainspring generate-key` prints one") as refused:
        await scheduler.secrets.put("token", CANARY, origins=["*"])
    assert CANARY not in str(refused.value)
    assert await stored(db) == []


async def test_a_process_without_the_key_lists_secrets_and_says_which_key_it_lacks(make_scheduler: Make) -> None:
    await make_scheduler(keys={"k1": ONE}).secrets.put("token", CANARY, origins=["*"])
    other = make_scheduler(keys={"k2": TWO})
    assert [secret.name for secret in await other.secrets.all()] == ["token"]
    with pytest.raises(ConfigurationError, match="with the key 'k1', which this process does not have"):
        await other.secrets.value("token")


async def test_a_secret_that_is_missing_is_a_lookup_error_that_says_how_to_store_it(scheduler: Scheduler) -> None:
    for verb in (scheduler.secrets.value, scheduler.secrets.values, scheduler.secrets.delete, scheduler.secrets.get):
        with pytest.raises(SecretNotFound, match=r"There is no secret 'token'; store it with secrets\.put") as missing:
            await verb("token")
        assert isinstance(missing.value, LookupError)
        assert pickle.loads(pickle.dumps(missing.value)).name == "token"


async def test_resealing_covers_secrets_so_that_the_old_key_can_go(make_scheduler: Make, db: Database) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(keys={"k1": ONE}, clock=clock)
    await scheduler.secrets.put("signer", "one", origins=["*"])
    await scheduler.secrets.put("signer", "two", keep_old=60, origins=["*"])
    await scheduler.secrets.put("lapsed", "one", origins=["*"])
    await scheduler.secrets.put("lapsed", "two", keep_old=1, origins=["*"])
    assert await scheduler.privacy.keys_in_use() == {"k1": 2}
    clock.advance(2)
    scheduler.privacy.set_keys({"k2": TWO, "k1": ONE})
    assert await scheduler.privacy.reencrypt() == 2
    assert await scheduler.privacy.reencrypt() == 0
    assert await scheduler.privacy.keys_in_use() == {"k2": 2}
    scheduler.privacy.set_keys({"k2": TWO})
    assert await scheduler.secrets.values("signer") == ["two", "one"]
    assert await scheduler.secrets.values("lapsed") == ["two"]
    assert [("old" in document) for document in await stored(db)] == [False, True]


async def test_of_many_who_store_at_once_each_gets_a_version_of_its_own(make_scheduler: Make) -> None:
    schedulers = [make_scheduler(keys={"k1": ONE}) for _ in range(3)]
    put = await asyncio.gather(*(schedulers[i % 3].secrets.put("token", f"value-{i}", origins=["*"]) for i in range(9)))
    assert sorted(secret.version for secret in put) == list(range(1, 10))
    last: Secret = max(put, key=lambda secret: secret.version)
    assert await schedulers[0].secrets.value("token") == f"value-{put.index(last)}"


@pytest.mark.parametrize("name", ["", "a.b", "$where", "a b", "x" * 65, 5, None])
async def test_a_name_that_is_none_is_refused_and_not_repeated(make_scheduler: Make, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="A secret's name is 1 to 64 letters"):
        await make_scheduler(keys={"k1": ONE}).secrets.put(name, CANARY, origins=["*"])


@pytest.mark.parametrize("value", ["", None, b"x", 5, CANARY * 2000, CANARY + "\ud800"])
async def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(make_scheduler: Make, value: Any) -> None:
    with pytest.raises(ConfigurationError, match="A secret's value") as refused:
        await make_scheduler(keys={"k1": ONE}).secrets.put("token", value, origins=["*"])
    assert CANARY not in str(refused.value)
