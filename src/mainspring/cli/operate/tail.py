"""What happens to jobs, as it happens: for `mainspring jobs tail`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, CommandFailed
from mainspring.cli.terminal.output import print_text, terminal_width
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import COMPLETED, FINISHED
from mainspring.model.printable import printable, shortened

_STYLES = {"completed": "green", "failed": "bold red", "retried": "yellow", "cancelled": "magenta", "created": "blue"}
_LOOK_EVERY = 1.0
_WIDE_ENOUGH = 100
"""The width of a terminal for a line with the day. In a narrower one, the line would be broken within the job's id."""


def tail(call: Call, job_id: str | None, filters: Mapping[str, Any]) -> None:
    """Print events until the command is interrupted, or the log of one job until it ends."""
    if job_id is not None:
        _tail_one(call, job_id)
        return
    for kind, event in call.api.events(**filters):
        if kind == "end":
            raise CommandFailed(f"The service has ended the stream: {event.get('detail')}", RUNTIME_FAILURE)
        if call.as_json:
            print(json.dumps({"type": kind, **event}), flush=True)
        else:
            print_text(_line(kind, event))


def _tail_one(call: Call, job_id: str) -> None:
    """Print the changes and the log lines of one job until it has ended."""
    seen: set[tuple[object, ...]] = set()
    while True:
        job = call.api.get(path("jobs", job_id, "detail"))["data"]
        for mark, event in _story(job):
            if mark not in seen:
                seen.add(mark)
                print(json.dumps(event), flush=True) if call.as_json else print_text(_line("job", event))
        if job["state"] in FINISHED:
            return
        call.api.sleep(_LOOK_EVERY)


def _story(job: Mapping[str, Any]) -> list[tuple[tuple[object, ...], Fields]]:
    """What is known of a job's attempts and logs, each with a mark by which it is known again."""
    same = {"id": job["id"], "name": job["name"], "queue": job["queue"]}
    story: list[tuple[tuple[object, ...], Fields]] = []
    for attempt in job["attempts"]:
        story += _logged(same, attempt["token"], attempt["log"])
        error = attempt["error"] or {}
        ended = {"at": attempt["endedAt"], "change": attempt["outcome"], **same, "detail": error.get("message")}
        story.append(((attempt["token"], "end"), ended))
    story += _logged(same, job["token"], job["log"])
    progress = job["progress"] or {}
    now = {"at": job["now"], "change": job["state"], **same, "progress": progress.get("percent")}
    if job["state"] in ("pending", "running", "blocked") or not job["attempts"]:
        story.append(((job["token"], job["state"], progress.get("percent")), now))
    return story


def _logged(same: Fields, token: int, lines: list[str]) -> list[tuple[tuple[object, ...], Fields]]:
    return [((token, number), {"change": "log", **same, "detail": line}) for number, line in enumerate(lines)]


def _instant(at: str) -> str:
    if (terminal_width() or _WIDE_ENOUGH) >= _WIDE_ENOUGH:
        return f"{at:24}  "
    return f"{at[11:19]:8}  "


def _line(kind: str, event: Mapping[str, Any]) -> Text:
    """An event as a line."""
    change = str(event.get("change") or event.get("reason") or "")
    whose = event.get("id") or event.get("kind") or ""
    line = Text.assemble(
        (_instant(str(event.get("at") or "")), "dim"),
        (f"{shortened(printable(change), 10):10}  ", _STYLES.get(change, "")),
        (f"{printable(str(event.get('name') or kind)):20}  ", "bold"),
        (f"{printable(str(whose)):24}  ", "dim"),
        printable(str(event.get("queue") or "")),
    )
    if event.get("progress") is not None and change != COMPLETED:  # the last report may be less than 100 %
        line.append(f"  {event['progress']:.0f} %")
    if event.get("detail"):
        line.append(f"  {printable(str(event['detail']))}")
    line.rstrip()
    return line
