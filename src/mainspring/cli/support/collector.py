"""The garbage collector of the processes that run for long: workers and the service."""

from __future__ import annotations

import gc


def spare_collector() -> None:
    """Let the garbage collector walk less: not over the modules, which live as long as the process, and not after every
    700 new objects, which a worker makes for about ten jobs. That took about a tenth of the CPU of a worker that runs
    short jobs, and some requests of the service waited for a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 25, 25)
