"""The verbs that start flows: declared ones, chains and batches, at once or by a schedule.

A flow is stored as one job, its root: so it starts all or nothing, in the caller's transaction too, and has dedupe keys
and schedules as jobs have. Nodes are checked before that, as `schedule()` checks jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from mainspring.client.core import Core
from mainspring.client.drafting import Drafts
from mainspring.client.flows.builder import FlowBuilder
from mainspring.client.namespaces.schedules import Schedule, StoredSchedules, new_schedule_id
from mainspring.client.scheduling import Scheduling
from mainspring.config.settings import check_name
from mainspring.engine.handlers import Named
from mainspring.errors import ConfigurationError, InvalidFlow, InvalidJob
from mainspring.model.fields import Fields
from mainspring.model.flows.graph import LARGEST_FLOW, Graph, Node
from mainspring.model.jobs.draft import OPTIONS, Draft, check_retry
from mainspring.model.jobs.options import FlowOptions, TemplateOptions
from mainspring.model.jobs.reserved_names import FLOW
from mainspring.model.jobs.retry import seconds
from mainspring.model.schedules.schedule import check_repeated, make_spec
from mainspring.rules import Rule
from mainspring.spelling import suggestion
from mainspring.store.bounded_values import encode_data

if TYPE_CHECKING:
    from mainspring.client.namespaces.flows import Flow, Flows

NODE_OPTIONS = frozenset(TemplateOptions.__annotations__)
FLOW_OPTIONS = frozenset(FlowOptions.__annotations__)
Step = Named | tuple[Named, Mapping[str, Any]] | tuple[Named, Mapping[str, Any], Mapping[str, Any]]
"""A step of a chain: a job, its data, and its options."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """A node, checked, and the job that it becomes."""

    node: Node
    draft: Draft


class FlowStarts:
    """Starts flows."""

    def __init__(
        self, core: Core, drafts: Drafts, scheduling: Scheduling, schedules: StoredSchedules, flows: Flows
    ) -> None:
        self._core = core
        self._drafts = drafts
        self._scheduling = scheduling
        self._schedules = schedules
        self._flows = flows

    def flow(self, name: str, data: Mapping[str, Any] | None = None, **options: Unpack[FlowOptions]) -> FlowBuilder:
        """Declare a flow: a graph of jobs that wait for other jobs, known before it starts.

        Add nodes with `add()` and `map()`, then `await flow.start()`. `data` is stored with the flow. `options` apply
        to its root job: `dedupe_key`, `run_at`, `delay`, `expires_at`, `tags`, `priority`, and `queue` (by default the
        queue of the first node).
        """
        unknown = options.keys() - FLOW_OPTIONS
        if unknown:
            first = min(unknown)
            raise InvalidFlow(f"A flow has no option {first!r}.{suggestion(first, sorted(FLOW_OPTIONS))}")
        return FlowBuilder(self, check_name(name, "A flow's name"), data, options)

    async def chain(
        self, *steps: Step, name: str = "chain", session: Any = None, **options: Unpack[FlowOptions]
    ) -> Flow:
        """Start a flow of jobs that run one after the other. Each starts only if the one before it completed.

        A step is a job, or a tuple of a job, its data and, optionally, its options: `("resize", {"path": p}, {"queue":
        "images"})`. A handler reads the result of the previous step from `ctx.before.result`.
        """
        builder = self.flow(name, **options)
        last = None
        for place, step in enumerate(steps, 1):
            job, data, own = step_of(step, f"Step {place} of a chain")
            last = builder.add(job, data, after=last, **own)
        return await builder.start(session=session)

    def named(self, job: Named) -> str:
        """The name of a job, given as text or as the function that handles it."""
        try:
            return check_name(self._core.handlers.named(job), "a job's name")
        except InvalidJob:
            raise
        except ConfigurationError as error:
            raise InvalidFlow(str(error)) from None

    async def start(self, builder: FlowBuilder, session: Any) -> Flow:
        """Store the root of a flow, which any worker lays out."""
        graph, draft = await self._root(builder, builder.options)
        job = await self._scheduling.store_draft(draft, session)
        from mainspring.client.namespaces.flows import started_flow

        return started_flow(self._flows, job, graph)

    async def schedule(
        self,
        builder: FlowBuilder,
        data: object,
        repeat: Rule | Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> Schedule:
        """Store a schedule each of whose firings starts the flow."""
        if repeat is None:
            raise InvalidFlow("A flow is started by flow.start(); schedule() takes it with repeat=….")
        if data is not None:
            raise InvalidFlow("The data of a flow is given to flow(name, data), not to schedule().")
        given = dict(options)
        schedule_id, session = given.pop("schedule_id", None), given.pop("session", None)
        own = {key: given.pop(key) for key in given.keys() & FLOW_OPTIONS}
        if of_nodes := sorted(given.keys() & NODE_OPTIONS):
            raise InvalidFlow(f"{of_nodes[0]} is an option of the jobs of a flow; give it to its nodes, in flow.add().")
        _, draft = await self._root(builder, {**builder.options, **own})
        check_repeated(draft, session)
        # A schedule keeps the jobs of missed firings in its document until they are made.
        _check_size(draft, "The flow is too large for a schedule", self._core.link.settings.max_data)
        spec = make_spec(new_schedule_id(builder.name) if schedule_id is None else schedule_id, draft, repeat, given)
        return await self._schedules.put(spec)

    # -- checking --------------------------------------------------------------------------------------------------

    async def _root(self, builder: FlowBuilder, options: Fields) -> tuple[Graph, Draft]:
        """The checked graph of a flow, and the draft of its root."""
        declared = builder.graph
        checked = [await self.checked_node(node) for node in declared.nodes]
        graph = Graph(tuple(one.node for one in checked))
        first = checked[0].draft
        options = {"queue": first.queue, "priority": first.priority, **_given(options)}
        if any(one.node.secret for one in checked):
            options["encrypt"] = ["nodes", "data"]
        data = {"label": builder.name, "nodes": graph.to_document(), "data": builder.data}
        draft = self._drafts.draft(FLOW, data, options)
        _check_size(draft, "The flow is too large", LARGEST_FLOW)
        return graph, draft

    async def checked_node(self, node: Node) -> _Checked:
        """A node with the options of its job as they are stored. An error names the node."""
        try:
            unknown = node.options.keys() - NODE_OPTIONS
            if unknown:
                raise InvalidFlow(_unknown_option(min(unknown)))
            return await (self._checked_map(node) if node.over is not None else self._checked_job(node))
        except InvalidFlow as error:
            raise InvalidFlow(f"Node {node.name!r}: {error}") from None
        except ConfigurationError as error:
            raise InvalidFlow(f"Node {node.name!r}: {error}") from error

    async def _checked_job(self, node: Node) -> _Checked:
        later = frozenset(str(fill.at[0]) for fill in node.fills)
        draft = await self._drafts.of_node(node.job, node.data, dict(node.options), later)
        options = stored_options(node.options, draft)
        secret = draft.encrypt is not None
        return _Checked(replace(node, data=draft.data or {}, options=options, secret=secret), draft)

    async def _checked_map(self, node: Node) -> _Checked:
        """A map: the data of its jobs is checked as far as it is known; the rest when they are made."""
        over = node.over
        assert over is not None
        if over.items and over.item is None and not all(isinstance(one, Mapping) for one in over.items):
            raise InvalidFlow("An item that is no mapping needs the name of its argument: item='…'.")
        for place, one in enumerate(over.items or ()):
            data = {**node.data, over.item: one} if over.item is not None else {**node.data, **one}
            later = frozenset(str(fill.at[0]) for fill in node.fills)
            if over.key is not None and over.key not in data:
                raise InvalidFlow(f"item {place:,} has no {over.key!r}, which is the key of the map.")
            try:
                draft = await self._drafts.of_node(node.job, data, dict(node.options), later)
            except ConfigurationError as error:
                raise InvalidFlow(f"item {place:,}: {error}") from None
        if not over.items:
            draft = await self._drafts.of_node(node.job, None, dict(node.options), None)
        options = stored_options(node.options, draft)
        return _Checked(replace(node, options=options, secret=draft.encrypt is not None), draft)


def stored_options(options: Mapping[str, Any], draft: Draft) -> Fields:
    """The options of a node's job in the form in which the root keeps them. Its queue and priority are those that its
    handler declares now, if none were given."""
    stored = _given(options)
    if "retry" in stored:
        stored["retry"] = check_retry(stored["retry"]).to_document()
    for key in ("timeout", "start_within"):
        if key in stored:
            stored[key] = seconds(stored[key], key)
    for key in ("tags", "encrypt"):
        if isinstance(stored.get(key), Sequence) and not isinstance(stored[key], str):
            stored[key] = list(stored[key])
    return {**stored, "queue": draft.queue, "priority": draft.priority}


def _given(options: Mapping[str, Any]) -> Fields:
    return {key: value for key, value in options.items() if value is not None}


def _check_size(draft: Draft, what: str, limit: int) -> None:
    try:
        encode_data(draft.data, limit)
    except InvalidJob as error:
        raise InvalidFlow(f"{what}: {error}") from None


def _unknown_option(option: str) -> str:
    if option in OPTIONS:
        return (
            f"{option} is no option of a node, which starts when the nodes before it have ended; give it to the flow."
        )
    return f"A node has no option {option!r}.{suggestion(option, sorted(NODE_OPTIONS))}"


def step_of(step: Step, what: str) -> tuple[Named, Mapping[str, Any] | None, Fields]:
    """A job, its data and its options, from a step of a chain or a callback of a batch."""
    if isinstance(step, str) or callable(step):
        return step, None, {}
    if isinstance(step, tuple | list) and 1 <= len(step) <= 3:
        job, data, options = (*step, *(None, None))[:3]
        if (data is None or isinstance(data, Mapping)) and (options is None or isinstance(options, Mapping)):
            return job, data, dict(options or {})
    raise InvalidFlow(f"{what} is a job, or (job, data), or (job, data, options), not {step!r:.100}.")
