"""Declared flows: their nodes run in order, with the results of those before them, and the whole has an end."""

import asyncio
from typing import Any

import pytest
from pymongo import MongoClient

from harness.waiting import eventually
from mainspring import ConfigurationError, JobContext, Scheduler
from mainspring.client.scheduler import core_of
from mainspring.errors import FlowFailed, FlowNotFound, InvalidFlow, JobNotFound
from mainspring.model.flows.graph import LARGEST_FLOW
from mainspring.store.codec import document_id
from mainspring.store.flows import spawning
from mainspring.store.flows.layout import Layouts
from mainspring.sync import JobContext as SyncContext

SOON = 20


@pytest.fixture
def ran(scheduler: Scheduler) -> list[Any]:
    """What the handlers of these tests have noted."""
    noted: list[Any] = []

    @scheduler.job("extract")
    async def extract(day: int) -> dict[str, Any]:
        noted.append("extract")
        return {"path": f"/{day}", "shards": [{"n": 1}, {"n": 2}, {"n": 3}]}

    @scheduler.job("note")
    async def note(ctx: JobContext, what: str = "", value: Any = None) -> Any:
        noted.append((what, value))
        return value

    @scheduler.job("transform")
    async def transform(n: int) -> int:
        noted.append(n)
        return n * 10

    @scheduler.job("fail", retry=1)
    async def fail() -> None:
        noted.append("fail")
        raise ValueError("no luck")

    @scheduler.job("seen")
    async def seen(ctx: JobContext) -> dict[str, Any]:
        found = {name: [one.state, one.result] for name, one in ctx.before.items()}
        noted.append(found)
        return found

    return noted


