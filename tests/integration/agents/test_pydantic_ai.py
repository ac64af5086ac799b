"""Durable pydantic-ai agents: no answer of a model or a tool that was kept is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from harness.apps import agents
from mainspring import ConfigurationError, Job, JobContext, Retry, Scheduler
from mainspring.integrations.pydantic_ai import MainspringDurability, durable, pack, unpack

Make = Callable[..., Scheduler]
SOON = Retry(attempts=3, delay=0.01)


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None) -> Job:
    await scheduler.start()
    job = await scheduler.schedule(name, data)
    return await scheduler.wait(job.id, timeout=60)


@pytest.mark.slow
async def test_an_agent_whose_process_is_killed_goes_on_without_asking_the_model_again(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    scheduler.job(isolation="process", retry=SOON)(agents.help_customer)
    file = tmp_path / "ran"
    done = await ended(scheduler, "help_customer", {"file": str(file)})
    assert (done.state, done.result) == ("completed", "refunded order 7"), done.error
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "completed"]
    assert file.read_text().splitlines() == ["model 1", "look_up", "model 2", "refund 1", "refund 2", "model 3"]
    # Stored with jobs: a change of these names would make running agents ask their models again.
    assert [(step.name, step.attempt) for step in done.steps] == [
        ("support__model.request", 1),
        ("support__function_toolset__<agent>.call_tool:look_up call-1", 1),
        ("support__model.request #2", 1),
        ("support__function_toolset__<agent>.call_tool:refund call-2", 2),
        ("support__model.request #3", 2),
    ]


@pytest.mark.slow
async def test_tools_that_run_side_by_side_keep_their_results_apart(scheduler: Scheduler) -> None:
    ran: list[str] = []
    order: list[str] = []
    rome = asyncio.Event()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ran.append("model")
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart(str([part.content for part in messages[-1].parts]))])  # type: ignore[union-attr]
        calls = [ToolCallPart("ask", {"city": city}, tool_call_id=f"id-{city}") for city in ("Oslo", "Rome")]
        return ModelResponse(parts=calls)

    agent = Agent(FunctionModel(answer), name="weather", capabilities=[MainspringDurability()])

    @agent.tool_plain
    async def ask(city: str) -> str:
        ran.append(city)
        if city == "Oslo":
            await rome.wait()
        order.append(city)
        rome.set()
        return f"{city}: fine"

    @scheduler.job("forecast", retry=SOON)
    async def forecast(ctx: JobContext) -> str:
        with durable(ctx):
            result = await agent.run("How is the weather?")
        if ctx.attempt == 1:
            raise ValueError("after the agent")
        return result.output

    done = await ended(scheduler, "forecast")
    assert done.result == "['Oslo: fine', 'Rome: fine']"
    assert (sorted(ran), order) == (["Oslo", "Rome", "model", "model"], ["Rome", "Oslo"])
    asked = [step.name.rpartition(":")[2] for step in done.steps if "call_tool" in step.name]
    assert sorted(asked) == ["ask id-Oslo", "ask id-Rome"]


async def test_several_runs_in_one_job_do_not_take_each_others_answers(scheduler: Scheduler) -> None:
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = str(messages[0].parts[0].content)  # type: ignore[union-attr]
        asked.append(prompt)
        return ModelResponse(parts=[TextPart(prompt.upper())])

    agent = Agent(FunctionModel(answer), name="echo", capabilities=[MainspringDurability()])

    @scheduler.job("twice", retry=SOON)
    async def twice(ctx: JobContext) -> list[str]:
        with durable(ctx):
            said = [(await agent.run(text)).output for text in ("a", "b")]
        if ctx.attempt == 1:
            raise ValueError("again")
        return said

    done = await ended(scheduler, "twice")
    assert (done.result, asked) == (["A", "B"], ["a", "b"])
    assert [step.name for step in done.steps] == ["echo__model.request", "echo__model.request run 2"]


async def test_answers_that_are_far_larger_than_a_result_may_be_are_kept(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    asked: list[int] = []
    story = "Once upon a time there was a queue, and it was never empty. " * 10_000

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(1)
        return ModelResponse(parts=[TextPart(story)])

    agent = Agent(FunctionModel(answer), name="teller", capabilities=[MainspringDurability()])

    @scheduler.job("tell", retry=SOON)
    async def tell(ctx: JobContext) -> bool:
        with durable(ctx):
            told = (await agent.run("Tell me a story.")).output == story
        if ctx.attempt == 1:
            raise ValueError("again")
        return told

    done = await ended(scheduler, "tell")
    assert (done.result, asked) == (True, [1])
    assert len(story) > 64 * 1024 and len(done.steps[0].result["json_zlib"]) < 64 * 1024


async def test_the_results_of_all_steps_may_take_more_where_the_scheduler_allows_it(make_scheduler: Make) -> None:
    for most, state in ((1_000_000, "failed"), (4_000_000, "completed")):
        scheduler = make_scheduler(max_result=2_000_000, max_steps_size=most)

        @scheduler.job("fill")
        async def fill(ctx: JobContext) -> None:
            for number in range(3):
                await ctx.step(f"page {number}", lambda: "x" * 1_000_000)

        done = await ended(scheduler, "fill")
        assert done.state == state, done.error
        await scheduler.stop()


async def test_a_tool_that_is_no_step_is_called_in_every_attempt_and_a_run_has_the_same_id_in_each(
    scheduler: Scheduler,
) -> None:
    called: list[str] = []
    run_ids: list[str | None] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        calls = [ToolCallPart(name, {}, tool_call_id=name) for name in ("kept", "direct")]
        return ModelResponse(parts=calls)

    agent = Agent(FunctionModel(answer), name="both", capabilities=[MainspringDurability()])

    @agent.tool_plain
    async def kept() -> str:
        called.append("kept")
        return "kept"

    @agent.tool(metadata={"mainspring": False})
    async def direct(run: RunContext[object]) -> str:
        called.append("direct")
        run_ids.append(run.run_id)
        return "direct"

    @scheduler.job("both", retry=SOON)
    async def both(ctx: JobContext) -> str:
        with durable(ctx):
            output = (await agent.run("go")).output
        if ctx.attempt == 1:
            raise ValueError("again")
        return output

    done = await ended(scheduler, "both")
    assert done.result == "done", done.error
    assert sorted(called) == ["direct", "direct", "kept"]
    assert not [step.name for step in done.steps if "direct" in step.name]
    assert run_ids == [f"{done.id}:1"] * 2


async def test_after_its_block_an_agent_makes_no_steps_and_long_names_of_steps_stay_apart(
    scheduler: Scheduler,
) -> None:
    names = [f"{'long ' * 50}{number}" for number in range(2)]
    agents = [Agent(TestModel(), name=name, capabilities=[MainspringDurability()]) for name in names]

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        with durable(ctx):
            for agent in agents:
                await agent.run("inside")
        await agents[0].run("outside")

    done = await ended(scheduler, "x")
    assert done.state == "completed", done.error
    steps = [step.name for step in done.steps]
    assert len(set(steps)) == len(steps) == 2 and all(len(name) <= 200 for name in steps)


async def test_outside_a_job_the_agent_runs_as_without_the_capability() -> None:
    agent = Agent(TestModel(custom_output_text="hello"), name="plain", capabilities=[MainspringDurability()])
    assert (await agent.run("hi")).output == "hello"
    with pytest.raises(ConfigurationError, match="async handler"), durable(object()):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("value", [None, "", 2**70, {"$a.b": [1.5, "\0", "\ud800"]}, ["x" * 10_000], {"é": None}])
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_a_small_result_is_stored_as_text_that_can_be_read() -> None:
    assert pack({"é": [1, None]}) == {"json": '{"é":[1,null]}'}
