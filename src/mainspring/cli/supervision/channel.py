"""The channel between the supervisor and a worker process: a socket pair that the worker has as its stdin.

The supervisor sends the words `stop` and `stop_now`; the worker sends `ready`, `drained` and the message of an error;
each is one line of JSON. At the end of the stream either side knows that the other is dead, however it died, on every
system. (Linux could kill the worker with its parent, but a worker should drain then, not die.) The supervisor stops the
worker by word and not by signal, so that a service manager that signals all processes at once does not count as two
signals.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable

from mainspring.model.fields import Fields

STOP, STOP_NOW, GONE = "stop", "stop_now", "gone"
URI_OF_WORKER = "MAINSPRING_WORKER_URI"
"""The variable with the URI for a worker process: every user of the machine could read it in the arguments."""
TOKEN_OF_WORKER = "MAINSPRING_WORKER_TOKEN"
"""The variable with the last part of a worker's id, so that either side knows the id before the other has spoken."""
_STDIN = 0
_LONGEST_SENTENCE = 4_000


def worker_id(pid: int, token: str) -> str:
    """The id of a worker process: its host, its own pid, and a part that is never used twice."""
    return f"{socket.gethostname()}:{pid}:{token}"


class WorkerEnd:
    """The worker's end of the channel."""

    def __init__(self) -> None:
        """Take over stdin; handlers and their processes read an empty one instead."""
        wire = os.dup(_STDIN)  # not inherited by further processes
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _STDIN)
        os.close(nothing)
        self._socket = socket.socket(fileno=wire)
        self._sending = threading.Lock()

    def ready(self) -> None:
        self._send({"ready": True})

    def drained(self) -> None:
        self._send({"drained": True})

    def failed(self, sentence: str) -> None:
        self._send({"error": sentence[:_LONGEST_SENTENCE]})

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call a function, in a thread, with each word that arrives; GONE is the last."""
        threading.Thread(target=self._listen, args=(heard,), name="mainspring-supervisor", daemon=True).start()

    def _send(self, message: Fields) -> None:
        try:
            with self._sending:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the supervisor is dead

    def _listen(self, heard: Callable[[str], None]) -> None:
        try:
            with self._socket.makefile("r") as lines:
                for line in lines:
                    heard(json.loads(line))
        except OSError:
            pass
        heard(GONE)
