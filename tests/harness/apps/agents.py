"""An agent in a process of its own, which must be importable; its model is a function, and each request of it leaves a
line in a file."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from mainspring import JobContext
from mainspring.integrations.pydantic_ai import MainspringDurability, durable


def note(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(f"{line}\n")


def make_agent(file: Path, name: str = "support") -> Agent[JobContext, str]:
    """An agent that looks up an order, then asks for a refund, then answers."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = (len(messages) + 1) // 2
        note(file, f"model {turn}")
        if turn == 1:
            return ModelResponse(parts=[ToolCallPart("look_up", {"order": 7}, tool_call_id="call-1")])
        if turn == 2:
            return ModelResponse(parts=[ToolCallPart("refund", {"order": 7}, tool_call_id="call-2")])
        return ModelResponse(parts=[TextPart("refunded order 7")])

    agent: Agent[JobContext, str] = Agent(
        FunctionModel(answer), name=name, deps_type=JobContext, capabilities=[MainspringDurability()]
    )

    @agent.tool
    def look_up(run: RunContext[JobContext], order: int) -> dict[str, int]:
        note(file, "look_up")
        return {"order": order, "price": 30}

    @agent.tool
    def refund(run: RunContext[JobContext], order: int) -> str:
        note(file, f"refund {run.deps.attempt}")
        if run.deps.attempt == 1:
            os._exit(9)
        return "done"

    return agent


async def help_customer(ctx: JobContext, file: str) -> str:
    """Its process dies in the second tool of the first attempt."""
    with durable(ctx):
        return (await make_agent(Path(file)).run("refund order 7", deps=ctx)).output
