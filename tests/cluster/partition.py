"""A real network partition: a worker in a network namespace of its own, and packet filters between it and the servers.

The program that wants one runs in a network namespace itself (`enter_network`), in which its servers have the address
`SERVERS`. Namespaces, links and filter rules belong to processes of the program: the kernel removes them when these
have ended, however they have ended. No address outside of these namespaces is used, and none of them leads out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness import namespaces
from harness.waiting import eventually

SERVERS = "10.77.0.1"
_NEAR, _FAR = "10.77.1.1", "10.77.1.2"
_INSIDE = "TEST_NETWORK"
_TOOLS = {**namespaces.TOOLS, "nsenter": "util-linux", "nft": "nftables"}
_PROBE = "ip link add near type veth peer name far && nft list ruleset"
# What is dropped in the worker's namespace: what it sends, what it is sent, or both.
WAYS: Mapping[str, Sequence[str]] = {"both ways": ("input", "output"), "sending": ("output",), "hearing": ("input",)}


def inside() -> bool:
    """Whether this program has a network of its own."""
    return _INSIDE in os.environ


def why_not() -> str | None:
    """Why there can be no partition on this machine; None where there can be."""
    return namespaces.why_not(_PROBE, _TOOLS)


def enter_network(module: str, arguments: Sequence[str]) -> None:
    """Run a module again, instead of this program, in a network of its own. Does not return."""
    ready = f"ip link set lo up && ip addr add {SERVERS}/32 dev lo"
    namespaces.enter(ready, module, arguments, **{_INSIDE: SERVERS})


class FarNetwork:
    """A network namespace beside this program's, from which the servers can be reached unless the way is cut."""

    def __init__(self) -> None:
        # It ends when its input does, also where this program is killed.
        self._keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    @property
    def entering(self) -> list[str]:
        """What to put before a command that is to run in there."""
        return ["nsenter", f"--net=/proc/{self._keeper.pid}/ns/net"]

    async def __aenter__(self) -> Self:
        pid = self._keeper.pid
        here = Path("/proc/self/ns/net").readlink()
        await eventually(lambda: Path(f"/proc/{pid}/ns/net").readlink() != here)
        _run(["ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(pid)])
        _run(["ip", "addr", "add", f"{_NEAR}/30", "dev", "near"])
        _run(["ip", "link", "set", "near", "up"])
        for command in (
            "link set lo up",
            f"addr add {_FAR}/30 dev far",
            "link set far up",
            f"route add default via {_NEAR}",
        ):
            _run([*self.entering, "ip", *command.split()])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()

    def cut(self, way: str) -> None:
        """Drop every packet, one way or both ways."""
        chains = (f"chain {hook} {{ type filter hook {hook} priority 0; policy drop; }}\n" for hook in WAYS[way])
        _run([*self.entering, "nft", "-f", "-"], f"table inet cut {{\n{''.join(chains)}}}\n")

    def mend(self) -> None:
        _run([*self.entering, "nft", "flush", "ruleset"])


def _run(command: Sequence[str], text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
