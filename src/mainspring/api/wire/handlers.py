"""The handlers of live workers on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from mainspring.api.wire.base import Answer, Out
from mainspring.model.fields import Fields
from mainspring.model.jobs.handler_status import HandlerStatus

HANDLERS_SHOWN = 500
"""The handlers in one answer."""
_CHARACTERS = 1_000_000
"""The length of all schemas in one answer, about; a longer one is read by its handler's name."""


class HandlerOut(Out):
    """The handler of a name in live workers. If they disagree, the worker that started last counts."""

    name: str
    description: str | None = Field(None, description="The first line of its docstring.")
    data_schema: Fields | None = Field(
        None,
        description="The JSON Schema of its data; null if it cannot be made, or is too long. A part with `x-any` "
        "accepts more than it says.",
    )
    schema_left_out: bool = Field(False, description="The answer was too long; ask for this handler by its name.")
    queue: str = Field(description="The queue of its jobs if no other is given.")
    priority: int
    guarantee: str | None = None
    encrypted: bool = Field(description="Whether it declares that data is stored encrypted.")
    version: int = Field(description="Its payload version, to be given as `dataVersion`.")
    versions: list[int] = Field(description="All payload versions in live workers.")
    workers: int = Field(description="The number of live workers that have it.")
    queues: list[str] | None = Field(description="The queues that these workers serve; null: all of them.")

    @classmethod
    def of(cls, one: HandlerStatus) -> Self:
        same = ("name", "description", "queue", "priority", "guarantee", "encrypted", "version", "workers")
        return cls(
            **{field: getattr(one, field) for field in same},
            data_schema=None if one.schema is None else dict(one.schema),
            versions=list(one.versions),
            queues=None if one.queues is None else list(one.queues),
        )


class HandlersAnswer(Answer[list[HandlerOut]]):
    """The handlers of live workers by name. If it is not `complete`, there are more."""

    complete: bool

    @classmethod
    def of(cls, found: Iterable[HandlerStatus]) -> Self:
        listed = list(found)
        shown, room = [], _CHARACTERS
        for one in listed[:HANDLERS_SHOWN]:
            out = HandlerOut.of(one)
            room -= len(str(one.schema)) if one.schema is not None else 0
            if room < 0 and out.data_schema is not None:
                out.data_schema, out.schema_left_out = None, True
            shown.append(out)
        return cls(data=shown, complete=len(listed) <= HANDLERS_SHOWN)
