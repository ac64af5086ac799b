"""The network that the attacks run in: a namespace of its own in which every address there is belongs to this machine.

Whatever the product connects to, a listener of the attack is there and sees it, with the address it was made to.
Nothing leads out. Where the machine allows no namespaces, loopback is used: one of its addresses stands for the public
ones, and all others are watched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from harness import namespaces

_INSIDE = "ATTACK_NETWORK"
_READY = " && ".join(
    ["ip link set lo up", "ip route add local 0.0.0.0/0 dev lo", "ip -6 route add local ::/0 dev lo"],
)
_PUBLIC, _OTHER = "93.184.215.14", "93.184.215.15"
_LOCAL, _OTHER_LOCAL = "127.0.0.3", "127.0.0.4"


def inside() -> bool:
    """Whether this program has a network of its own."""
    return _INSIDE in os.environ


def why_not() -> str | None:
    """Why there can be no such network on this machine; None where there can be."""
    return namespaces.why_not(_READY)


def enter(module: str, arguments: Sequence[str]) -> None:
    """Run a module again, instead of this program, in such a network. Does not return."""
    namespaces.enter(_READY, module, arguments, **{_INSIDE: "1"})


def public() -> str:
    """The address of the servers that may be called."""
    return _PUBLIC if inside() else _LOCAL


def other_public() -> str:
    """Another one, of a server that belongs to another owner."""
    return _OTHER if inside() else _OTHER_LOCAL
