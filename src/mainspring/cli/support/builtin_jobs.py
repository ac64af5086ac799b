"""The built-in job types, webhooks and email, if the extra `api` is installed: their settings and handlers.

Worker processes import this module too, so that it imports nothing of the extra `cli`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.cli.support.either_scheduler import Face
from mainspring.cli.support.target import load
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.reserved_names import HTTP

if TYPE_CHECKING:
    from mainspring.api.settings import ServiceSettings

_EXTRA = ("fastapi", "starlette", "uvicorn", "pydantic_settings", "sse_starlette", "aiohttp", "aiosmtplib", "yarl")


class MissingExtra(ConfigurationError):
    """The HTTP service is not installed."""


def open_target(target: str | None) -> Face:
    """The scheduler that a target names; without a target, a scheduler that runs only webhooks and email."""
    if target:
        return load(target)
    face = Face(Scheduler())
    add_builtins(face, read_settings())
    return face


def read_settings(**given: Any) -> ServiceSettings:
    """Read the settings of the service; these options override the environment."""
    try:
        from mainspring.api.settings import service_settings
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return service_settings(**given)


def add_builtins(face: Face, settings: ServiceSettings) -> None:
    """Give a scheduler the handlers of webhooks and email, unless it has them."""
    try:
        from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers
    except ModuleNotFoundError as error:
        raise missing(error) from None
    if HTTP not in (face.inner.workers.handler_names or ()):
        add_builtin_handlers(face.inner, settings)


def missing(error: ModuleNotFoundError) -> Exception:
    """The message for a missing module, with the extra that installs it, if there is one."""
    if error.name is None or error.name.partition(".")[0] not in _EXTRA:
        return error
    return MissingExtra("The HTTP service, webhooks and email need the extra 'api'; pip install \"mainspring[api]\"")
