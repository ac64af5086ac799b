"""Groups of dead letters: trend, queues hit, and groups beyond the newest dead letters."""

from __future__ import annotations

from datetime import timedelta

from harness.dead import dead_letter
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.clock import truncate
from mainspring.model.access.api_keys import Scope


async def test_failures_are_counted_by_their_cause_and_hour_with_the_queues_they_hit(scheduler: Scheduler) -> None:
    @scheduler.job("x", retry=1)
    async def x(kind: str) -> None:
        raise KeyError(kind) if kind == "a" else ValueError(kind)

    await scheduler.start()
    for kind, queue in (("a", "mail"), ("a", "default"), ("b", "default"), ("a", "mail")):
        await scheduler.wait((await scheduler.schedule("x", {"kind": kind}, queue=queue)).id, 60)

    async def counted() -> bool:
        groups = {group.error_type: group for group in await scheduler.dead_letters.groups()}
        first, second = groups["KeyError"], groups["ValueError"]
        return (
            (first.count, sum(first.trend), first.queues) == (3, 3, ("default", "mail"))
            and (second.count, sum(second.trend), second.queues) == (1, 1, ("default",))
            and len(first.trend) == 24
        )

    await eventually(counted)
    (own,) = [
        one for one in await scheduler.dead_letters.groups(scope=Scope(("mail",))) if one.error_type == "KeyError"
    ]
    assert (own.count, sum(own.trend), own.queues) == (2, 2, ("mail",))


async def test_a_job_run_again_leaves_the_group_and_stays_in_the_trend(scheduler: Scheduler) -> None:
    up = False

    @scheduler.job("x", retry=1)
    async def x() -> None:
        if not up:
            raise ValueError("down")

    await scheduler.start()
    jobs = [await scheduler.schedule("x") for _ in range(2)]
    for job in jobs:
        await scheduler.wait(job.id, 60)

    async def two() -> bool:
        (group,) = await scheduler.dead_letters.groups()
        return sum(group.trend) == 2

    await eventually(two)
    up = True
    await scheduler.retry(jobs[0].id)
    await scheduler.wait(jobs[0].id, 60)
    (group,) = await scheduler.dead_letters.groups()
    assert (group.count, sum(group.trend)) == (1, 2)


async def test_an_old_cause_is_listed_behind_many_new_dead_letters_of_another(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    now = truncate(store.clock.now())
    new = [dead_letter(now - timedelta(seconds=n), error={"type": "New", "message": "m"}) for n in range(1200)]
    old = [dead_letter(now - timedelta(days=n + 1), error={"type": "Old", "message": "m"}) for n in range(3)]
    await store.connection.jobs.insert_many([*new, *old])
    first, second = await scheduler.dead_letters.groups()
    assert (first.error_type, first.count, first.capped) == ("New", 400, True)
    assert (second.error_type, second.count, second.capped) == ("Old", 3, False)
    assert (first.last_seen, first.first_seen) == (new[0]["finished_at"], new[-1]["finished_at"])
    assert second.first_seen == old[-1]["finished_at"]
    found = [job.id async for job in scheduler.dead_letters.find(fingerprint=second.fingerprint)]
    assert found == [str(one["_id"]) for one in old]


async def test_dead_letters_without_a_fingerprint_are_one_group(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    now = store.clock.now()
    stored = [dead_letter(now, n) for n in range(2)]
    for one in stored:
        del one["fingerprint"]
    await store.connection.jobs.insert_many(stored)
    (group,) = await scheduler.dead_letters.groups()
    assert (group.fingerprint, group.count) == ("unknown", 2)
    assert len([job async for job in scheduler.dead_letters.find(fingerprint="unknown")]) == 2
