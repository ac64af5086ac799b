"""`mainspring doctor`: checks the database, or what a service tells about itself, and says what to do.

Exit codes: 0 where no problem was found (there may be warnings), 1 with problems, 2 where the arguments are wrong.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from textwrap import wrap
from typing import Annotated

import typer

from mainspring.cli.calls.place import KEY_VARIABLE, URL_VARIABLE, Place
from mainspring.cli.calls.service_checks import check_service
from mainspring.cli.support.database import on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE
from mainspring.cli.support.service_options import Data, Uri
from mainspring.cli.terminal.output import terminal_width
from mainspring.client.scheduler import Scheduler
from mainspring.clock import wall
from mainspring.errors import Unavailable
from mainspring.model.doctor.findings import DoctorReport, Finding
from mainspring.model.printable import printable

_MARKS = {"ok": "ok     ", "skipped": "skipped", "warning": "WARNING", "problem": "PROBLEM"}
_WIDTH, _LEAST_WIDTH = 110, 40
_MARGIN = 12
"""The marks, and the arrow of a cure, before the text."""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: Data = None,
    uri: Uri = None,
    url: Annotated[
        str | None, typer.Option("--url", help=f"Check a running HTTP service instead ({URL_VARIABLE}).")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help=f"The API key for the service ({KEY_VARIABLE}).")] = None,
) -> None:
    """Check the server, the indexes, the workers, the jobs and the schedules, and say what to do about each finding."""
    place = Place(url, key, uri, data)
    service = place.service()
    report = DoctorReport(wall(), tuple(check_service(*service))) if service else _of_database(place.database())
    if as_json:
        findings = [asdict(finding) for finding in report.findings]
        print(json.dumps({"at": report.at.isoformat(), "status": report.status, "findings": findings}))
    else:
        _print(report)
    if report.problems:
        raise typer.Exit(RUNTIME_FAILURE)


def _of_database(uri: str) -> DoctorReport:
    async def look(scheduler: Scheduler) -> DoctorReport:
        return await scheduler.monitor.doctor()

    try:
        return on_database(uri, look)
    except Unavailable as error:
        cure = "Start the server, or correct the URI. The address and the port must be reachable from this machine."
        return DoctorReport(wall(), (Finding("connection", "problem", str(error), cure),))


def _print(report: DoctorReport) -> None:
    width = min(_WIDTH, max(_LEAST_WIDTH, (terminal_width() or _WIDTH + _MARGIN) - _MARGIN))
    for finding in report.findings:
        lines = wrap(f"{finding.check}: {printable(finding.text)}", width)
        print(f"{_MARKS[finding.status]}  {lines[0]}")
        for line in lines[1:]:
            print(f"{' ' * 9}{line}")
        for number, line in enumerate(wrap(printable(finding.cure), width)):
            print(f"{' ' * 9}{'-> ' if not number else '   '}{line}")
    counts = {status: sum(one.status == status for one in report.findings) for status in _MARKS}
    told = [f"{counts[one] or 'no'} {one}{'' if counts[one] == 1 else 's'}" for one in ("problem", "warning")]
    print(f"{', '.join(told)}.".capitalize())
