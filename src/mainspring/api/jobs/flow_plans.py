"""Starting flows, at once or by a schedule, and batches: from the body of a request to the Scheduler.

Each node is checked as a job of its own is, before anything is stored: a webhook in full, data by the schema of its
handler, names and queues by the scope of the caller. A refusal names the node and the field, such as
`nodes.2.endpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.create import Plan, check_calendars, check_plan, make_plan, timed
from mainspring.api.jobs.data_checks import Known, check_data, check_secrets, refusing
from mainspring.api.problems import Problem
from mainspring.api.wire.flows import BatchIn, FillIn, FlowIn, NodeIn, PartIn, ResultIn
from mainspring.api.wire.job_requests import Creation, NodeOptions, Request
from mainspring.client.flows.builder import FlowBuilder, NodeHandle
from mainspring.errors import InvalidFlow
from mainspring.model.access.namespaces import namespace_of
from mainspring.model.fields import Fields
from mainspring.model.flows.references import Path, Reference
from mainspring.model.jobs.job import DEFAULT_QUEUE
from mainspring.model.jobs.reserved_names import BATCH, FLOW, HTTP

_OF_CREATION = (*Request.model_fields, *NodeOptions.model_fields, "type", "data", "data_version")
_OF_FLOWS = ("queue", "priority", "tags", "start_within")
_CALLBACKS = ("on_success", "on_failure", "on_done")
_OF_MAPS = ("item", "key", "tolerate", "fail_fast")
_OUT_OF_SCOPE = "The queue or name is out of this key's scope; nothing was created."


@dataclass(frozen=True, slots=True)
class BuiltFlow:
    """A flow that is ready to be started: its nodes by name, in the order of the request, and the plan of its root."""

    builder: FlowBuilder
    names: tuple[str, ...]
    root: Plan

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let a refusal of the whole graph name the field of the node that it is about."""
        try:
            with refusing():
                yield
        except Problem as problem:
            if problem.field is None or problem.detail.startswith(("Node ", "The flow is too large")):
                raise Problem(problem.status, problem.detail, field=self._field(problem.detail)) from None
            raise

    def _field(self, text: str) -> str:
        place = next((place for place, name in enumerate(self.names) if text.startswith(f"Node {name!r}")), None)
        return "nodes" if place is None else f"nodes.{place}{'.after' if ' waits for ' in text else ''}"


async def build_flow(caller: Caller, body: FlowIn, job_id: str, traceparent: str | None = None) -> BuiltFlow:
    """A flow, checked node by node. Its root gets this id, unless a schedule makes it."""
    rule, times = timed(body, caller.service.settings)
    plans = [_plan(caller, place, node, traceparent) for place, node in enumerate(body.nodes)]
    known: Known = {}
    for place, (node, plan) in enumerate(zip(body.nodes, plans, strict=True)):
        with _at_node(place, node):
            await check_secrets(caller, plan.name, plan.queue or DEFAULT_QUEUE, plan.data, known)
            await _check_data(caller, node, plan)
    options = {name: value for name in _OF_FLOWS if (value := getattr(body, name)) is not None}
    options |= {name: value for name, value in times.items() if value is not None}
    queue = options.get("queue") or plans[0].options.get("queue")
    root = _checked(caller, Plan(FLOW, {}, queue, rule, options, body.id, body.enabled is False))
    of_flow: Fields = {} if rule is not None else {"job_id": job_id, **root.options}
    builder = caller.scheduler.flow(body.name, body.data, **of_flow)
    names: list[str] = []
    for place, (node, plan) in enumerate(zip(body.nodes, plans, strict=True)):
        with _at_node(place, node):
            names.append(_add(builder, node, plan).name)
    return BuiltFlow(builder, tuple(names), root)


async def plan_batch(caller: Caller, body: BatchIn, traceparent: str | None = None) -> Fields:
    """The arguments that open a batch; its callbacks are checked as jobs of their own are."""
    callbacks: dict[str, tuple[str, Fields, Fields]] = {}
    for name in _CALLBACKS:
        part: PartIn | None = getattr(body, name)
        if part is not None:
            with _at(to_camel(name), to_camel(name)):
                plan = _part(caller, part, traceparent)
                await check_secrets(caller, plan.name, plan.queue or DEFAULT_QUEUE, plan.data)
                await check_data(caller, plan.name, plan.data, plan.options.get("version"))
            callbacks[name] = (plan.name, plan.data, plan.options)
    options = {name: value for name in ("queue", "priority", "tags") if (value := getattr(body, name)) is not None}
    queue = body.queue or next((one[2].get("queue") for one in callbacks.values()), None)
    root = _checked(caller, Plan(BATCH, {}, queue, None, options))
    return {"name": body.name, "tolerate": body.tolerate, "callbacks": callbacks, "options": root.options}


@contextmanager
def _at(where: str, label: str | None) -> Iterator[None]:
    """Let a refusal name the part of the request that it is about."""
    try:
        with refusing():
            yield
    except Problem as problem:
        text = problem.detail if label is None else f"{label}: {problem.detail}"
        field = where if problem.field is None else f"{where}.{problem.field}"
        raise Problem(problem.status, text, field=field) from None


