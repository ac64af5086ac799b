"""Fingerprints of time-zone rules, so that an update of the rules is noticed between two firings.

A schedule's next firing is stored as an instant; when a country changes its clocks' rules and the new zone data is
installed, that instant may be wrong. Each schedule keeps the fingerprint of the rules that its instant was computed by.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from zoneinfo import TZPATH


def zones_fingerprint(zones: tuple[str, ...]) -> str | None:
    """The zones' names with the fingerprints of their rules; None when a schedule depends on no zone."""
    named = [zone for zone in zones if zone != "UTC"]
    return " ".join(f"{zone}:{_print(zone)}" for zone in sorted(named)) or None


def is_current(printed: str) -> bool:
    """Whether the rules of zones are still those of the fingerprint."""
    return printed == zones_fingerprint(tuple(part.rpartition(":")[0] for part in printed.split(" ")))


@lru_cache(maxsize=1024)
def _print(zone: str) -> str:
    return blake2b(_rules(zone), digest_size=4).hexdigest()


def _rules(zone: str) -> bytes:
    """The bytes that `zoneinfo` reads a zone from: the system's first, then those of the tzdata package."""
    for folder in TZPATH:
        path = Path(folder, zone)
        if path.is_file():
            return path.read_bytes()
    place = resources.files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    return place.read_bytes() if place.is_file() else b""
