"""`python -m bench`: measure, print one table, write JSON. The exit status is 1 when a bar was missed, 2 on failure."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymongo

from bench import beside, cron, dashboard, drain, enqueue, idle, latency, limits, prune, schedules, service, soak
from bench.ground import Ground, open_ground
from bench.options import Options, quick
from bench.report import Row, as_markdown, as_table, write_json

MEASUREMENTS: dict[str, Callable[[Ground, Options], list[Row]]] = {
    "cron": cron.measure,
    "enqueue": enqueue.measure,
    "drain": drain.measure,
    "latency": latency.measure,
    "beside": beside.measure,
    "idle": idle.measure,
    "limits": limits.measure,
    "prune": prune.measure,
    "schedules": schedules.measure,
    "service": service.measure,
    "dashboard": dashboard.measure,
    "soak": soak.measure,
}
LATEST = Path(__file__).resolve().parent / "results" / "latest.json"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--uri", help="measure on this MongoDB instead of one of the bench's own")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="smaller and fewer, in about three minutes")
    parser.add_argument("--repeat", type=int, help="how often each figure is taken; the median counts")
    parser.add_argument("--concurrency", type=int, default=Options.concurrency, help="of each worker process")
    parser.add_argument("--profile", metavar="FILE", help="have each draining worker write a cProfile to FILE.…")
    parser.add_argument("--json", type=Path, default=LATEST, metavar="PATH", help="where the figures go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown, too")
    return parser.parse_args(arguments)


def main() -> int:
    given = parse()
    options = _options(given)
    rows: list[Row] = []
    failed: list[str] = []
    started = time.monotonic()
    with open_ground(given.uri) as ground:
        facts = _facts(ground, given, options)
        for name in given.only or MEASUREMENTS:
            print(f"{time.monotonic() - started:4.0f} s  {name} …", file=sys.stderr, flush=True)
            try:
                rows += MEASUREMENTS[name](ground, options)
            except Exception:  # the other figures took their time, too
                traceback.print_exc()
                failed.append(name)
    facts["took"] = f"{time.monotonic() - started:.0f} s"
    facts["load average"] += f" → {os.getloadavg()[0]:.1f}"
    print(", ".join(f"{key} {value}" for key, value in facts.items()), as_table(rows), sep="\n\n")
    write_json(given.json, rows, facts)
    if given.markdown:
        given.markdown.parent.mkdir(parents=True, exist_ok=True)
        given.markdown.write_text(as_markdown(rows, facts), encoding="utf-8")
    if failed:
        print(f"\nCould not be measured: {', '.join(failed)}")
        return 2
    return int(any(row.ok is False for row in rows))


def _options(given: argparse.Namespace) -> Options:
    if given.quick:
        return quick(given.repeat or 2, given.concurrency, given.profile)
    return Options(repeat=given.repeat or Options.repeat, concurrency=given.concurrency, profile=given.profile)


def _facts(ground: Ground, given: argparse.Namespace, options: Options) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "MongoDB": ground.version,
        "Python": platform.python_version(),
        "PyMongo": pymongo.version,
        "cores": os.cpu_count(),
        "load average": f"{os.getloadavg()[0]:.1f}",
        "run": "quick" if given.quick else "full",
        "repeats": options.repeat,
        "concurrency": options.concurrency,
        "on": f"{datetime.now(UTC):%Y-%m-%d}",
    }


if __name__ == "__main__":
    sys.exit(main())
