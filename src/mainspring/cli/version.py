"""`mainspring version`: the versions of Mainspring, Python and pymongo."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of


def describe_versions() -> str:
    """One line with all versions, for bug reports."""
    return (
        f"mainspring {version_of('mainspring')} "
        f"(Python {platform.python_version()}, pymongo {version_of('pymongo')}, {platform.system()})"
    )


def version() -> None:
    """Print the version."""
    print(describe_versions())
