"""A small HTTP server for a worker: `/metrics` for Prometheus, `/livez` and `/readyz` for Kubernetes.

It runs in threads of its own and not on the event loop: a handler that blocks the loop must not keep the probes from
answering, since the answer says for how long. It is off unless an address is given, reads nothing of a request but its
first lines, and serves at most `AT_ONCE` requests at a time, each for at most `SLOWEST` seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mainspring.client.scheduler import Scheduler, check_async
from mainspring.errors import ConfigurationError
from mainspring.observability.metrics.collector import Metrics
from mainspring.observability.metrics.probes import Probes

logger = logging.getLogger("mainspring")

AT_ONCE = 16
SLOWEST = 5.0
"""In seconds: how long one request may take."""
VARIABLE = "MAINSPRING_METRICS"
"""The variable that has the address, instead of the option `--metrics`."""
_PORTS = 65_535
Answer = tuple[int, str, bytes]


def read_address(text: str) -> tuple[str, int]:
    """The host and the port of an address such as 0.0.0.0:9100 or [::]:9100."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _PORTS:
        raise ConfigurationError(f"The address of the metrics is HOST:PORT, such as 127.0.0.1:9100, not {text!r}.")
    return host.strip("[]"), int(port)


def serve_metrics(scheduler: Scheduler, address: str, metrics: Metrics | None = None) -> MetricsServer:
    """Serve the metrics and probes of a Scheduler; call it on its event loop, before it starts. Close it at the end."""
    check_async(scheduler, "serve_metrics()")
    return MetricsServer(scheduler, read_address(address), metrics or Metrics(scheduler), asyncio.get_running_loop())


class MetricsServer:
    """The server of one process."""

    def __init__(
        self, scheduler: Scheduler, address: tuple[str, int], metrics: Metrics, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.metrics = metrics
        self._loop = loop
        self._probes = Probes(scheduler, loop)
        self._pages: dict[str, Callable[[str], Answer]] = {
            "/metrics": self._exposition,
            "/livez": lambda _: _status(self._probes.not_live()),
            "/readyz": lambda _: _status(self._probes.not_ready()),
        }
        self._server = _bind(address, self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="mainspring-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL at which it answers."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Answer no more. It may take half a second."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, accept: str) -> Answer:
        page = self._pages.get(path.partition("?")[0])
        if page is None:
            return 404, "text/plain; charset=utf-8", b"Here are /metrics, /livez and /readyz.\n"
        return page(accept)

    def _exposition(self, accept: str) -> Answer:
        self._refresh()
        body, content_type = self.metrics.expose(accept)
        return 200, content_type, body

    def _refresh(self) -> None:
        """Read the shared facts. While the loop is blocked, the counts of this process are shown all the same."""
        reading = self.metrics.refresh()
        try:
            refreshing = asyncio.run_coroutine_threadsafe(reading, self._loop)
        except RuntimeError:
            reading.close()  # the loop is closed
            return
        try:
            refreshing.result(SLOWEST)
        except Exception as error:
            refreshing.cancel()
            logger.warning("The metrics of queues are not shown anew: %r", error)


class _Server(ThreadingHTTPServer):
    """Answers in threads, of a bounded number; a connection beyond it is closed."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: int, answer: Callable[[str, str], Answer]) -> None:
        self.address_family = family
        self.answer = answer
        self._free = threading.Semaphore(AT_ONCE)
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that breaks its connection is no news."""


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = SLOWEST
    server_version, sys_version = "Mainspring", ""

    def do_GET(self) -> None:
        status, content_type, body = self.server.answer(self.path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds, and are not logged."""


def _status(reason: str | None) -> Answer:
    told = {"status": "ok"} if reason is None else {"status": "not ok", "reason": reason}
    return 200 if reason is None else 503, "application/json", json.dumps(told).encode()


def _bind(address: tuple[str, int], answer: Callable[[str, str], Answer]) -> _Server:
    host, port = address
    try:
        family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return _Server((str(found[0]), int(found[1])), family, answer)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"The metrics cannot be served at {host}:{port}: {why}; choose another address with --metrics."
        ) from None
