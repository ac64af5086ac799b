"""The predecessors of a node, as its handler sees them: `ctx.before`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import JobError


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A node that ended before this one started: the id of its job, its final state, and its result or error. A node
    whose job was deleted has the state "deleted"."""

    node: str
    id: str
    state: str
    result: Any = field(default=None, repr=False)
    error: JobError | None = field(default=None, repr=False)


class Before(Mapping[str, Predecessor]):
    """The predecessors of a node, by name. Empty if the job is not a node of a flow."""

    def __init__(self, predecessors: Mapping[str, Predecessor]) -> None:
        self._predecessors = dict(predecessors)

    @property
    def result(self) -> Any:
        """The result of the only predecessor; None if there is no predecessor."""
        if len(self._predecessors) > 1:
            names = ", ".join(map(repr, self._predecessors))
            raise ConfigurationError(f"This node comes after several nodes ({names}); use ctx.before[name].result.")
        return next((one.result for one in self._predecessors.values()), None)

    def __getitem__(self, node: str) -> Predecessor:
        return self._predecessors[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._predecessors)

    def __len__(self) -> int:
        return len(self._predecessors)

    def __repr__(self) -> str:
        return f"<Before {', '.join(f'{one.node} {one.state}' for one in self._predecessors.values())}>"
