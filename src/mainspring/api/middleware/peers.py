"""The check, with the Linux kernel, that a connection over loopback comes from the same user of this machine.

Every user can connect over loopback: without this check, a service without a key would answer each of them, and each
request that a proxy under its own account forwards without a trace. The kernel's socket diagnostics know the owner of
both ends of a connection (`ss` uses them, too). On other systems, and with a kernel without diagnostics, every client
on loopback is accepted.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from ipaddress import ip_address

from mainspring.model.networks import unmapped

_SOCK_DIAG = 4
_BY_FAMILY, _REQUEST, _ERROR = 20, 1, 2
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
_FOUND = struct.Struct("=4x48x4x4x4xII")
"""The user and the inode of the socket, in an answer of the kernel."""
_ROOT = 0


def is_own_process(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a process of this user, or of root, which has all rights anyway, has made a connection. False, too, if
    the process has closed its end: then the owner is unknown."""
    if sys.platform != "linux":
        return True
    try:
        owner = _owner(client, server)
    except (OSError, struct.error):
        return True  # a kernel without socket diagnostics
    return owner in (os.geteuid(), _ROOT)


def _owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user that owns the client's end of a connection; None if that end is gone or has no owner."""
    family, source, target = _packed(client[0], server[0])
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE)
    ends = _PORTS.pack(client[1], server[1]) + source + target + _REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    length = _HEADER.size + len(asked) + len(ends)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(length, _BY_FAMILY, _REQUEST, 1, 0) + asked + ends)
        answer = kernel.recv(8192)
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    user, inode = _FOUND.unpack_from(answer, _HEADER.size)
    # The kernel reports root as the owner of a socket that its process has closed, with no inode.
    return int(user) if inode else None


def _packed(*hosts: str) -> tuple[int, bytes, bytes]:
    """The family of two addresses, and each as the kernel reads it."""
    plain = [unmapped(ip_address(host)) for host in hosts]
    family = socket.AF_INET if plain[0].version == 4 else socket.AF_INET6
    source, target = (one.packed.ljust(16, b"\0") for one in plain)
    return family, source, target
