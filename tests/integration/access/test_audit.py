"""The audit log in the database: one unbroken chain by any processes, and nothing done to it goes unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.proxy import Proxy
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import AuditKeyMissing, Scheduler, Unavailable
from mainspring.client.service_backend import ServiceBackend
from mainspring.clock import ManualClock
from mainspring.model.access.audit import Entry, Row, hash_of
from mainspring.model.access.audit_filter import AuditFilter
from mainspring.model.privacy.credentials import mask_credentials
from mainspring.store.access import audit as module
from mainspring.store.access import ticket_line
from mainspring.store.access.audit import Audit
from mainspring.store.privacy.keyring import Keyring


def entry(number: int = 0, actor: str = "ada") -> Entry:
    return Entry(actor, "job.cancel", f"job {number}", "127.0.0.1", {"state": "pending"}, {"state": "cancelled"})


async def make_audit(scheduler: Scheduler, keys: dict[str, bytes] | None = None) -> Audit:
    return Audit((await inside(scheduler).store()).connection, mask_credentials, Keyring(keys))


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
    assert (row.value_before(), row.value_after()) == (None, {"password": "[redacted]", "n": 1})
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
    assert [row.n for row in await log.find(AuditFilter(actor="bob"))] == [12, 11]
    assert [row.n for row in await log.find(AuditFilter(target="job 3"))] == [11, 4]
    assert [row.n for row in await log.find(AuditFilter(actor="bob", target="job 3"), before=12)] == [11]
    explained = await db["jobs.audit"].find({"_id": {"$gt": 0}, "actor": "bob"}).sort("_id", -1).explain()
    assert explained["executionStats"]["totalKeysExamined"] <= 3


@pytest.mark.slow
async def test_eight_who_append_at_once_make_one_unbroken_chain(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    audits = [await make_audit(make_scheduler(operation_timeout=300)) for _ in range(8)]

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


@pytest.mark.slow
async def test_many_processes_that_append_at_once_take_turns_and_none_fails(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    patient = make_scheduler(operation_timeout=300)
    audits = [await make_audit(patient) for _ in range(16)]

    async def append(audit: Audit) -> None:
        for number in range(2):
            await audit.append(entry(number))

    await asyncio.gather(*(append(audit) for audit in audits))
    assert (await audits[0].verify()).checked == 32
    line = await db["jobs.locks"].find_one({"_id": "audit"})
    assert line is not None and line["last"] == line["done"] > 0
    for audit in audits:
        await audit.settle(10)


async def test_a_process_that_has_met_another_writes_when_the_turn_before_its_own_is_over(
    audit: Audit, timed: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_line, "_LONGEST", float("inf"))
    other = await make_audit(timed)
    looks: list[int] = []
    read_done = other.turns._read_done

    async def read(number: int) -> int:
        looks.append(number)
        return await read_done(number)

    monkeypatch.setattr(other.turns, "_read_done", read)
    await other.append(entry(1))
    await audit.append(entry(2))
    turn = await audit.turns.join()
    waiting = asyncio.create_task(other.append(entry(3)))
    await eventually(lambda: len(looks) > 2 or waiting.done())
    assert not waiting.done() and await audit.get(3) is None
    await audit.turns.end(turn)
    assert [row.n for row in await waiting] == [3]
    await other.settle(10)


async def test_a_process_that_died_in_its_turn_holds_up_the_others_for_a_moment_only(
    audit: Audit, timed: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_line, "_LONGEST", 0.01)
    other = await make_audit(timed)
    await other.append(entry(1))
    await audit.append(entry(2))
    assert await audit.turns.join() == 1  # and never ends it
    await other.append(entry(3))
    await other.settle(10)
    assert (await audit.verify()).checked == 3


async def test_those_whose_rows_are_in_are_told_so_when_the_rest_cannot_be_written(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_some = audit._append_some

    async def once(entries: Sequence[tuple[str, Entry]]) -> list[Row]:
        monkeypatch.setattr(audit, "_append_some", away)
        return await append_some(entries[:2])

    async def away(entries: Sequence[tuple[str, Entry]]) -> list[Row]:
        raise Unavailable("MongoDB is away.")

    monkeypatch.setattr(audit, "_append_some", once)
    first, second, third = await asyncio.gather(
        *(audit.append(entry(number)) for number in range(3)), return_exceptions=True
    )
    assert isinstance(first, list) and isinstance(second, list) and isinstance(third, Unavailable)
    assert [row.target for row in (*first, *second)] == ["job 0", "job 1"]


@pytest.mark.slow
async def test_a_log_that_is_begun_by_several_at_once_has_no_gap(make_scheduler: Callable[..., Scheduler]) -> None:
    patient = make_scheduler(operation_timeout=300)
    audits = [await make_audit(patient, {"a": b"k" * 32}) for _ in range(12)]
    await asyncio.gather(*(audit.append(entry(number)) for number, audit in enumerate(audits)))
    verdict = await audits[0].verify()
    assert (verdict.ok, verdict.checked, verdict.keyed) == (True, 12, True)
    for audit in audits:
        await audit.settle(10)


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

    await ServiceBackend(scheduler).note_change(*(entry(number) for number in range(3)))
    await eventually(follows)
    await ServiceBackend(scheduler).note_change(entry(3))
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


# -- attacks on a log with a key, found by a process that has just been started ------------------------------------

KEYS = {"2030a": b"k" * 32}


@pytest.fixture
async def keyed(timed: Scheduler) -> Audit:
    """A signed log of ten rows, whose process has ended."""
    audit = await make_audit(timed, KEYS)
    await audit.append(*(entry(number) for number in range(10)))
    await audit.settle(10)
    return audit


async def restarted(scheduler: Scheduler, keys: dict[str, bytes] | None = None) -> Audit:
    return await make_audit(scheduler, KEYS if keys is None else keys)


async def forge_head(db: Database, row: dict[str, Any], **fields: Any) -> None:
    head = {"n": row["_id"], "hash": row["hash"], "at": row["at"], **fields}
    await db["jobs.audit.head"].replace_one({"_id": "head"}, head, upsert=True)


async def forge_log(db: Database, count: int, **fields: Any) -> None:
    """Write a whole new log as a program would that can write to the database and has no key."""
    rows = await db["jobs.audit"].find({}, sort=[("_id", 1)]).hint("_id_").to_list(None)
    await db["jobs.audit"].delete_many({"_id": {"$gt": 0}})
    prev = "0" * 64
    for row in rows[:count]:
        row |= {"actor": "eve", "prev": prev, "n": row["_id"], **fields}
        row["hash"] = prev = hash_of(row)
        await db["jobs.audit"].insert_one({name: value for name, value in row.items() if name != "n"})
    await forge_head(db, rows[count - 1])


async def test_a_signed_log_is_in_order_after_a_restart(keyed: Audit, timed: Scheduler) -> None:
    verdict = await (await restarted(timed)).verify()
    assert (verdict.ok, verdict.checked, verdict.keyed) == (True, 10, True)


async def test_a_row_that_was_edited_with_a_hash_of_its_own_is_named_after_a_restart(
    keyed: Audit, timed: Scheduler, db: Database
) -> None:
    row = await db["jobs.audit"].find_one({"_id": 10})
    assert row is not None
    row["actor"] = "eve"
    row["hash"] = hash_of({**row, "n": 10})
    await db["jobs.audit"].replace_one({"_id": 10}, row)
    await forge_head(db, row)
    verdict = await (await restarted(timed)).verify()
    assert (verdict.ok, verdict.broken) == (False, 10)


@pytest.mark.parametrize("number", [1, 5, 10])
async def test_a_row_that_was_deleted_is_named_after_a_restart(
    keyed: Audit, timed: Scheduler, db: Database, number: int
) -> None:
    await db["jobs.audit"].delete_one({"_id": number})
    assert (await (await restarted(timed)).verify()).broken == number


async def test_an_end_that_was_cut_off_is_found_after_a_restart(keyed: Audit, timed: Scheduler, db: Database) -> None:
    await db["jobs.audit"].delete_many({"_id": {"$gt": 7}})
    verdict = await (await restarted(timed)).verify()
    assert (verdict.ok, verdict.broken) == (False, 8)


@pytest.mark.parametrize("head", ["moved back", "with its old signature", "deleted", "nonsense"])
async def test_an_end_that_was_cut_off_with_its_head_is_found_after_a_restart_and_ever_after(
    keyed: Audit, timed: Scheduler, db: Database, head: str
) -> None:
    old = await db["jobs.audit.head"].find_one({"_id": "head"})
    row = await db["jobs.audit"].find_one({"_id": 7})
    assert row is not None and old is not None
    await db["jobs.audit"].delete_many({"_id": {"$gt": 7}})
    if head == "deleted":
        await db["jobs.audit.head"].delete_one({"_id": "head"})
    elif head == "nonsense":
        await db["jobs.audit.head"].replace_one({"_id": "head"}, {"n": {"$gt": 5}, "mac": 7})
    else:
        await forge_head(db, row, **({"key": old["key"], "mac": old["mac"]} if "old" in head else {}))
    again = await restarted(timed)
    verdict = await again.verify()
    assert (verdict.ok, verdict.broken) == (False, 8)
    assert "may have been cut off" in verdict.reason
    [gone_on] = await again.append(entry(1))
    await again.append(entry(2))
    await again.settle(10)
    assert gone_on.n == 9
    verdict = await (await restarted(timed)).verify()
    assert (verdict.broken, verdict.reason) == (8, "row 8 is missing")
    assert [row.n for row in await (await restarted(timed)).append(entry(3))] == [11]  # one gap, not one each time


@pytest.mark.parametrize("fields", [{"key": None}, {}], ids=["without a key", "under the name of the key"])
async def test_a_log_that_was_wholly_written_anew_is_found_after_a_restart_and_ever_after(
    keyed: Audit, timed: Scheduler, db: Database, fields: dict[str, Any]
) -> None:
    await forge_log(db, 6, **fields)
    verdict = await (await restarted(timed)).verify()
    assert (verdict.ok, verdict.broken, verdict.keyed) == (False, 1, False)
    again = await restarted(timed)
    await again.append(entry(1))
    await again.settle(10)
    assert (await (await restarted(timed)).verify()).broken == 1


async def test_rows_without_a_key_behind_signed_ones_are_named(keyed: Audit, timed: Scheduler, db: Database) -> None:
    await db["jobs.audit.head"].delete_one({"_id": "head"})
    [row] = await db["jobs.audit"].find({"_id": 10}).to_list(None)
    forged = {**row, "_id": 11, "actor": "eve", "key": None, "prev": row["hash"]}
    forged["hash"] = hash_of({**forged, "n": 11})
    await db["jobs.audit"].insert_one(forged)
    await forge_head(db, forged)
    again = await restarted(timed)
    await again.append(entry(1))
    await again.settle(10)
    assert (await (await restarted(timed)).verify()).broken == 11


async def test_a_log_that_was_begun_without_a_key_counts_once_it_is_sealed(log: Audit, timed: Scheduler) -> None:
    keyed = await restarted(timed)
    assert (await keyed.check_end()).unsealed
    await keyed.append(entry(11))
    assert (await keyed.verify()).broken == 1
    await keyed.append(Entry("ada", "audit.seal", "audit"))
    verdict = await keyed.verify()
    assert (verdict.ok, verdict.checked, verdict.keyed) == (True, 12, True)
    await keyed.settle(10)


async def test_the_head_is_signed_before_the_first_row_that_is(
    log: Audit, timed: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stays(audit: Audit) -> None:
        return None

    monkeypatch.setattr(Audit, "_move_head", stays)
    first = await restarted(timed)
    await first.append(Entry("ada", "audit.seal", "audit"))
    assert (await (await restarted(timed)).verify()).ok  # the process died before it could move the head on
    [row] = await (await restarted(timed)).append(entry(1))
    assert row.n == 12


async def test_keys_are_changed_while_the_log_goes_on(keyed: Audit, timed: Scheduler) -> None:
    both = {"2031a": b"l" * 32, **KEYS}
    newer = await restarted(timed, both)
    [row] = await newer.append(entry(1))
    await newer.settle(10)
    assert row.key == "2031a"
    assert (await (await restarted(timed, both)).verify()).keyed
    for keys in (KEYS, {}):
        other = await restarted(timed, keys)
        with pytest.raises(AuditKeyMissing):
            await other.append(entry(2))
        verdict = await other.verify()
        assert (verdict.ok, verdict.broken) == (False, 11 if keys else 1)


async def test_appending_needs_no_right_to_change_rows(
    log: Audit, timed: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await make_audit(timed)
    await other.append(entry(1))

    async def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("rows are only ever added")

    for verb in ("update_one", "update_many", "replace_one", "delete_one", "delete_many"):
        monkeypatch.setattr(log._rows, verb, refused)
    [row] = await log.append(entry(2))  # it meets the row of the other one first
    assert row.n == 12
    await other.settle(10)


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


async def test_a_row_that_no_majority_is_known_to_have_is_not_told_to_be_kept(
    servers: Servers, make_scheduler: Callable[..., Scheduler]
) -> None:
    audit = await make_audit(make_scheduler())
    await audit.append(entry(0))
    concern = {"code": 64, "errmsg": "waiting for replication timed out"}
    commands = ["insert", "update"]
    with (
        servers.fail_point("failCommand", {"times": 2}, failCommands=commands, writeConcernError=concern),
        pytest.raises(Unavailable),
    ):
        await audit.append(entry(1))
    await audit.append(entry(2))
    assert (await audit.verify()).ok


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


@pytest.mark.slow
async def test_the_chain_holds_on_a_standalone_server(
    standalone: Servers, make_scheduler: Callable[..., Scheduler]
) -> None:
    uri = standalone.uri(f"t_{id(standalone):x}")
    audits = [await make_audit(make_scheduler(uri, operation_timeout=300)) for _ in range(3)]
    await asyncio.gather(*(audit.append(entry(number)) for number in range(5) for audit in audits))
    assert (await audits[0].verify()).checked == 15
