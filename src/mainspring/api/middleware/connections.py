"""Bounds on the connections of clients: their number, and how long a client may take to send or to read.

uvicorn closes a connection that is idle between two requests; everything else it waits for without a deadline.
`GuardedProtocol` keeps clients without a key from holding connections and memory: it bounds the connections in all and
per address, and has a deadline for the headers as a whole and for each pause within a body or an answer. It reads no
more of a body before the application asks for it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mainspring.api.middleware.hardening import MOST_HEADERS, PROTECTING
from mainspring.api.middleware.request_bounds import counted_as
from mainspring.api.problems import MEDIA_TYPE, document
from mainspring.model.networks import Network, is_in, parse_host

_COME_BACK = 5


class Phase(Enum):
    """The part of a request that a connection waits for."""

    HEADERS = "send the headers of a request"
    BODY = "go on sending a body"
    UNWANTED = "come to the end of a body that was answered already"
    READING = "go on reading an answer"
    LEAVING = "read the last of it"


@dataclass(slots=True)
class ConnectionLimits:
    """The bounds of one server, and the count of its connections."""

    most: int
    most_of_address: int
    header_seconds: float
    body_seconds: float
    trusted: tuple[Network, ...] = ()
    """The trusted proxies, which have no bound per address: many clients connect through each."""
    _open: Counter[str] = field(default_factory=Counter)

    def enter(self, host: str) -> tuple[int, str] | None:
        """Count a connection. If there are too many, do not count it, and return the status and text of the refusal."""
        address = counted_as(host)
        if self._open.total() >= self.most:
            return 503, f"{self.most:,} connections are open already; MAINSPRING_CONNECTIONS sets the limit."
        if self._open[address] >= self.most_of_address and not self._is_trusted(host):
            return 429, (
                f"{self.most_of_address:,} connections from this address are open already; close some, or use one for "
                "several requests. MAINSPRING_CONNECTIONS_PER_ADDRESS sets the limit."
            )
        self._open[address] += 1
        return None

    def leave(self, host: str) -> None:
        """Count a closed connection no longer."""
        address = counted_as(host)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def seconds(self, phase: Phase) -> float:
        return self.header_seconds if phase is Phase.HEADERS else self.body_seconds

    def _is_trusted(self, host: str) -> bool:
        return is_in(parse_host(host), self.trusted)


class GuardedConfig(uvicorn.Config):
    """The configuration of a server whose connections are guarded."""

    def __init__(self, app: Any, guard: ConnectionLimits, **options: Any) -> None:
        # h11 bounds the headers of a request, which httptools does not, and is as fast in front of a database.
        super().__init__(app, http=GuardedProtocol, h11_max_incomplete_event_size=MOST_HEADERS, **options)
        self.guard = guard


class GuardedProtocol(H11Protocol):
    """One guarded connection."""

    def __init__(self, config: GuardedConfig, *rest: Any, **more: Any) -> None:
        super().__init__(config, *rest, **more)
        self._guard = config.guard
        self._counted: str | None = None
        self._phase: Phase | None = None
        self._since = 0.0
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None

    # -- events of the connection ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        refusal = self._guard.enter(host)
        if refusal is None:
            self._counted = host
        else:
            self._refuse(*refusal)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._counted is not None:
            self._guard.leave(self._counted)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before and self.conn.their_state is h11.SEND_BODY:
            self.flow.pause_reading()  # until the application has authenticated the caller and asks for the body
        self._expect(heard=True)

    def on_response_complete(self) -> None:
        self.cycle.body = bytearray()  # the application does not read the rest
        super().on_response_complete()
        self._expect()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._expect()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._expect()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, f"This is not a valid HTTP request, or its headers are larger than {MOST_HEADERS:,} bytes.")
        self._expect()

    # -- deadlines -------------------------------------------------------------------------------------------------

    def _expect(self, heard: bool = False) -> None:
        """Find out what the client must do next, and set the deadline for it."""
        phase = self._next_phase()
        if phase is not self._phase or (heard and phase is Phase.BODY):
            self._phase, self._since = phase, self.loop.time()
            self._unsent = self.transport.get_write_buffer_size()
        if phase is not None:
            self._wake(self._since + self._guard.seconds(phase))

    def _next_phase(self) -> Phase | None:
        if self.transport.is_closing():
            return Phase.LEAVING
        if self.flow.write_paused:
            return Phase.READING
        if self.conn.their_state is h11.IDLE:
            # Between two requests uvicorn has its own short deadline for the first byte.
            return Phase.HEADERS if self.cycle is None or self.conn.trailing_data[0] else None
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.UNWANTED if self.cycle.response_complete else Phase.BODY
        return None

    def _wake(self, at: float) -> None:
        """Set the timer for a deadline, unless it runs out earlier anyway."""
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._phase is None:
            return
        if self._is_moving(self._phase):
            self._since = self.loop.time()
        due = self._since + self._guard.seconds(self._phase)
        if due > self.loop.time():
            self._wake(due)
        else:
            self._give_up(self._phase)

    def _is_moving(self, phase: Phase) -> bool:
        """Whether the client has read some of an answer meanwhile, or cannot go on because it waits for this server."""
        if phase is Phase.BODY:
            return self.flow.read_paused or self.cycle.waiting_for_100_continue
        unsent, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        return phase in (Phase.READING, Phase.LEAVING) and self._unsent < unsent

    def _give_up(self, phase: Phase) -> None:
        if phase in (Phase.READING, Phase.LEAVING):
            self.transport.abort()
            return
        if phase is Phase.UNWANTED or (phase is Phase.HEADERS and not self.conn.trailing_data[0]):
            self.transport.close()
        else:
            self._refuse(408, f"The client took longer than {self._guard.seconds(phase):g} s to {phase.value}.")
        self._expect()

    def _refuse(self, status: int, detail: str) -> None:
        """Answer in place of the application, unless that has begun its answer, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in _answer(status, detail):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()


def _answer(status: int, detail: str) -> list[h11.Event]:
    body = json.dumps(document(status, detail)).encode()
    headers = PROTECTING | {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    if status in (429, 503):
        headers["Retry-After"] = str(_COME_BACK)
    return [h11.Response(status_code=status, headers=list(headers.items())), h11.Data(data=body), h11.EndOfMessage()]