def _at_node(place: int, node: NodeIn) -> AbstractContextManager[None]:
    named = node.name or node.job
    return _at(f"nodes.{place}", None if named is None else f"Node {named!r}")


def _plan(caller: Caller, place: int, node: NodeIn, traceparent: str | None) -> Plan:
    """The job of a node, checked, with null in its data where results are filled in."""
    with _at_node(place, node):
        changes = {"data": _with_places(node)} if node.fills else {}
        if node.over is not None and (node.job is None or node.type not in (None, "job")):
            raise Problem(422, "A map makes jobs of a handler: give its name as the job.", field="over")
        return _part(caller, node, traceparent, **changes)


def _part(caller: Caller, part: PartIn, traceparent: str | None, **changes: Any) -> Plan:
    """The job of a part of a flow, checked."""
    if part.job is not None and (part.endpoint is not None or part.type not in (None, "job")):
        raise Problem(422, "A job is the name of a handler; what a webhook or a mail does is known.", field="job")
    given = {name: getattr(part, name) for name in _OF_CREATION if name in part.model_fields_set} | changes
    creation = Creation.model_construct({*given, "name"}, name=part.job, **given)
    try:
        plan = make_plan(creation, caller.service.settings, traceparent)
    except Problem as problem:
        field = "job" if problem.field == "name" else problem.field
        raise Problem(problem.status, problem.detail, field=field) from None
    return check_plan(caller, plan)


def _checked(caller: Caller, root: Plan) -> Plan:
    """The plan of the root, within the caller's scope, with its queue."""
    scope = caller.scope
    if scope.everything:
        return root
    queue = root.queue or DEFAULT_QUEUE
    if not scope.allows_queue(queue):
        raise Problem(403, _OUT_OF_SCOPE, field="queue")
    if not scope.allows_name(root.name):
        text = f"A flow is a job of the name {root.name}, which is out of this key's scope; nothing was created."
        raise Problem(403, text, field="name")
    if root.rule is not None:
        check_calendars(caller, root.rule)
    root.options["queue"] = queue
    if "dedupe_key" in root.options or "throttle" in root.options:
        root.options["dedupe_namespace"] = namespace_of(scope, queue, root.name)
    return root


async def _check_data(caller: Caller, node: NodeIn, plan: Plan) -> None:
    """Check the data of a node by the schema of its handler, where all of it is known."""
    version = plan.options.get("version")
    if node.fills:
        return
    if node.over is None:
        await check_data(caller, plan.name, plan.data, version)
    elif isinstance(node.over, list):
        for item in node.over:
            more = {node.item: item} if node.item is not None else item
            if isinstance(more, Mapping):
                await check_data(caller, plan.name, {**plan.data, **more}, version)


def _add(builder: FlowBuilder, node: NodeIn, plan: Plan) -> NodeHandle:
    above: Path = ("data",) if plan.name == HTTP else ()
    data = dict(plan.data)
    for fill in node.fills or ():
        _put(data, (*above, *fill.at), Reference(fill.node, tuple(fill.path), builder))
    known: Fields = {"after": node.after, "when": node.when, "name": node.name, **plan.options}
    if node.over is None:
        extra = next((name for name in _OF_MAPS if getattr(node, name) is not None), None)
        if extra is not None:
            raise Problem(422, "This is for maps: give the items with it, as over.", field=_camel(extra))
        return builder.add(plan.name, data, **known)
    over = node.over
    listed = Reference(over.node, tuple(over.path), builder) if isinstance(over, ResultIn) else over
    of_map = {name: value for name in _OF_MAPS if (value := getattr(node, name)) is not None}
    return builder.map(plan.name, listed, data, **of_map, **known)


def _camel(name: str) -> str:
    return "failFast" if name == "fail_fast" else name


# -- places of results in data -----------------------------------------------------------------------------------------


def _with_places(node: NodeIn) -> Fields:
    """The data of a node with null at each place where a result is filled in."""
    if node.type == "email":
        raise Problem(422, "A mail is checked before it is stored: its data cannot have results.", field="fills")
    data: Fields = _copied(node.data or {})
    for number, fill in enumerate(node.fills or ()):
        try:
            _make_room(data, fill)
        except InvalidFlow as error:
            raise Problem(422, str(error), field=f"fills.{number}.at") from None
    return data


def _make_room(data: Fields, fill: FillIn) -> None:
    """Put null where a result is filled in; documents on the way to it are made."""
    if not isinstance(fill.at[0], str):
        raise InvalidFlow("The first step is the name of an argument.")
    value: Any = data
    for step, following in zip(fill.at, [*fill.at[1:], None], strict=True):
        fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list) and step < len(value)
        if not fits:
            raise InvalidFlow(f"data has no place for {step!r:.100} there.")
        if following is None:
            if isinstance(value, dict):
                value.setdefault(step, None)
            if value[step] is not None:
                raise InvalidFlow("data has a value at this place already; leave it out there, or the result.")
            return
        if isinstance(value, dict) and isinstance(following, str):
            value.setdefault(step, {})
        value = value.get(step) if isinstance(value, dict) else value[step]


def _put(data: Fields, at: Path, value: Reference) -> None:
    place: Any = data
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value
