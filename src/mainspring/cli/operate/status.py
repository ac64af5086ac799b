"""`mainspring status`: whether jobs are run, what is wrong, and how much there is to do."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.text import Text

from mainspring.cli.calls.api import Api
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE
from mainspring.cli.terminal.output import print_fields, print_heading, print_sentence
from mainspring.cli.terminal.times import ago
from mainspring.model.fields import Fields
from mainspring.model.printable import printable

_UNHEALTHY = "unhealthy"


@operating
def status(call: Call) -> None:
    """Show whether jobs are running, and any problems. Exit with 1 if the installation is unhealthy."""
    found = read_status(call.api)
    call.document(found, _show)
    if found["health"]["status"] == _UNHEALTHY:
        raise typer.Exit(RUNTIME_FAILURE)


def read_status(api: Api) -> Fields:
    """The health, the problems and the counts of an installation."""
    health = api.get("/api/observability/health", accept=503)
    counts = api.get("/api/jobs/counts")["data"]
    return {
        "place": api.place,
        "health": health,
        "counts": {one["state"]: one["count"] for one in counts},
        "lowerBounds": [one["state"] for one in counts if one["capped"]],
        "overview": api.get("/api/overview")["data"],
    }


def summary(found: Fields) -> list[tuple[str, object]]:
    """The fields that say how things are."""
    health, overview = found["health"], found["overview"]
    load, live = health["scheduler"], [worker for worker in health["workers"] if worker["live"]]
    firing = overview["nextFirings"][0] if overview["nextFirings"] else None
    return [
        ("status", health["status"]),
        ("where", found["place"]),
        ("workers", f"{len(live)}, {load['runningJobs']} of {load['maxConcurrentJobs']} slots busy"),
        ("jobs", ", ".join(_count(state, found) for state, number in found["counts"].items() if number) or "none"),
        ("next firing", None if firing is None else f"{firing['scheduleId']} {ago(firing['due'])}"),
    ]


def _count(state: str, found: Fields) -> str:
    return f"{found['counts'][state]:,}{'+' * (state in found['lowerBounds'])} {state}"


def problem_lines(problems: Sequence[Fields]) -> list[Text]:
    """A line for each problem of an overview, the worst first."""
    colours = {"critical": "bold red", "error": "red", "warning": "yellow"}
    return [Text.assemble(("! ", colours.get(one["severity"], "")), printable(one["text"])) for one in problems]


def _show(found: Fields) -> None:
    print_fields(summary(found))
    reasons = found["health"]["reasons"]
    lines = [Text(printable(reason)) for reason in reasons] if found["health"]["status"] != "healthy" else []
    # That no worker is alive is a reason of the health already, with its cure.
    problems = problem_lines([one for one in found["overview"]["problems"] if one["target"]["kind"] != "workers"])
    if lines or problems:
        print_heading("Problems")
        for line in [*lines, *problems]:
            print_sentence(line)
