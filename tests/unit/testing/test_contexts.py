"""Contexts for handlers alone: they record what the handler does, and have the answers that the test presets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest

from mainspring import ChildrenFailed, ConfigurationError, JobContext, StepError, Suspension
from mainspring.sync import JobContext as BlockingJobContext
from mainspring.testing import WAITING, assert_scheduled, make_context


async def order(ctx: JobContext, item: str) -> str:
    """A handler that uses most of its context."""
    ctx.progress(10, "begun")
    paid = await ctx.step("pay", lambda: f"paid {item}")
    ctx.log(f"attempt {ctx.attempt}")
    if ctx.is_cancelled:
        return "stopped"
    parcel = await ctx.call("pack", "pack-order", {"item": item})
    sizes = await ctx.map("labels", "print-label", [{"part": 1}, {"part": 2}], key="part")
    approval = await ctx.wait_for("approved", timeout="1h")
    await ctx.sleep("pause", "1d")
    await ctx.schedule("mail", {"item": item}, queue="out")
    return f"{paid}, {parcel}, {[job.result async for job in sizes]}, {approval}"


async def test_a_handler_runs_with_preset_answers_and_all_that_it_does_is_recorded() -> None:
    ctx = make_context(attempt=2, answers={"pack": "box", "labels": ["a", "b"], "approved": {"by": "ann"}})
    assert await order(ctx, "lamp") == "paid lamp, box, ['a', 'b'], {'by': 'ann'}"
    record = ctx.record
    assert [(one.percent, one.note) for one in record.progress] == [(10, "begun")]
    assert (record.log, record.steps) == (["attempt 2"], {"pay": "paid lamp"})
    assert record.sleeps == {"pause": timedelta(days=1)}
    assert [(child.wait, child.name, child.data) for child in record.children] == [
        ("pack", "pack-order", {"item": "lamp"}),
        ("labels", "print-label", {"part": 1}),
        ("labels", "print-label", {"part": 2}),
    ]
    assert_scheduled(ctx, "mail", {"item": "lamp"}, queue="out")
    with pytest.raises(AssertionError, match=r"No job 'fax' was scheduled\. Scheduled were"):
        assert_scheduled(ctx, "fax")


async def test_a_preset_step_is_not_run_and_a_cancellation_is_seen() -> None:
    ctx = make_context(steps={"pay": "paid before"}, cancelled=True)
    assert await order(ctx, "lamp") == "stopped"
    assert ctx.record.steps == {}
    other = make_context()
    assert not other.is_cancelled
    other.stop()
    assert other.is_cancelled


async def test_a_child_fails_by_an_exception_and_a_function_answers_for_each_item() -> None:
    with pytest.raises(ChildrenFailed, match="pack"):
        await order(make_context(answers={"pack": LookupError("no box")}), "lamp")
    answers = {"pack": 1, "labels": lambda item: item["part"] * 10, "approved": None}
    assert await order(make_context(answers=answers), "lamp") == "paid lamp, 1, [10, 20], None"


async def test_a_wait_that_is_not_over_suspends_the_handler_and_one_without_an_answer_is_an_error() -> None:
    ctx = make_context(answers={"pack": WAITING})
    with pytest.raises(Suspension):
        await order(ctx, "lamp")
    assert [child.name for child in ctx.record.children] == ["pack-order"]
    with pytest.raises(AssertionError, match=r"no answer to ctx\.call\('pack', …\); .*answers have 'pac'"):
        await order(make_context(answers={"pac": 1}), "lamp")
    with pytest.raises(AssertionError, match="has more than 1 items, and its answer has 1 results"):
        await order(make_context(answers={"pack": 1, "labels": ["a"]}), "lamp")
    with pytest.raises(AssertionError, match="a list with a result for each child"):
        await order(make_context(answers={"pack": 1, "labels": 7}), "lamp")


async def test_items_of_the_same_key_are_one_child_of_a_map_as_in_a_worker() -> None:
    ctx = make_context(answers={"labels": ["a", "b"]})
    items = [{"part": 1, "copy": 1}, {"part": 1, "copy": 2}, {"part": 2, "copy": 1}]
    labels = await ctx.map("labels", "print-label", items, key="part")
    assert (len(labels), [job.result async for job in labels]) == (2, ["a", "b"])
    assert [child.data for child in ctx.record.children] == [items[0], items[2]]


async def test_a_map_with_keys_is_read_page_by_page() -> None:
    ctx = make_context(answers={"pages": lambda item: item["page"]})
    pages = await ctx.map("pages", "read-page", [{"page": number} for number in range(501)], key="page")
    assert [job.result async for job in pages] == list(range(501))


async def test_a_sleep_that_is_not_over_suspends_the_handler_which_then_schedules_nothing() -> None:
    ctx = make_context(answers={"pause": WAITING})
    with pytest.raises(Suspension):
        await ctx.sleep("pause", "1d")
    with pytest.raises(Suspension):
        await ctx.schedule("mail")
    assert ctx.record.scheduled == [] and ctx.record.sleeps == {"pause": timedelta(days=1)}


async def test_the_rules_of_steps_hold_and_a_node_sees_its_predecessors() -> None:
    ctx = make_context(before={"extract": {"rows": 3}, "check": ValueError("bad")}, results={"pages": [1, 2]})
    await ctx.step("a", lambda: 1)
    with pytest.raises(StepError, match="two steps 'a'"):
        await ctx.step("a", lambda: 1)
    assert (ctx.before["extract"].result, ctx.before["check"].state) == ({"rows": 3}, "failed")
    assert [job.result async for job in ctx.results("pages")] == [1, 2]


async def test_a_transaction_needs_one_of_the_test() -> None:
    with pytest.raises(ConfigurationError, match=r"no database.*drain\(\)"):
        make_context().transaction()

    @asynccontextmanager
    async def fake() -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(result=None)

    async with make_context(transaction=fake()).transaction() as tx:
        tx.result = 1


def test_a_sync_handler_runs_with_a_blocking_context() -> None:
    def handler(ctx: BlockingJobContext) -> list[object]:
        ctx.sleep("rest", 5)
        ctx.schedule("mail", {"to": "a"})
        pages = [job.result for job in ctx.map("pages", "page", [{}, {}])]
        return [ctx.step("one", lambda: 1), ctx.call("two", "double"), *pages, ctx.wait_for("go")]

    ctx = make_context(blocking=True, answers={"two": 2, "pages": [3, 4], "go": 5})
    assert handler(ctx) == [1, 2, 3, 4, 5]
    assert_scheduled(ctx, "mail", {"to": "a"})
    assert ctx.record.steps == {"one": 1}


def test_a_context_has_the_facts_of_its_job() -> None:
    ctx = make_context({"a": 1}, name="mail", attempt=3, queue="out", tags=["x"], idempotency_key="k")
    assert (ctx.name, ctx.data, ctx.attempt, ctx.queue, ctx.tags) == ("mail", {"a": 1}, 3, "out", ("x",))
    assert (ctx.idempotency_key, ctx.priority, ctx.schedule_id) == ("k", 5, None)
    with pytest.raises(ConfigurationError, match="attempt is a number from 1 on"):
        make_context(attempt=0)


@pytest.mark.parametrize("kind", [JobContext, BlockingJobContext])
def test_a_context_made_by_hand_is_refused_with_the_name_of_the_maker(kind: type) -> None:
    with pytest.raises(
        ConfigurationError, match=r"A worker makes the context .* use mainspring\.testing\.make_context"
    ):
        kind()