async def test_nodes_run_after_those_that_they_wait_for_with_references_filled_in(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("nightly", {"day": 3})
    extract = flow.add("extract", {"day": 3})
    first = flow.add("note", {"what": "first", "value": {"in": [extract.result["path"]]}}, after=extract, name="first")
    flow.add("note", {"what": "last", "value": extract.result["shards"][2]["n"]}, after=first, name="last")
    run = await flow.start()
    assert run.state == "pending" and run.name == "nightly" and run.kind == "declared"
    async with scheduler:
        ended = await run.wait(SOON)
    assert ended.state == "completed", ended.error
    assert ran == ["extract", ("first", {"in": ["/3"]}), ("last", 3)]
    assert [(node.name, node.state) for node in ended.nodes] == [
        ("extract", "completed"),
        ("first", "completed"),
        ("last", "completed"),
    ]
    assert ended.data == {"day": 3}
    assert {(edge.before, edge.after) for edge in ended.edges} == {("extract", "first"), ("first", "last")}


@pytest.mark.slow
async def test_a_map_fans_out_when_it_gets_there_and_the_next_node_waits_for_all_of_it(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("fan")
    extract = flow.add("extract", {"day": 1})
    shards = flow.map("transform", over=extract.result["shards"], after=extract)
    flow.add("note", {"what": "load", "value": shards.result["total"]}, after=shards)
    async with scheduler:
        ended = await (await flow.start()).wait(SOON)
    assert ended.state == "completed", ended.error
    assert sorted(ran[1:4]) == [1, 2, 3]
    assert ran[4] == ("load", 3)
    assert ended.node("transform").counts == {"completed": 3}
    assert ended.node("transform").is_map


@pytest.mark.parametrize("key", [None, "n"])
@pytest.mark.slow
async def test_a_node_reads_the_results_of_a_map_before_it_page_by_page(
    scheduler: Scheduler, ran: list[Any], monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setattr(spawning, "PAGE", 2)

    @scheduler.job("sum")
    async def total(ctx: JobContext) -> list[Any]:
        return [(job.data["n"], job.result) async for job in ctx.results("double")]

    @scheduler.job("sum-in-a-thread")
    def total_in_a_thread(ctx: SyncContext) -> list[Any]:
        return [(job.data["n"], job.result) for job in ctx.results("double")]

    @scheduler.job("wrong")
    async def wrong(ctx: JobContext) -> None:
        with pytest.raises(ConfigurationError, match="comes after 'double', and not after 'doubel'"):
            [job async for job in ctx.results("doubel")]

    flow = scheduler.flow("sums")
    double = flow.map("transform", [{"n": n} for n in range(5)], key=key, name="double")
    for name in ("sum", "sum-in-a-thread", "wrong"):
        flow.add(name, after=double)
    await scheduler.start()
    started = await flow.start()
    ended = await started.wait(SOON)
    assert ended.state == "completed", ended
    for name in ("sum", "sum-in-a-thread"):
        (result,) = [job.result async for job in scheduler.jobs(name=name)]
        found = result if key is None else sorted(result)
        assert found == [[n, n * 10] for n in range(5)]


async def test_a_map_over_nothing_completes_at_once(scheduler: Scheduler, ran: list[Any]) -> None:
    flow = scheduler.flow("empty")
    none = flow.map("transform", over=[])
    flow.add("note", {"what": "after"}, after=none)
    async with scheduler:
        assert (await (await flow.start()).wait(SOON)).state == "completed"
    assert ran == [("after", None)]


async def test_items_that_are_no_mappings_are_given_to_a_named_argument(scheduler: Scheduler, ran: list[Any]) -> None:
    flow = scheduler.flow("named")
    flow.map("note", over=[7, 8], data={"what": "item"}, item="value")
    async with scheduler:
        assert (await (await flow.start()).wait(SOON)).state == "completed"
    assert sorted(ran) == [("item", 7), ("item", 8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "words"), [({"n": 1}, "goes over a list of items, not dict"), ([1, 2], "Item 0 of the map is int")]
)
async def test_a_map_over_a_result_that_has_no_items_fails_at_once(
    scheduler: Scheduler, ran: list[Any], result: Any, words: str
) -> None:
    flow = scheduler.flow("unfit")
    given = flow.add("note", {"value": result})
    flow.map("transform", over=given.result, after=given)
    await scheduler.start()

    ended = await (await flow.start()).wait(timeout=SOON)

    assert ended.state == "failed" and words in str(ended.error)
    assert (await scheduler.get_job(f"{ended.id}.transform")).tries == 1


async def test_a_map_whose_jobs_are_refused_is_not_tried_for_hours(
    scheduler: Scheduler, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.model.jobs.retry.Retry.delay_before", lambda retry, attempt, spread=0.5: 0.01)
    flow = scheduler.flow("unfit")
    given = flow.add("note", {"value": [{"m": 1}]})
    flow.map("huge", over=given.result, data={"rest": "x" * 262_144}, after=given)

    @scheduler.job("huge")
    async def huge(m: int, rest: str) -> None: ...

    await scheduler.start()

    ended = await (await flow.start()).wait(timeout=SOON)

    assert ended.state == "failed" and "over the limit of" in str(ended.error)


async def test_a_failed_node_cancels_those_that_need_it_and_the_flow_fails_and_names_it(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("broken")
    fail = flow.add("fail")
    load = flow.add("note", {"what": "load"}, after=fail, name="load")
    flow.add("note", {"what": "further"}, after=load, name="further")
    flow.add("note", {"what": "oncall"}, after=[fail, load], when="failure", name="oncall")
    flow.add("seen", after=load, when="done", name="tidy")
    async with scheduler:
        ended = await (await flow.start()).wait(SOON)
    assert ended.state == "failed"
    assert ended.error is not None and ended.error.startswith(FlowFailed.__name__)
    assert "'fail' failed (ValueError: no luck)" in ended.error and "2 more were cancelled" in ended.error
    assert ("load", None) not in ran and ("further", None) not in ran
    assert ("oncall", None) in ran and {"load": ["cancelled", None]} in ran
    failed = ended.node("fail")
    assert ended.node("load").because == failed.id == ended.node("further").because
    assert (await scheduler.get_job(ended.id)).tries == 1


async def test_a_node_for_failures_is_skipped_without_one_and_the_flow_completes(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("fine")
    note = flow.add("note", {"what": "a"}, name="a")
    oncall = flow.add("note", {"what": "oncall"}, after=note, when="failure", name="oncall")
    flow.add("note", {"what": "never"}, after=oncall, name="never")
    async with scheduler:
        ended = await (await flow.start()).wait(SOON)
    assert ended.state == "completed", ended.error
    assert ran == [("a", None)]
    assert ended.node("oncall").skipped and ended.node("never").skipped


@pytest.mark.slow
async def test_data_of_an_older_version_with_references_is_upgraded_when_the_node_starts(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    def in_cents(data: dict[str, Any]) -> dict[str, Any]:
        return {"cents": data["euros"] * 100}

    @scheduler.job("pay", version=2, upgrade={1: in_cents})
    async def pay(cents: int) -> int:
        return cents

    flow = scheduler.flow("old")
    given = flow.add("note", {"value": 3})
    flow.add(pay, {"euros": given.result}, after=given, version=1)
    await scheduler.start()

    ended = await (await flow.start()).wait(timeout=SOON)

    assert (await scheduler.get_job(f"{ended.id}.pay")).result == 300


async def test_a_reference_to_a_missing_path_fails_the_node_and_names_node_and_path(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("missing")
    extract = flow.add("extract", {"day": 1})
    flow.add("note", {"value": extract.result["nothing"]}, after=extract, name="wants")
    async with scheduler:
        ended = await (await flow.start()).wait(SOON)
    wants = await scheduler.get_job(ended.node("wants").id or "")
    assert wants.state == "failed" and wants.tries == 1
    assert "the result of 'extract'['nothing']" in str(wants.error)


async def test_a_filled_in_value_is_checked_against_the_annotations_when_the_node_starts(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("types")
    extract = flow.add("extract", {"day": 1})
    flow.add("transform", {"n": extract.result["path"]}, after=extract)
    async with scheduler:
        ended = await (await flow.start()).wait(SOON)
    assert ended.error is not None and "'transform' failed (InvalidJob: The argument 'n'" in ended.error


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": 99}, "Node 'note': priority must be"),
        ({"retry": "often"}, "Node 'note': retry must be"),
        ({"delay": 5}, "Node 'note': delay is no option of a node"),
        ({"piority": 5}, "Node 'note': A node has no option 'piority'. Did you mean 'priority'"),
    ],
)
async def test_options_of_nodes_are_checked_before_anything_is_stored(
    scheduler: Scheduler, ran: list[Any], options: dict[str, Any], says: str
) -> None:
    flow = scheduler.flow("options")
    flow.add("note", **options)
    with pytest.raises(InvalidFlow, match=says):
        await flow.start()
    assert [job async for job in scheduler.jobs()] == []


async def test_data_of_nodes_is_checked_before_anything_is_stored(scheduler: Scheduler, ran: list[Any]) -> None:
    for data, says in (({"m": 1}, "has no argument 'm'"), ({"n": "x"}, "wrong type"), (None, "lacks 'n'")):
        flow = scheduler.flow("data")
        flow.add("transform", data)
        with pytest.raises(InvalidFlow, match=rf"Node 'transform': .*{says}"):
            await flow.start()
    flow = scheduler.flow("items")
    flow.map("transform", over=[{"n": 1}, {"n": "x"}])
    with pytest.raises(InvalidFlow, match=r"item 1: .*wrong type"):
        await flow.start()
    assert await scheduler.flows.all() == []


async def test_a_name_before_the_job_is_refused_with_the_right_order(scheduler: Scheduler) -> None:
    @scheduler.job("typed")
    async def typed(n: int) -> int:
        return n

    flow = scheduler.flow("order")
    for verb in (flow.add, flow.map):
        with pytest.raises(InvalidFlow, match=r"\(\) takes the job first; the name of the node .*: name='first'"):
            verb("first", typed)  # type: ignore[arg-type]


async def test_a_flow_that_is_too_large_is_refused(scheduler: Scheduler) -> None:
    flow = scheduler.flow("large")
    for number in range(9):
        flow.add("other", {"text": "x" * (LARGEST_FLOW // 9)}, name=f"n{number}")
    with pytest.raises(InvalidFlow, match="too large"):
        await flow.start()


async def test_handlers_are_accepted_wherever_a_name_is(scheduler: Scheduler) -> None:
    @scheduler.job("typed")
    async def typed(n: int) -> int:
        return n

    flow = scheduler.flow("objects")
    flow.map(typed, over=[{"n": 1}], after=flow.add(typed, {"n": 2}, name="first"))
    async with scheduler:
        assert (await (await flow.start()).wait(SOON)).state == "completed"


async def test_the_data_of_a_node_is_what_it_was_when_it_was_added(scheduler: Scheduler, ran: list[Any]) -> None:
    data: dict[str, Any] = {"value": []}
    items = [{"n": 1}]
    flow = scheduler.flow("loop", {"days": data["value"]})
    for number in range(2):
        data["what"] = str(number)
        data["value"].append(number)
        flow.add("note", data)
    flow.map("transform", over=items)
    items[0]["n"] = 5
    await scheduler.start()

    await (await flow.start()).wait(timeout=SOON)

    assert flow.data == {"days": []}
    assert sorted(ran, key=str) == [("0", [0]), ("1", [0, 1]), 1]


async def test_references_among_the_items_of_a_map_are_refused_with_the_cure(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("wrong")
    first = flow.add("extract", {"day": 1})
    with pytest.raises(InvalidFlow, match=r"Item 1 of a map refers to the result of 'extract'.*; give .* in data"):
        flow.map("transform", over=[{"n": 1}, {"n": first.result["n"]}], after=first)


async def test_an_item_without_the_key_of_its_map_is_refused_before_anything_is_stored(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("wrong")
    flow.map("note", over=[{"what": "a"}, {"value": 1}], key="what")
    with pytest.raises(InvalidFlow, match="Node 'note': item 1 has no 'what', which is the key of the map"):
        await flow.start()


async def test_handles_of_another_flow_are_refused(scheduler: Scheduler) -> None:
    one, other = scheduler.flow("one"), scheduler.flow("other")
    node = one.add("a")
    with pytest.raises(InvalidFlow, match="belongs to another flow"):
        other.add("b", after=node)
    with pytest.raises(InvalidFlow, match="belongs to another flow"):
        other.add("b", {"x": node.result})


async def test_a_chain_gives_each_step_the_result_of_the_one_before(scheduler: Scheduler) -> None:
    @scheduler.job("add-one")
    async def add_one(ctx: JobContext, start: int = 0) -> int:
        result: int = (ctx.before.result or start) + 1
        return result

    async with scheduler:
        run = await scheduler.chain(("add-one", {"start": 5}), add_one, ("add-one", {}, {"priority": 2}))
        ended = await run.wait(SOON)
    last = await scheduler.get_job(ended.nodes[-1].id or "")
    assert (last.result, last.priority) == (8, 2)


async def test_a_flow_starts_if_and_only_if_the_transaction_of_its_caller_commits(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("tx")
    flow.add("note", {"what": "tx"})
    with pytest.raises(RuntimeError):
        async with scheduler.transaction() as tx:
            lost = await flow.start(session=tx.session)
            raise RuntimeError
    with pytest.raises((FlowNotFound, JobNotFound)):
        await scheduler.flows.get(lost.id)
    async with scheduler.transaction() as tx:
        run = await flow.start(session=tx.session)
    async with scheduler:
        assert (await run.wait(SOON)).state == "completed"
    assert ran == [("tx", None)]


async def test_a_live_flow_with_the_same_dedupe_key_is_returned(scheduler: Scheduler, ran: list[Any]) -> None:
    async def start() -> Any:
        flow = scheduler.flow("day", dedupe_key="day:1")
        flow.add("note", {"what": "once"})
        return await flow.start()

    first, second = await start(), await start()
    assert first.id == second.id and second.deduplicated and not first.deduplicated
    async with scheduler:
        await first.wait(SOON)
        await eventually(lambda: ran == [("once", None)])


async def test_a_root_that_is_run_again_lays_the_same_nodes_out(scheduler: Scheduler, ran: list[Any]) -> None:
    flow = scheduler.flow("again")
    a = flow.add("note", {"what": "a"}, name="a")
    flow.add("note", {"what": "b"}, after=a, name="b")
    run = await flow.start()
    async with scheduler:
        await run.wait(SOON)
        await scheduler.retry(run.id)
        ended = await run.wait(SOON)
    assert ended.state == "completed"
    assert ran == [("a", None), ("b", None)]


async def test_the_root_has_the_queue_of_its_first_node(scheduler: Scheduler) -> None:
    flow = scheduler.flow("queued")
    flow.add("x", queue="images", priority=2)
    run = await flow.start()
    job = await scheduler.get_job(run.id)
    assert (job.queue, job.priority, job.label) == ("images", 2, "queued")


async def test_flows_are_listed_newest_first_in_pages_by_name_and_state(scheduler: Scheduler) -> None:
    for number in range(5):
        flow = scheduler.flow(f"f{number % 2}")
        flow.add("x")
        await flow.start()
        await asyncio.sleep(0.002)
    await scheduler.schedule("plain")
    page = await scheduler.flows.all(2)
    rest = await scheduler.flows.all(10, after=page[-1])
    assert [flow.name for flow in (*page, *rest)] == ["f0", "f1", "f0", "f1", "f0"]
    assert [flow.name async for flow in scheduler.flows.find(name="f1")] == ["f1", "f1"]
    assert await scheduler.flows.all(state="failed") == []


async def test_a_plain_job_is_no_flow(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("plain")
    with pytest.raises(FlowNotFound, match=f"has made no children. mainspring jobs explain {job.id} shows the job"):
        await scheduler.flows.get(job.id)
    with pytest.raises(FlowNotFound):
        await scheduler.flows.get("nothing")


@pytest.mark.slow
async def test_cancelling_a_flow_ends_all_its_nodes(scheduler: Scheduler) -> None:
    started = asyncio.Event()

    @scheduler.job("long")
    async def long(ctx: JobContext) -> None:
        started.set()
        await asyncio.sleep(60)

    flow = scheduler.flow("cancelled")
    a = flow.add("long")
    flow.add("long", after=a, name="never")
    async with scheduler:
        run = await flow.start()
        await asyncio.wait_for(started.wait(), SOON)
        await eventually(lambda: _is(scheduler, run.id, "blocked"))
        await run.cancel("wrong day")
        ended = await run.wait(SOON)
        assert ended.state == "cancelled"

        async def all_ended() -> bool:
            return all(node.state == "cancelled" for node in (await run.refresh()).nodes)

        await eventually(all_ended)


async def _is(scheduler: Scheduler, job_id: str, state: str) -> bool:
    return (await scheduler.get_job(job_id)).state == state


async def test_no_check_starts_a_node_before_the_nodes_that_it_waits_for_are_stored(
    scheduler: Scheduler, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = Layouts._insert

    async def insert_and_check(layouts: Layouts, pairs: Any) -> Any:
        fresh = await insert(layouts, pairs)
        waits = [one for _, document in pairs for one in (document.get("waits") or {}).get("ids", ())]
        store = await core_of(scheduler).store()
        await store.checks.check(waits)
        await store.checks.sweep()
        return fresh

    monkeypatch.setattr(Layouts, "_insert", insert_and_check)
    started, door = asyncio.Event(), asyncio.Event()

    @scheduler.job("stays")
    async def stays() -> None:
        started.set()
        await door.wait()

    flow = scheduler.flow("order")
    flow.add("note", {"what": "second"}, after=flow.add("stays"))
    async with scheduler:
        run = await flow.start()
        await asyncio.wait_for(started.wait(), SOON)
        await eventually(lambda: _is(scheduler, run.id, "blocked"))
        assert (await run.refresh()).node("note").state == "blocked"
        door.set()
        assert (await run.wait(SOON)).state == "completed"
    assert ran == [("second", None)]


@pytest.mark.slow
async def test_roots_that_ran_when_their_worker_died_run_in_the_next_worker_itself(
    scheduler: Scheduler, ran: list[Any], uri: str
) -> None:
    """Another job of a dead worker runs in a process of its own, which has no store."""
    flow = scheduler.flow("nightly")
    flow.map("transform", [{"n": 1}, {"n": 2}])
    run = await flow.start()
    batch = await scheduler.batch([{"name": "transform", "data": {"n": 3}}], on_done="seen")
    with MongoClient[dict[str, Any]](uri) as client:
        for id in (run.id, batch.id):
            suspect = {"$set": {"suspect": True}}
            client.get_default_database()["jobs"].update_one({"_id": document_id(id)}, suspect, hint="_id_")
    async with scheduler:
        ends = [await run.wait(SOON), await batch.wait(SOON)]
    assert [end.state for end in ends] == ["completed", "completed"]
    roots = [await scheduler.get_job(id) for id in (run.id, batch.id)]
    assert [root.error for root in roots] == [None, None]
    assert sorted(one for one in ran if isinstance(one, int)) == [1, 2, 3]
