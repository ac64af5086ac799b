"""Choose the port of the embedded server, below the range from which systems take ports for outgoing connections.

The system could give a port of that range to any client while mongod is down for a moment, and users would connect to
that client. The guardian calls this module; standard library only.
"""

from __future__ import annotations

import random
import socket
import sys

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 20000, 32000


def is_free(port: int) -> bool:
    """Whether no program listens on the port."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # as mongod does: past connections, in TIME_WAIT, are no obstacle
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether a program accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def choose_port(preferred: int | None) -> int | None:
    """The preferred port if it is free, else another free one; None if none was found."""
    candidates = [preferred] if preferred else []
    candidates += random.sample(range(_LOWEST, _HIGHEST), 200)
    return next((port for port in candidates if is_free(port)), None)
