"""What an idle worker costs: the operations it asks of the server, and the CPU time on both sides.

Operations are all commands that clients send, over a while with one idle worker, less those over an equal while
without (this client's own). Which commands they are is told beneath. The server's `opcounters` would not do: they
count what it does for itself, too, such as refreshing hundreds of sessions every five minutes.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from bench.beside import fill, future_job
from bench.crew import Crew, used
from bench.ground import Ground, Place
from bench.options import Options
from bench.report import Bar, Row

_MOST = Bar("value", 2.0, at_most=True)


@dataclass(frozen=True)
class Span:
    """What happened during a while, per second."""

    commands: Counter[str]
    worker_cpu: float
    mongod_cpu: float


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for idling."""
    quiet = watch(ground, None, options.idle_seconds)
    with ground.place() as place:
        empty = idle(ground, place, options)
    with ground.place() as place:
        fill(place, options.idle_future_jobs, future_job)
        ground.settle()
        among = idle(ground, place, options)
    name = f"idle worker, {options.idle_future_jobs:,} future jobs"
    return [*rows("idle worker, no jobs", empty, quiet), *rows(name, among, quiet)]


def idle(ground: Ground, place: Place, options: Options) -> Span:
    """What one idle worker costs."""
    with Crew(place, 1, options.concurrency) as crew:
        crew.go()
        time.sleep(options.idle_settle)
        return watch(ground, crew, options.idle_seconds)


def watch(ground: Ground, crew: Crew | None, seconds: float) -> Span:
    """What happens on the server, and in the workers, for so long."""
    before, cpu, mongod = _counters(ground), crew.cpu() if crew else 0.0, used(ground.mongod)
    started = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - started
    worker_cpu, mongod_cpu = (crew.cpu() if crew else 0.0) - cpu, used(ground.mongod) - mongod
    after = _counters(ground)
    commands = Counter({name: after[name] - before[name] for name in after})
    return Span(
        Counter({name: count / took for name, count in commands.items() if count}),
        worker_cpu / took,
        mongod_cpu / took,
    )


def _counters(ground: Ground) -> Counter[str]:
    """How many of each command the server has been sent so far."""
    status = ground.client.admin.command("serverStatus")
    commands = status["metrics"]["commands"].items()
    return Counter({name: facts["total"] for name, facts in commands if isinstance(facts, dict) and "total" in facts})


def rows(name: str, span: Span, quiet: Span) -> list[Row]:
    """The operations first, then the CPU of both sides."""
    operations = Row(name, "ops/s", [span.commands.total() - quiet.commands.total()], bar=_MOST)
    operations.note = ", ".join(_commands(span, quiet)) + " a second"
    operations.details = {"commands": dict(span.commands), "quiet": dict(quiet.commands)}
    workers = Row(f"{name}: worker's CPU", "% of a core", [100 * span.worker_cpu])
    mongod = Row(f"{name}: mongod's CPU", "% of a core", [100 * span.mongod_cpu], "no worker", [100 * quiet.mongod_cpu])
    return [operations, workers, mongod]


def _commands(span: Span, quiet: Span) -> list[str]:
    more = {name: rate - quiet.commands.get(name, 0.0) for name, rate in span.commands.items()}
    return [f"{name} {rate:.2f}" for name, rate in sorted(more.items(), key=lambda pair: -pair[1]) if rate > 0.005]
