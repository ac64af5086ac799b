"""Durable pydantic-ai agents: every model request and tool call of an agent's run is a step of the job.

    agent = Agent("openai:gpt-5", name="support", capabilities=[MainspringDurability()])

    @scheduler.job("answer")
    async def answer(ctx: JobContext, question: str) -> str:
        with durable(ctx):
            return (await agent.run(question)).output

The next attempt gets from its steps what the model and the tools have answered before. Outside `durable`, the agent
runs as without the capability. The names of steps and the form of their results are stored with jobs and stay as they
are: tests pin both. Needs the extra `pydantic-ai`.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, cast

from mainspring.engine.run.context import JobContext
from mainspring.errors import ConfigurationError, StepError
from mainspring.model.fields import Fields

try:
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        DurableOperationBackend,
        DurableOperationId,
        JournalCallableOperationBackend,
        RoleBasedOperationConfig,
        conversation_id_from_run_id,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.tools import AgentDepsT, RunContext
    from pydantic_ai.toolsets import ToolsetTool
    from pydantic_core import PydanticSerializationError
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "pydantic_ai":
        raise
    raise ConfigurationError("Durable agents need the extra: pip install 'mainspring[pydantic-ai]'.") from None

_LONGEST_NAME = 200
# A larger result is compressed: messages of models are text that repeats itself, and shrink to a fifth or less.
_PLAIN = 4_096
_TEXT, _COMPRESSED = "json", "json_zlib"
Config = Fields


@dataclass(slots=True)
class _Run:
    """One run of a handler: its context, and the steps that its agents have begun so far."""

    ctx: JobContext
    agent_runs: dict[str, int] = field(default_factory=dict)
    started: int = 0
    begun: Counter[str] = field(default_factory=Counter)

    def next_run_id(self) -> str:
        """The id of the next agent run: the same in every attempt, since agents start in the same order."""
        self.started += 1
        run_id = f"{self.ctx.id}:{self.started}"
        self.agent_runs[run_id] = self.started
        return run_id

    def step_name(self, name: str, run: RunContext[Any] | None) -> str:
        """The name of the next step of an operation. A tool call has the model's id of the call in it, so that calls
        that run side by side keep their results apart, whichever begins first."""
        parts = [name]
        if run is not None and run.run_id is not None:
            number = self.agent_runs.setdefault(run.run_id, len(self.agent_runs) + 1)
            parts += [f"run {number}"] if number > 1 else []
        if run is not None and run.tool_call_id is not None:
            parts.append(run.tool_call_id)
        stem = " ".join(parts)
        self.begun[stem] += 1
        return _fitting(stem if self.begun[stem] == 1 else f"{stem} #{self.begun[stem]}")


_current: ContextVar[_Run | None] = ContextVar("mainspring_durable_run", default=None)


@contextmanager
def durable(ctx: JobContext) -> Iterator[None]:
    """Let the agents that run inside keep their model requests and tool calls as steps of this job.

    One such block surrounds all agents of a handler. Agents must be run in the same order in every attempt: choose by
    the job's data and by results of steps.
    """
    if not isinstance(ctx, JobContext):
        raise ConfigurationError("durable() takes the context of an async handler: durable(ctx).")
    token = _current.set(_Run(ctx))
    try:
        yield
    finally:
        _current.reset(token)


class StepBackend(JournalCallableOperationBackend[Config]):
    """Runs each operation of an agent as a step of the job."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: Config,
    ) -> object:
        run = _current.get()
        assert run is not None, "operations are dispatched inside durable() only"
        agent_run = next((one for one in cache_key if isinstance(one, RunContext)), None)

        async def packed() -> Mapping[str, Any]:
            return pack(await body())

        return unpack(await run.ctx.step(run.step_name(name, agent_run), packed))


class MainspringDurability(BaseDurabilityCapability[AgentDepsT]):
    """The capability that makes an agent durable inside `durable(ctx)`.

    `models` are further models that a run may name; `name` identifies the agent in the names of steps, by default the
    agent's own. A tool with `metadata={"mainspring": False}` is called directly and not as a step: for a tool that uses
    steps, calls or waits of the job itself.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Mainspring",
        durable_unit_noun="step",
        durable_container_noun="job",
        codec=JSON_CODEC,
        serialization_failure=lambda error: StepError(f"The result of a step is no JSON: {error}"),
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key="mainspring",
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)

    @property
    def in_durable_context(self) -> bool:
        return _current.get() is not None

    def get_default_run_id(self) -> str | None:
        run = _current.get()
        return None if run is None else run.next_run_id()

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Config]:
        resolve = self._build_resolve_tool_config({})

        def for_tool(operation_id: DurableOperationId, tool: object | None, name: str) -> Config | Literal[False]:
            return cast("Config | Literal[False]", resolve(cast("ToolsetTool[Any] | None", tool), name))

        return StepBackend(
            agent_name=self.name,
            default_model_id=self.default_model_id,
            config=RoleBasedOperationConfig(model={}, event={}, capability={}, tool={}, resolve_tool=for_tool),
        )


def pack(value: object) -> Fields:
    """A result as it is stored: JSON as text, compressed if it is large."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, PydanticSerializationError) as error:
        raise StepError(f"The result of a step is no JSON: {error}") from error
    content = text.encode("utf-8", "surrogatepass")
    return {_TEXT: text} if len(content) <= _PLAIN else {_COMPRESSED: zlib.compress(content, 6)}


def unpack(stored: Mapping[str, Any]) -> object:
    """The result of a stored step."""
    if _COMPRESSED in stored:
        return json.loads(zlib.decompress(stored[_COMPRESSED]).decode("utf-8", "surrogatepass"))
    return json.loads(stored[_TEXT])


def _fitting(name: str) -> str:
    """A name that a step may have: long or unprintable ones end with their digest."""
    if len(name) <= _LONGEST_NAME and name.isprintable():
        return name
    plain = "".join(one if one.isprintable() else "_" for one in name)
    return f"{plain[:160]} {sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
