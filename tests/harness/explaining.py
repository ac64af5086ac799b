"""What a command costs the server: how many index keys and documents it reads for what it returns or changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

# What the driver adds, and what cannot be explained.
_ADDED = {"lsid", "$clusterTime", "$db", "txnNumber", "$readPreference", "writeConcern", "maxTimeMS", "ordered"}
_SEVERAL = {"update": "updates", "delete": "deletes"}


@dataclass(frozen=True, slots=True)
class Cost:
    """`matched` counts what was returned, or would have been changed."""

    matched: int
    keys: int
    documents: int
    stages: tuple[str, ...]


async def explain(db: AsyncDatabase[dict[str, Any]], command: Mapping[str, Any], collection: str) -> list[Cost]:
    """The cost of each statement of a command, had it been put to this collection."""
    return [
        _cost(await db.command("explain", one, verbosity="executionStats"))
        for one in _statements({key: value for key, value in command.items() if key not in _ADDED}, collection)
    ]


def _statements(command: dict[str, Any], collection: str) -> Iterator[dict[str, Any]]:
    name = next(iter(command))
    command[name] = collection
    several = _SEVERAL.get(name)
    if several is None:
        yield command
    else:
        for one in command[several]:
            yield {**command, several: [one]}


def _cost(explained: Mapping[str, Any]) -> Cost:
    stats = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
    stages = list(_stages(stats["executionStages"]))
    changed = [stage.get("nMatched", stage.get("nWouldDelete", 0)) for stage in stages]
    return Cost(
        matched=max(stats["nReturned"], *changed),
        keys=stats["totalKeysExamined"],
        documents=stats["totalDocsExamined"],
        stages=tuple(stage["stage"] for stage in stages),
    )


def _stages(stage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield stage
    for inner in (stage.get("inputStage"), *stage.get("inputStages", ())):
        if inner is not None:
            yield from _stages(inner)
