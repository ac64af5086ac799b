"""The audit log in the database: one unbroken chain whoever appends, and nothing done to it goes unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from harness.looking import Database
from harness.proxy import Proxy
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler, Unavailable
from mainspring.clock import ManualClock
from mainspring.model.audit import Entry, hash_of, mask_secrets
from mainspring.store import audit as module
from mainspring.store.audit import Audit


def entry(number: int = 0, actor: str = "ada") -> Entry:
    return Entry(actor, "job.cancel", f"job {number}", "127.0.0.1", {"state": "pending"}, {"state": "cancelled"})


async def make_audit(scheduler: Scheduler) -> Audit:
    return Audit((await scheduler._store()).connection, mask_secrets)


@pytest.fixture
async def audit(timed: Scheduler) -> AsyncIterator[Audit]:
    audit = await make_audit(timed)
    yield audit
    await audit.settle(10)


@pytest.fixture
async def log(audit: Audit) -> Audit:
    """A log of ten rows."""
    await audit.append(*(entry(number) for number in range(10)))
    await audit.settle(10)
    return audit


async def test_a_change_is_kept_with_all_that_is_known_of_it(audit: Audit, clock: ManualClock, db: Database) -> None:
    [row] = await audit.append(Entry("ada", "key.create", "key abc", "::1", None, {"password": "canary7", "n": 1}))
    assert await audit.get(1) == row
    assert (row.n, row.at, row.actor, row.address, row.action, row.target) == (
        *(1, clock.now(), "ada", "::1", "key.create", "key abc"),
    )
    assert (row.value_before(), row.value_after()) == (None, {"password": "***", "n": 1})
    stored = await db["jobs.audit"].find_one({"_id": 1})
    assert stored is not None
    assert "canary7" not in str(stored)
    assert await audit.get(2) is None


async def test_rows_are_listed_newest_first_page_by_page(log: Audit) -> None:
    first = await log.find(limit=4)
    second = await log.find(limit=4, before=first[-1].n)
    third = await log.find(limit=4, before=second[-1].n)
    assert [[row.n for row in page] for page in (first, second, third)] == [[10, 9, 8, 7], [6, 5, 4, 3], [2, 1]]
    assert await log.find(before=1) == []


@pytest.mark.fresh_database
async def test_rows_of_one_actor_or_target_are_found_by_an_index(log: Audit, db: Database) -> None:
    await log.append(entry(3, "bob"), entry(4, "bob"))
    assert [row.n for row in await log.find(actor="bob")] == [12, 11]
    assert [row.n for row in await log.find(target="job 3")] == [11, 4]
    assert [row.n for row in await log.find(actor="bob", target="job 3", before=12)] == [11]
    explained = await db["jobs.audit"].find({"_id": {"$gt": 0}, "actor": "bob"}).sort("_id", -1).explain()
    assert explained["executionStats"]["totalKeysExamined"] <= 3


async def test_eight_who_append_at_once_make_one_unbroken_chain(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    audits = [await make_audit(make_scheduler()) for _ in range(8)]

    async def append(who: int, audit: Audit) -> None:
        for number in range(6):
            await audit.append(*(entry(number * 10 + part, f"a{who}") for part in range(1 + number % 3)))

    await asyncio.gather(*(append(who, audit) for who, audit in enumerate(audits)))
    rows = await db["jobs.audit"].find({}, sort=[("_id", 1)]).hint("_id_").to_list(None)
    assert [row["_id"] for row in rows] == list(range(1, 8 * 12 + 1))
    assert len({row["id"] for row in rows}) == 8 * 12
    for who in range(8):
        mine = [row["target"] for row in rows if row["actor"] == f"a{who}"]
        assert mine == [f"job {number * 10 + part}" for number in range(6) for part in range(1 + number % 3)]
    verdict = await audits[0].verify()
    assert (verdict.ok, verdict.checked, verdict.last.hash) == (True, 96, rows[-1]["hash"])


async def test_one_process_appends_from_many_tasks_in_one_chain(audit: Audit) -> None:
    await asyncio.gather(*(audit.append(entry(number)) for number in range(40)))
    assert (await audit.verify()).checked == 40


CHANGES: list[dict[str, Any]] = [
    {"$set": {"actor": "eve"}},
    {"$set": {"after": '{"state":"completed"}'}},
    {"$unset": {"address": ""}},
    {"$set": {"note": "x"}},
    {"$currentDate": {"at": True}},
    {"$set": {"before": {"state": "pending"}}},
]


@pytest.mark.parametrize("number", [1, 5, 10])
async def test_a_row_that_was_edited_is_named(log: Audit, db: Database, number: int) -> None:
    row = await db["jobs.audit"].find_one({"_id": number})
    assert row is not None
    for change in CHANGES:
        await db["jobs.audit"].update_one({"_id": number}, change)
        verdict = await log.verify()
        assert (verdict.ok, verdict.broken, verdict.checked) == (False, number, number - 1), change
        assert f"row {number} was changed" in verdict.reason
        await db["jobs.audit"].replace_one({"_id": number}, row)
    assert (await log.verify()).ok


@pytest.mark.parametrize("number", [1, 5, 10])
async def test_a_row_that_was_deleted_is_named(log: Audit, db: Database, number: int) -> None:
    await db["jobs.audit"].delete_one({"_id": number})
    verdict = await log.verify()
    assert (verdict.ok, verdict.broken) == (False, number)
    assert f"row {number} is missing" in verdict.reason


@pytest.mark.parametrize("identity", [0, -3, 4.5, "5", None, 11], ids=str)
async def test_a_row_that_was_put_in_is_found(log: Audit, db: Database, identity: Any) -> None:
    row = await db["jobs.audit"].find_one({"_id": 4})
    assert row is not None
    await db["jobs.audit"].insert_one({**row, "_id": identity})
    assert not (await log.verify()).ok


async def test_a_row_that_was_exchanged_with_a_hash_of_its_own_is_found(log: Audit, db: Database) -> None:
    for number in (5, 10):
        row = await db["jobs.audit"].find_one({"_id": number})
        assert row is not None
        forged = {**row, "actor": "eve"}
        forged["hash"] = hash_of({**forged, "n": number})
        await db["jobs.audit"].replace_one({"_id": number}, forged)
        verdict = await log.verify()
        await db["jobs.audit"].replace_one({"_id": number}, row)
        assert (verdict.ok, verdict.broken) == (False, min(number + 1, 10))


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_end_that_was_cut_off_stays_visible_when_the_log_goes_on(
    log: Audit, db: Database, timed: Scheduler, fresh: bool
) -> None:
    await db["jobs.audit"].delete_many({"_id": {"$gte": 9}})
    going_on = await make_audit(timed) if fresh else log
    [row] = await going_on.append(entry(99))
    assert row.n == 11
    verdict = await going_on.verify()
    assert (verdict.ok, verdict.broken, verdict.reason) == (False, 9, "row 9 is missing")


async def test_the_head_follows_the_rows_and_is_there_when_a_program_has_ended(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    scheduler = make_scheduler()

    async def head() -> int:
        document = await db["jobs.audit.head"].find_one({"_id": "head"})
        return 0 if document is None else int(document["n"])

    async def follows() -> bool:
        return await head() == 3

    await scheduler.note_change(*(entry(number) for number in range(3)))
    await eventually(follows)
    await scheduler.note_change(entry(3))
    await scheduler.stop()
    assert await head() == 4


async def test_a_program_that_has_written_a_row_misses_it_before_the_head_has_followed(
    audit: Audit, db: Database
) -> None:
    await audit.append(entry(1), entry(2))
    await db["jobs.audit"].delete_many({"_id": 2})
    verdict = await audit.verify()
    assert (verdict.ok, verdict.broken) == (False, 2)


async def test_a_whole_new_log_does_not_pass_through_what_was_known(log: Audit, db: Database, timed: Scheduler) -> None:
    known = await log.head()
    assert (known.n, (await log.verify(known=known)).ok) == (10, True)
    await db["jobs.audit"].delete_many({"_id": {"$gt": 0}})
    await db["jobs.audit.head"].delete_many({"_id": "head"})
    another = await make_audit(timed)
    assert (await another.verify(known=known)).broken == 1
    await another.append(*(entry(number, "eve") for number in range(12)))
    assert (await another.verify()).ok
    verdict = await another.verify(known=known)
    assert (verdict.ok, verdict.broken) == (False, 10)


async def test_a_part_of_the_log_can_be_checked(log: Audit, db: Database) -> None:
    await db["jobs.audit"].update_one({"_id": 7}, {"$set": {"actor": "eve"}})
    assert (await log.verify(1, 6)).checked == 6
    assert (await log.verify(8)).checked == 3
    assert (await log.verify(5, 9)).broken == 7
    assert (await log.verify(8, 11)).broken == 11
    await db["jobs.audit"].delete_one({"_id": 3})
    assert (await log.verify(4)).broken == 3


async def test_a_long_log_is_checked_in_parts(log: Audit, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 3)
    assert (await log.verify()).checked == 10
    assert (await log.verify(2, 9)).checked == 8
    await db["jobs.audit"].insert_one({"_id": "stranger"})
    assert (await log.verify()).broken == 11
    await db["jobs.audit"].delete_one({"_id": "stranger"})
    await db["jobs.audit"].delete_one({"_id": 7})
    assert (await log.verify()).broken == 7


async def test_an_empty_log_is_in_order(audit: Audit) -> None:
    verdict = await audit.verify()
    assert (verdict.ok, verdict.checked) == (True, 0)
    assert await audit.append() == []
    assert (await audit.head()).n == 0


@pytest.fixture
def proxy(servers: Servers) -> Iterator[Proxy]:
    """A way to the server that can lose replies."""
    proxy = Proxy(servers.primary().port)
    proxy.start()
    yield proxy
    proxy.stop()


async def test_a_row_whose_reply_was_lost_is_not_written_twice(
    make_scheduler: Callable[..., Scheduler], proxy: Proxy, db: Database
) -> None:
    uri = f"mongodb://127.0.0.1:{proxy.port}/{db.name}?directConnection=true"
    audit = await make_audit(make_scheduler(uri, operation_timeout=2))
    await audit.append(entry(0))
    proxy.lose_replies(["insert"], 1.0)
    rows = await audit.append(entry(1), entry(2))
    assert proxy.lost > 0
    proxy.lose_replies((), 0)
    assert [row.n for row in rows] == [2, 3]
    await audit.append(entry(3))
    assert (await audit.verify()).checked == 4


@pytest.mark.parametrize("times", [1, 3])
async def test_a_row_whose_write_concern_timed_out_is_not_written_twice(
    servers: Servers, make_scheduler: Callable[..., Scheduler], times: int
) -> None:
    audit = await make_audit(make_scheduler())
    await audit.append(entry(0))
    concern = {"code": 64, "errmsg": "waiting for replication timed out"}
    with servers.fail_point("failCommand", {"times": times}, failCommands=["insert"], writeConcernError=concern):
        rows = await audit.append(entry(1), entry(2))
    assert [row.n for row in rows] == [2, 3]
    await audit.append(entry(3))
    assert (await audit.verify()).checked == 4


async def test_while_the_database_is_away_appending_says_so(
    servers: Servers, make_scheduler: Callable[..., Scheduler]
) -> None:
    audit = await make_audit(make_scheduler(operation_timeout=2))
    await audit.append(entry(0))
    with (
        servers.fail_point("failCommand", "alwaysOn", failCommands=["insert"], errorCode=50),
        pytest.raises(Unavailable),
    ):
        await audit.append(entry(1))
    await audit.append(entry(1))
    verdict = await audit.verify()
    assert (verdict.ok, verdict.checked) == (True, 2)


async def test_the_chain_holds_on_a_standalone_server(
    standalone: Servers, make_scheduler: Callable[..., Scheduler]
) -> None:
    uri = standalone.uri(f"t_{id(standalone):x}")
    audits = [await make_audit(make_scheduler(uri)) for _ in range(3)]
    await asyncio.gather(*(audit.append(entry(number)) for number in range(5) for audit in audits))
    assert (await audits[0].verify()).checked == 15
