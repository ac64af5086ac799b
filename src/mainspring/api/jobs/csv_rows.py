"""Jobs as comma-separated values that are safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from mainspring.api.wire.jobs import JobOut

COLUMNS = (
    *("id", "name", "queue", "state", "priority", "runAt", "createdAt", "startedAt", "finishedAt", "duration"),
    *(
        "tries",
        "worker",
        "scheduleId",
        "parentId",
        "dedupeKey",
        "fingerprint",
        "tags",
        "errorType",
        "errorMessage",
        "data",
        "result",
    ),
)
# A spreadsheet takes a cell that begins with one of these for a formula; the wide ones are read like the narrow ones.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def header() -> str:
    """The line with the names of the columns."""
    return _lines([COLUMNS])


def rows(jobs: Iterable[JobOut]) -> str:
    """The lines of jobs."""
    return _lines([_cells(job) for job in jobs])


def remark(text: str) -> str:
    """A line that is no job."""
    return _lines([[f"# {text}"]])


def _cells(job: JobOut) -> list[str]:
    shown = job.model_dump(mode="json", by_alias=True)
    error = shown.get("error") or {}
    shown |= {"tags": " ".join(job.tags), "errorType": error.get("type"), "errorMessage": error.get("message")}
    shown |= {key: json.dumps(shown[key], ensure_ascii=False) for key in ("data", "result") if shown[key] is not None}
    return [_cell(shown.get(column)) for column in COLUMNS]


def _cell(value: Any) -> str:
    """A value as a cell: what a spreadsheet would take for a formula gets an apostrophe, which makes it a text."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) and not isinstance(value, int | float) else text


def _lines(cells: Iterable[Iterable[str]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerows(cells)
    return written.getvalue()
