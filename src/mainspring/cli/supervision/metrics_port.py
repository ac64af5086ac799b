"""The address at which worker processes serve their metrics and probes.

Each process has counts of its own, so that each has a port of its own: the first one the given port, the others the
ports after it. A process that replaces a dead one has its number, and so its port.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from mainspring.cli.support.either_scheduler import Face
from mainspring.errors import ConfigurationError

if TYPE_CHECKING:
    from mainspring.observability.metrics.server import MetricsServer

METRICS = "MAINSPRING_METRICS"
_PORTS = 65_535


def metrics_address(given: str | None, processes: int) -> tuple[str, int] | None:
    """The checked address of the first process, from the option or the environment; None if there is none."""
    text = given if given is not None else os.environ.get(METRICS, "")
    if not text.strip():
        return None
    from mainspring.observability.metrics.server import read_address

    host, port = read_address(text)
    if port + processes - 1 > _PORTS:
        raise ConfigurationError(f"{processes} processes need the ports from {port} on, and {_PORTS} is the last.")
    return host, port


def address_of(number: int, first: tuple[str, int] | None) -> dict[str, str]:
    """The variable for the worker process of this number, from 1 on."""
    if first is None:
        return {}
    host, port = first
    return {METRICS: f"[{host}]:{port + number - 1}" if ":" in host else f"{host}:{port + number - 1}"}


async def serve_process(face: Face) -> MetricsServer | None:
    """Serve the metrics of this worker process, if its supervisor has given it an address."""
    address = os.environ.get(METRICS, "")
    if not address:
        return None
    from mainspring.observability.metrics.server import serve_metrics

    async def serve() -> MetricsServer:
        return serve_metrics(face.inner, address)

    return await face.run(serve)


def close(server: MetricsServer | None) -> None:
    """Stop serving; the process ends anyway."""
    if server is not None:
        with suppress(OSError):
            server.close()
