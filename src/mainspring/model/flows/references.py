"""References to results of earlier nodes, in the data of a node of a flow: where they stand, and their values. Pure.

The builder takes references out of the data before it is stored (`take_out`); the worker puts the values in before the
handler starts (`fill_in`). Paths are lists of keys and places, since a key may contain a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.errors import InvalidFlow, MissingResult

Path = tuple[str | int, ...]
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Reference:
    """The result of a node, or the value at a path in it: `extract.result["shards"][0]`."""

    node: str
    path: Path = ()
    graph: object = None
    """The builder that made it: a reference to a node of another flow is refused."""

    def __getitem__(self, step: str | int) -> Reference:
        if isinstance(step, bool) or not isinstance(step, str | int):
            raise InvalidFlow(
                f"A reference to a result goes on with a name or a place, such as ['path'] or [0], not {step!r}."
            )
        return Reference(self.node, (*self.path, step), self.graph)

    def __iter__(self) -> Iterator[Reference]:
        raise InvalidFlow(
            f"{self} is not known yet, so that it cannot be iterated over; use flow.map(…, over=…) for a job per item."
        )

    def __bool__(self) -> bool:
        raise InvalidFlow(f"{self} is not known yet, so that it cannot be tested.")

    def __str__(self) -> str:
        return f"the result of {self.node!r}{path_text(self.path)}"


@dataclass(frozen=True, slots=True)
class Fill:
    """One place in a node's data that gets a value when the node starts."""

    at: Path
    node: str
    path: Path = ()

    def to_document(self) -> dict[str, Any]:
        return {"at": list(self.at), "node": self.node, "path": list(self.path)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Fill:
        return cls(tuple(document["at"]), document["node"], tuple(document.get("path") or ()))


def take_out(data: Any) -> tuple[Any, list[tuple[Path, Reference]]]:
    """A copy of the data with None in place of each reference, and the references with their places."""
    return _without(data, 0), list(_walk(data, ()))


def _walk(value: Any, at: Path) -> Iterator[tuple[Path, Reference]]:
    if isinstance(value, Reference):
        yield at, value
    elif len(at) > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _walk(one, (*at, key))
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from _walk(one, (*at, place))


def _without(value: Any, depth: int) -> Any:
    if isinstance(value, Reference):
        return None
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: _without(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without(one, depth + 1) for one in value]
    return value


def fill_in(
    data: Mapping[str, Any], fills: Sequence[Fill], result_of: Callable[[str], tuple[Any, str]]
) -> dict[str, Any]:
    """The data with the values that it refers to. `result_of` has the result of a node, and the state that the node
    ended in. Raises MissingResult, which names the node and the path."""
    filled = copied(data)
    for fill in fills:
        result, state = result_of(fill.node)
        _put(filled, fill.at, value_at(result, fill.path, fill.node, state))
    return filled  # type: ignore[no-any-return]


def value_at(result: Any, path: Path, node: str, state: str) -> Any:
    """The value at a path in a result."""
    value = result
    for depth, step in enumerate(path):
        try:
            value = _follow(value, step)
        except LookupError:
            raise MissingResult(_missing(result, path, depth, node, state)) from None
    if value is None and not path and state != "completed":
        raise MissingResult(_missing(result, path, 0, node, state))
    return value


def _follow(value: Any, step: str | int) -> Any:
    """The value at one step of a path: a name in a document, or a place in a list."""
    fits = isinstance(value, Mapping) if isinstance(step, str) else isinstance(value, list | tuple)
    if not fits:
        raise LookupError
    return value[step]


def _missing(result: Any, path: Path, depth: int, node: str, state: str) -> str:
    """The sentence about a value that is not there."""
    wanted = f"the result of {node!r}{path_text(path)}"
    if state != "completed":
        return f"The data refers to {wanted}, and {node!r} has no result: it is {state}."
    parent = f"its result{path_text(path[:depth])}"
    value: Any = result
    for step in path[:depth]:
        value = value[step]  # as far as this, the path was followed before
    return f"The data refers to {wanted}, and {parent} is {_kind(value)} without {path_text(path[depth : depth + 1])}."


def _kind(value: Any) -> str:
    if value is None:
        return "null, a value"
    if isinstance(value, Mapping):
        return "a document"
    return f"a list of {len(value):,}" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def copied(value: Any, depth: int = 0) -> Any:
    """A copy of plain data, which does not change with the given one."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: copied(one, depth + 1) for key, one in value.items()}
    return [copied(one, depth + 1) for one in value] if isinstance(value, list | tuple) else value


def _put(data: Any, at: Path, value: Any) -> None:
    for step in at[:-1]:
        data = data[step]
    data[at[-1]] = value


def path_text(path: Path) -> str:
    """A path as it is written in Python: ['shards'][0]."""
    return "".join(f"[{step!r}]" for step in path)
