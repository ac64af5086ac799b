"""Dead letters: how each failed job gets its print, and how they are listed and grouped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.dead import dead_letter, dead_letters
from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import ConfigurationError, Fail, Job, JobError, Retry, Scheduler, sync
from mainspring.model.jobs.outcome import Failed
from mainspring.store import Store
from mainspring.store.codec import fingerprint_of
from mainspring.store.jobs.end_fields import Finish

Make = Callable[..., Scheduler]

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def store_of(scheduler: Scheduler) -> Store:
    return inside(scheduler).open_store


async def listed(scheduler: Scheduler, **filter: Any) -> list[Job]:
    return [job async for job in scheduler.dead_letters.find(**filter)]


async def numbers(scheduler: Scheduler, **filter: Any) -> list[int]:
    return [job.data["number"] for job in await listed(scheduler, **filter)]


# -- prints --------------------------------------------------------------------------------------------------------


async def test_a_job_that_fails_gets_the_print_of_its_error_and_the_event_tells_it(scheduler: Scheduler) -> None:
    heard: list[str | None] = []
    scheduler.on("job:fail", lambda job: heard.append(job.fingerprint))

    @scheduler.job("work", retry=1)
    async def work(number: int) -> None:
        raise ValueError(f"number {number} is bad")

    async with scheduler:
        for number in (1, 22):
            await scheduler.wait((await scheduler.schedule("work", {"number": number})).id)
        one, other = await listed(scheduler)
        assert one.fingerprint == other.fingerprint and len(one.fingerprint or "") == 16
        assert one.error is not None and one.fingerprint == fingerprint_of("work", vars_of(one))
        await eventually(lambda: heard == [one.fingerprint] * 2)


def vars_of(job: Job) -> dict[str, Any]:
    assert job.error is not None
    return {"type": job.error.type, "message": job.error.message, "stack": job.error.stack}


async def test_a_job_that_runs_again_has_no_print_until_it_fails_again(scheduler: Scheduler, db: Database) -> None:
    broken = [True]

    @scheduler.job("work", retry=1)
    async def work() -> None:
        if broken[0]:
            raise ValueError

    async with scheduler:
        job = await scheduler.schedule("work")
        assert (await scheduler.wait(job.id)).fingerprint is not None
        broken[0] = False
        await scheduler.retry(job.id)
        assert (await scheduler.wait(job.id)).fingerprint is None
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None and "fingerprint" not in document


async def test_a_job_that_is_no_valid_one_gets_a_print(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_one({"name": "work", "state": "pending", "priority": "high"})
    await db.jobs.insert_one({"name": "work", "state": "failed", "error": {"type": "Old", "message": "from elsewhere"}})
    await store_of(scheduler).upkeep.adopt()
    assert {job.error.type for job in await listed(scheduler) if job.error and job.fingerprint} == {
        "Undecodable",
        "Old",
    }


async def test_a_job_whose_worker_died_at_the_last_attempt_gets_a_print(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    past = datetime.now(UTC) - timedelta(hours=1)
    fields = {"state": "running", "tries": 1, "max_attempts": 1, "worker": "gone:1:ab", "lease_until": past}
    lost = dead_letter(past) | fields
    del lost["fingerprint"], lost["error"], lost["finished_at"]
    await db.jobs.insert_one(lost)
    (rescued,) = await store_of(scheduler).rescues.rescue()
    assert rescued.state == "failed"
    (job,) = await listed(scheduler)
    assert job.error is not None and "gone:1:ab" in job.error.message
    elsewhere = {"type": "WorkerLost", "message": job.error.message.replace("gone:1:ab", "another:22:cd")}
    assert job.fingerprint == fingerprint_of("work", elsewhere)


async def test_dead_letters_that_another_program_has_stored_without_a_fingerprint_are_one_group(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    bare = list(dead_letters(250, NOW))
    for document in bare:
        del document["fingerprint"]
    await db.jobs.insert_many(bare)
    assert [group.fingerprint for group in await scheduler.dead_letters.groups()] == ["unknown"]
    assert len(await listed(scheduler, fingerprint="unknown")) == 250


# -- listing -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_dead_letters_are_listed_the_latest_first_and_page_by_page(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_many(dead_letters(1050, NOW))
    everything = await listed(scheduler)
    times = [job.finished_at for job in everything]
    assert len({job.id for job in everything}) == 1050 and times == sorted(times, reverse=True)  # type: ignore[type-var]

    pages: list[Job] = []
    while page := await listed(scheduler, limit=97, after=pages[-1] if pages else None):
        pages += page
    assert [job.id for job in pages] == [job.id for job in everything]


@pytest.mark.slow
async def test_a_page_goes_on_where_the_last_one_ended_whatever_happened_to_its_jobs(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    await db.jobs.insert_many(dead_letters(300, NOW))
    await db.jobs.insert_many([dead_letter(NOW - timedelta(seconds=1), n, _id=f"text {n}") for n in range(300, 310)])
    first = await listed(scheduler, limit=105)
    rest = await listed(scheduler, after=first[-1])
    for job in first:
        await scheduler.delete(job.id)
    assert [job.id for job in await listed(scheduler, after=first[-1])] == [job.id for job in rest]
    assert len(rest) == 310 - 105 and not {job.id for job in rest} & {job.id for job in first}


async def test_dead_letters_are_chosen_by_what_they_are(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    minute = timedelta(minutes=1)
    await db.jobs.insert_many(
        [
            dead_letter(NOW - 3 * minute, 1, queue="mail"),
            dead_letter(NOW - 2 * minute, 2, name="other", tags=["vip"]),
            dead_letter(NOW - minute, 3, error={"type": "KeyError", "message": "Out of (Memory)"}),
            dead_letter(NOW, 4) | {"state": "completed"},
        ]
    )
    assert await numbers(scheduler) == [3, 2, 1]
    assert await numbers(scheduler, queue="mail") == [1]
    assert await numbers(scheduler, name="other") == await numbers(scheduler, tag="vip") == [2]
    assert await numbers(scheduler, error="KeyError") == await numbers(scheduler, text="of (memory") == [3]
    assert await numbers(scheduler, since=NOW - 2 * minute) == [3, 2]
    assert await numbers(scheduler, until=NOW - 2 * minute) == [1]
    assert await numbers(
        scheduler, fingerprint=fingerprint_of("other", {"type": "ValueError", "message": "number 7 is bad"})
    ) == [2]
    assert await numbers(scheduler, name="work", error="KeyError", queue="mail") == []
    assert await numbers(scheduler, limit=0) == []


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        ({"nme": "x"}, "have no filter 'nme'. Did you mean 'name'"),
        ({"since": datetime(2026, 1, 1)}, "since=.* has no time zone"),
        ({"error": ValueError}, "error must be printable text"),
        ({"text": ""}, "text must be 1 to 1,000 characters"),
        ({"limit": -1}, "limit must be a whole number of at least 0"),
        ({"after": "x"}, "after must be a dead letter"),
    ],
)
async def test_a_wrong_filter_is_refused(scheduler: Scheduler, filter: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        await listed(scheduler, **filter)


# -- groups --------------------------------------------------------------------------------------------------------


async def test_dead_letters_are_grouped_with_first_seen_last_seen_and_count(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    letters = list(dead_letters(250, NOW))
    other = dead_letter(NOW, 7, name="other", error={"type": "KeyError", "message": "gone"}, queue="mail")
    await db.jobs.insert_many([*letters, other])
    first, second = await scheduler.dead_letters.groups()
    assert (first.name, first.error_type, first.message, first.count) == ("other", "KeyError", "gone", 1)
    assert first.sample_job_id == str(other["_id"]) and first.first_seen == first.last_seen == NOW
    assert (second.name, second.error_type, second.count) == ("work", "ValueError", 250)
    assert (second.first_seen, second.last_seen) == (letters[0]["finished_at"], letters[-1]["finished_at"])
    sample = next(one for one in letters if str(one["_id"]) == second.sample_job_id)
    assert second.message == sample["error"]["message"] and sample["finished_at"] == second.last_seen

    for filter in ({"name": "other"}, {"error": "KeyError"}, {"queue": "mail"}, {"since": NOW}, {"text": "gone"}):
        assert await scheduler.dead_letters.groups(**filter) == [first]
    assert await scheduler.dead_letters.groups(fingerprint=second.fingerprint, until=NOW) == [second]
    assert await scheduler.dead_letters.groups(name="none") == []


@pytest.mark.fresh_database
async def test_grouping_reads_the_index_alone(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_many(dead_letters(300, NOW))
    stages = [{"$match": {"state": "failed"}}, {"$project": {"_id": 1, "finished_at": 1, "fingerprint": 1}}]
    explained = await db.command(
        "explain", {"aggregate": "jobs", "pipeline": stages, "cursor": {}, "hint": "dead"}, verbosity="executionStats"
    )
    stats = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
    assert (stats["totalDocsExamined"], stats["totalKeysExamined"]) == (0, 300)


async def test_the_blocking_face_lists_and_groups_too(uri: str, db: Database, scheduler: Scheduler) -> None:
    await scheduler.connect()
    await db.jobs.insert_many(dead_letters(3, NOW))

    def look() -> tuple[int, int]:
        face = sync.Scheduler(uri)
        try:
            return len(list(face.dead_letters.find(name="work"))), face.dead_letters.groups()[0].count
        finally:
            face.stop()

    assert await asyncio.to_thread(look) == (3, 3)


# -- what is kept --------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_dead_letter_keeps_every_attempt_of_all_its_rounds(scheduler: Scheduler) -> None:
    @scheduler.job("work", retry=Retry(attempts=40, delay=0, jitter=0))
    async def work() -> None:
        raise ValueError

    async with scheduler:
        job = await scheduler.schedule("work")
        await scheduler.wait(job.id)
        await scheduler.retry(job.id)
        done = await scheduler.wait(job.id)
    assert [attempt.token for attempt in done.attempts] == list(range(1, 81)) and done.attempts_cut == 0
    assert [attempt.number for attempt in done.attempts] == [*range(1, 41), *range(1, 41)]


async def test_of_attempts_with_very_long_logs_the_last_three_megabytes_are_kept_and_the_others_counted(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    now = datetime.now(UTC)
    log = ["x" * 2000] * 100
    attempts = [{"n": n, "token": n, "outcome": "retried", "log": log} for n in range(1, 31)]
    running = dead_letter(now, attempts=attempts) | {"state": "running", "token": 31, "tries": 31}
    await db.jobs.insert_one(running)
    ending = Failed(JobError("ValueError", "bad"))
    await store_of(scheduler).finishing.finish([Finish(running["_id"], 31, 31, "w", now, now, ending)])
    job = await scheduler.get_job(str(running["_id"]))
    numbers = [attempt.number for attempt in job.attempts]
    assert numbers == list(range(31 - len(numbers) + 1, 32)) and job.attempts_cut == 31 - len(numbers)
    assert 2 * 2**20 < sum(len("".join(attempt.log)) for attempt in job.attempts) <= 3 * 2**20


async def test_a_job_that_was_given_up_on_purpose_is_a_dead_letter_too(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work() -> None:
        raise Fail("no such customer")

    async with scheduler:
        await scheduler.wait((await scheduler.schedule("work")).id)
        (group,) = await scheduler.dead_letters.groups()
    assert (group.error_type, group.message, group.count) == ("Fail", "no such customer", 1)
