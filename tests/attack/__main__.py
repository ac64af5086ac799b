"""Attacks on the product as it runs, area by area, and a table of what held.

    python -m attack --only targets --seed 3        (with `tests` on the path; `make attack` does it)

The product is started as its users start it, on the embedded MongoDB, with keys of every kind, in a network namespace
of its own where every address is this machine's: whatever a worker connects to, a listener is there and sees it. Each
row of the table is a promise; each try is a request, a job, a document or a mail that would break it. What broke is
printed with its request. It ends with 1 when a promise was broken, and with 2 when one could not be tried.
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
from collections.abc import Sequence
from pathlib import Path

from attack import network
from attack.areas import NAMES
from attack.books import Probe, Row, attempt, chosen, findings, table, verdict
from attack.stage import Stage
from harness.servers import Servers


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


async def run(folder: Path, probes: Sequence[Probe], seed: int, quick: bool) -> list[Row]:
    """Start the product, run the probes one after the other, and stop it."""
    rows: list[Row] = []
    with Servers(1, name="attack", tablescans=True) as servers:
        stage = Stage(folder, servers, seed=seed, quick=quick)
        try:
            await stage.start()
            for one in probes:
                rows.append(row := await attempt(stage, one))
                state = "BROKE" if row.broke else "not run" if row.unknown else "held"
                say(f"{state:8} {row.area}: {row.promise} ({row.tries:,} tries, {row.seconds:.1f} s)")
            say(f"{stage.client.asked:,} requests to the main service")
        finally:
            await stage.stop()
    return rows


def main() -> int:
    options = argparse.ArgumentParser(prog="attack", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--only", nargs="+", default=NAMES, metavar="AREA", choices=NAMES, help=", ".join(NAMES))
    options.add_argument("--seed", type=int, default=None, help="what the dice begin with; printed when not given")
    options.add_argument("--quick", action="store_true", help="a few tries of each kind, as in the tests")
    options.add_argument("--markdown", type=Path, default=None, metavar="FILE", help="write the table there, too")
    given = options.parse_args()
    if not network.inside():
        reason = network.why_not()
        if reason is None:
            network.enter("attack", sys.argv[1:])
        say(f"on loopback, where targets of other networks are not seen: {reason}")
    seed = given.seed if given.seed is not None else random.randrange(10**6)
    folder = Path(tempfile.mkdtemp(prefix="mainspring-attack-"))
    say(f"seed {seed}, output in {folder}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # as Ctrl-C: what was started is stopped
    began = time.monotonic()
    try:
        rows = asyncio.run(run(folder, chosen(given.only), seed, given.quick))
    except Exception as error:
        print(f"could not run: {type(error).__name__}: {error}")
        return 2
    print(f"\n{table(rows)}\n")
    for line in findings(rows):
        print(line)
    print(f"{sum(row.tries for row in rows):,} tries in {time.monotonic() - began:.0f} s, seed {seed}")
    if given.markdown is not None:
        given.markdown.write_text(f"{table(rows)}\n", encoding="utf-8")
    code = verdict(rows)
    if code == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
