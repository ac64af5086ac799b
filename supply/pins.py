"""The versions and hashes in constraints.txt, by the normalised names of the packages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name

FILE = Path(__file__).parent.parent / "constraints.txt"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
_MARKER = re.compile(r";\s*(.+?)\s*(?:--hash|$)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """A version, and the SHA-256 of each file that it is published as: wheels of all platforms, and the source."""

    version: str
    hashes: tuple[str, ...]


def read_pins(text: str) -> dict[str, Pin]:
    """All pins of a file of requirements. A line that ends with a backslash goes on. Where a package has several
    versions, the one for this interpreter and platform counts."""
    pins: dict[str, Pin] = {}
    for line in text.replace("\\\n", " ").splitlines():
        found = _PIN.match(line)
        if found is not None and (canonicalize_name(found[1]) not in pins or _is_for_this_machine(line)):
            pins[canonicalize_name(found[1])] = Pin(found[2].rstrip(";"), tuple(_HASH.findall(line)))
    return pins


def _is_for_this_machine(line: str) -> bool:
    marker = _MARKER.search(line)
    return marker is None or Marker(marker[1]).evaluate()
