"""The error for a part of the observability whose extra is not installed."""

from __future__ import annotations

from mainspring.errors import ConfigurationError


def needs_extra(extra: str, error: ModuleNotFoundError) -> ConfigurationError:
    """The error that names the missing extra."""
    return ConfigurationError(f'This needs the extra {extra!r} ({error.name}); pip install "mainspring[{extra}]"')
