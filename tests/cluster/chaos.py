"""A long run in which something bad happens every few seconds, judged by the history checker at its end.

    python -m cluster.chaos --seconds 120 --seed 7        (with `tests` on the path; `make chaos` does it)

Three mongod nodes, several worker processes, jobs of nought to two seconds scheduled all the time, schedules that fire
every second; and, one after the other, chosen by the seed: workers killed, stopped past their leases, told to go; the
primary killed, stepped down or hung; commands that fail, connections that close, write concerns that are not met; one
worker cut off from the servers by packet filters, both ways or one way. The wall clocks of half of the workers are
wrong by up to an hour. Every kind of harm is done once before one is done again. At the end everything is mended, a
quiet period passes, and every promise is held against what handlers wrote down and what the database's own change
stream tells. It prints what it did and found, and ends with 1 when a promise was broken; the history then stays.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cluster.asking import Asking
from cluster.firings import Firings
from cluster.load import Load
from cluster.partition import SERVERS, WAYS, FarNetwork, enter_network, inside, why_not
from cluster.skew import HOUR, faketime, moved
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet, WorkerProcess
from harness.servers import Servers
from mainspring import Scheduler

LEASE = 6.0
GRACE = 3.0
OPTIONS: dict[str, Any] = {"lease": LEASE, "grace": GRACE, "concurrency": 8}
COMMANDS = ["find", "update", "insert", "delete", "aggregate", "getMore", "distinct", "findAndModify"]
QUIET = 90.0
HOW_SKEWED = "before the server is asked" if faketime() is None else "always"
SCHEDULES = 10
# However long an outage lasts, each firing gets its job.
PATIENT: dict[str, Any] = {"misfire": "all", "misfire_grace": 3600, "misfire_limit": 1000}


class Nemesis:
    """Does harm, one kind at a time, and keeps the books of it."""

    def __init__(self, servers: Servers, fleet: Fleet, dice: random.Random, far: FarNetwork | None) -> None:
        self._servers = servers
        self._fleet = fleet
        self._dice = dice
        self._far = far
        self._workers: list[WorkerProcess] = []
        self._far_workers: list[WorkerProcess] = []
        self._launched = 0
        self.reasons = Reasons(outage=True)
        self.done: Counter[str] = Counter()

    async def run(self, workers: int, seconds: float) -> None:
        """Start workers and do harm for so long; at the end everything is mended."""
        self._workers = [self._launch() for _ in range(workers)]
        if self._far is not None:
            self._far_workers = [self._fleet.launch(through=self._far.entering, **OPTIONS)]
        await self._fleet.up([*self._workers, *self._far_workers])
        acts: list[Callable[[], Awaitable[None]]] = [
            self.kill_a_worker,
            self.pause_a_worker,
            self.stop_a_worker,
            self.kill_the_primary,
            self.step_down,
            self.hang_the_primary,
            self.fail_commands,
            self.close_connections,
            self.miss_write_concerns,
        ]
        if self._far is not None:
            acts.append(self.cut_off_a_worker)
        until = time.monotonic() + seconds
        left: list[Callable[[], Awaitable[None]]] = []
        while time.monotonic() < until:
            await asyncio.sleep(self._dice.uniform(1, 3))
            left = left or self._dice.sample(acts, len(acts))
            act = left.pop()
            say(act.__name__.replace("_", " "))
            self.done[act.__name__] += 1
            await act()
        await asyncio.to_thread(self._servers.primary)

    @property
    def all_alive(self) -> bool:
        return all(worker.alive for worker in (*self._workers, *self._far_workers))

    async def cut_off_a_worker(self) -> None:
        assert self._far is not None
        way = self._dice.choice(list(WAYS))
        self.done[f"cut_off_{way.replace(' ', '_')}"] += 1
        self._far.cut(way)
        await asyncio.sleep(LEASE * self._dice.uniform(0.5, 2.5))
        self._far.mend()

    async def kill_a_worker(self) -> None:
        victim = self._take()
        victim.kill()
        self.reasons.killed[victim.id] = time.monotonic()
        await self._replace()

    async def pause_a_worker(self) -> None:
        zombie = self._dice.choice(self._workers)
        self.reasons.paused.add(zombie.id)
        zombie.pause()
        await asyncio.sleep(LEASE * self._dice.uniform(0.5, 2))
        zombie.resume()

    async def stop_a_worker(self) -> None:
        leaver = self._take()
        self.reasons.stopped.add(leaver.id)
        leaver.terminate()
        await self._replace()
        code = await leaver.gone(60)
        if code != 0:
            raise AssertionError(f"{leaver.id} was told to stop and ended with {code}")

    async def kill_the_primary(self) -> None:
        node = await asyncio.to_thread(self._servers.primary)
        await asyncio.to_thread(node.kill)
        await asyncio.to_thread(self._servers.primary)
        await asyncio.sleep(self._dice.uniform(0, 3))
        node.start()

    async def step_down(self) -> None:
        await asyncio.to_thread(self._servers.step_down)

    async def hang_the_primary(self) -> None:
        node = await asyncio.to_thread(self._servers.primary)
        node.pause()
        await asyncio.sleep(self._dice.uniform(3, 8))
        node.resume()

    async def fail_commands(self) -> None:
        await self._fail(errorCode=self._dice.choice([1, 6, 8, 13, 50, 91, 112, 189, 262, 10107, 11600, 11601]))

    async def close_connections(self) -> None:
        await self._fail(closeConnection=True)

    async def miss_write_concerns(self) -> None:
        await self._fail(writeConcernError={"code": 64, "errmsg": "waiting for replication timed out"})

    async def _fail(self, **how: Any) -> None:
        name = self._dice.choice(["mainspring", "mainspring-heartbeat"])
        mode = {"activationProbability": 0.1}
        with self._servers.fail_point("failCommand", mode, appName=name, failCommands=COMMANDS, **how):
            await asyncio.sleep(self._dice.uniform(2, 5))

    def _launch(self) -> WorkerProcess:
        """A worker; the wall clock of every second one is wrong."""
        self._launched += 1
        clock: Mapping[str, str] = {}
        if self._launched % 2:
            clock = moved(HOW_SKEWED, self._dice.choice([-1, 1]) * self._dice.randint(60, HOUR))
            self.done["wrong_clock"] += 1
        worker: WorkerProcess = self._fleet.launch(environment=clock, **OPTIONS)
        return worker

    def _take(self) -> WorkerProcess:
        worker = self._dice.choice(self._workers)
        self._workers.remove(worker)
        return worker

    async def _replace(self) -> None:
        """Another worker, started as often as it takes: one that cannot connect in a failover ends at once."""
        while True:
            worker = self._launch()
            try:
                await self._fleet.up([worker])
            except AssertionError:
                self.done["start_failed"] += 1
                continue
            self._workers.append(worker)
            return


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


async def rampage(seconds: float, workers: int, dice: random.Random, folder: Path, servers: Servers) -> list[str]:
    """The whole run; returns what was found."""
    uri = servers.uri("chaos")
    fleet, ask, changes = Fleet(uri, folder), Asking(uri), Changes(uri)
    scheduler = Scheduler(uri)
    networks = AsyncExitStack()
    nemesis = Nemesis(servers, fleet, dice, await networks.enter_async_context(FarNetwork()) if inside() else None)
    try:
        await scheduler.connect()  # which makes the indexes, and takes its time on a busy machine
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
        firings = Firings(SCHEDULES, start, start + timedelta(seconds=seconds))
        await firings.store(scheduler, **PATIENT)
        async with Load(scheduler, every=0.05, longest=2.0) as load:
            await nemesis.run(workers, seconds)
        say("quiet")
        await ask.fired_out(QUIET)
        await ask.drained(QUIET)
        documents = await ask.documents()
        found = check(
            fleet.history,
            documents,
            changes.read(),
            acknowledged=load.acknowledged,
            reasons=nemesis.reasons,
        )
        found += fleet.complaints()
        untold, outcomes = await firings.check_ledgers(scheduler)
        found += [*firings.check(documents, fleet.history), *untold]
        if not nemesis.all_alive:
            found.append("a worker ended that was not told to")
        _report(nemesis, load, documents, fleet)
        print(f"firings: {len(firings.jobs)}, {dict(outcomes)}")
        return found
    finally:
        fleet.stop()
        await networks.aclose()
        await scheduler.stop(graceful=False)
        await ask.close()
        changes.close()


def _report(nemesis: Nemesis, load: Load, documents: dict[str, dict[str, Any]], fleet: Fleet) -> None:
    runs = fleet.history.runs_by_job()
    repeated = sum(len(each) > 1 for each in runs.values())
    rescued = sum(a["outcome"] == "lost" for d in documents.values() for a in d["attempts"])
    print(f"\ndone to it: {', '.join(f'{count} {name}' for name, count in sorted(nemesis.done.items()))}")
    print(f"jobs: {len(documents)} ({len(load.acknowledged)} acknowledged, {load.refused} calls refused)")
    print(f"states: {dict(Counter(document['state'] for document in documents.values()))}")
    print(f"run more than once: {repeated}; attempts lost with their workers: {rescued}")
    print(f"results refused because the claim was lost: {len(fleet.history.events('lost'))}")


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--seconds", type=float, default=120.0, help="how long to do harm (default 120)")
    options.add_argument("--workers", type=int, default=4, help="how many worker processes (default 4)")
    options.add_argument("--seed", type=int, default=None, help="what the dice begin with; printed when not given")
    chosen = options.parse_args()
    if not inside():
        reason = why_not()
        if reason is None:
            enter_network("cluster.chaos", sys.argv[1:])
        say(f"no worker is cut off from the servers: {reason}")
    if faketime() is None:
        say("wrong clocks are wrong until the server is asked only: Debian's package libfaketime is missing")
    seed = chosen.seed if chosen.seed is not None else random.randrange(10**6)
    folder = Path(tempfile.mkdtemp(prefix="mainspring-chaos-"))
    say(f"seed {seed}, history in {folder}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ctrl-C: what was started is stopped
    servers = Servers(3, name="chaos", host=SERVERS if inside() else "127.0.0.1")
    try:
        servers.start()
        found = asyncio.run(rampage(chosen.seconds, chosen.workers, random.Random(seed), folder, servers))
    finally:
        servers.stop()
    for sentence in found[:50]:
        print(f"BROKEN: {sentence}")
    print(f"{len(found)} promises broken" if found else "all promises kept")
    if not found:
        shutil.rmtree(folder)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
