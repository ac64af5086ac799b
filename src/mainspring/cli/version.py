"""`mainspring version`: which versions are at work."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of


def describe_versions() -> str:
    """One line for people and bug reports."""
    return (
        f"mainspring {version_of('mainspring')} "
        f"(Python {platform.python_version()}, pymongo {version_of('pymongo')}, {platform.system()})"
    )


def version() -> None:
    """Print the version."""
    print(describe_versions())
