"""The settings of the service, from the environment and a file `.env`, validated once.

Each setting has a name of Mainspring's own; the name that an older service used for it is accepted too.
"""

from __future__ import annotations

import os
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mainspring.client.outgoing.settings import OutgoingSettings, named
from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.statuses import read_statuses
from mainspring.model.networks import read_proxies

_PORTS = 65_535
_SHORTEST_SECRET = 32
_PREFIX = r"^(/[A-Za-z0-9._~-]+)*$"


class ServiceSettings(BaseSettings, OutgoingSettings):
    """The settings of `mainspring serve` and `mainspring up`, beside those of their worker
    (`cli/support/environment.py`). Durations in milliseconds end with `_ms`."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", validation_alias=named("MAINSPRING_HOST"))
    port: int = Field(3000, ge=0, le=_PORTS, validation_alias=named("MAINSPRING_PORT", "PORT"))
    prefix: str = Field("", pattern=_PREFIX, validation_alias=named("MAINSPRING_PREFIX"))
    timezone: str = Field("UTC", validation_alias=named("MAINSPRING_TIMEZONE"))
    hosts: Annotated[str, Field(validation_alias=named("MAINSPRING_HOSTS"))] = ""
    trusted_proxies: str = Field("", validation_alias=named("MAINSPRING_TRUSTED_PROXIES"))
    retry_attempts: int = Field(
        3, ge=0, le=1000, validation_alias=named("MAINSPRING_RETRY_ATTEMPTS", "JOB_RETRY_ATTEMPTS")
    )
    retry_delay_ms: int = Field(5000, ge=0, validation_alias=named("MAINSPRING_RETRY_DELAY_MS", "JOB_RETRY_DELAY"))
    retry_on: str = Field("", validation_alias=named("MAINSPRING_RETRY_ON", "JOB_RETRY_ON"))
    session_secret: SecretStr | None = Field(None, validation_alias=named("MAINSPRING_SESSION_SECRET"))
    session_hours: float = Field(12, gt=0, le=24 * 90, validation_alias=named("MAINSPRING_SESSION_HOURS"))
    requests_per_minute: int = Field(6000, ge=1, validation_alias=named("MAINSPRING_REQUESTS_PER_MINUTE"))
    requests_at_once: int = Field(100, ge=1, validation_alias=named("MAINSPRING_REQUESTS_AT_ONCE"))
    streams: int = Field(100, ge=1, validation_alias=named("MAINSPRING_STREAMS"))
    streams_per_key: int = Field(20, ge=1, validation_alias=named("MAINSPRING_STREAMS_PER_KEY"))
    streams_per_address: int = Field(50, ge=1, validation_alias=named("MAINSPRING_STREAMS_PER_ADDRESS"))
    connections: int = Field(500, ge=1, validation_alias=named("MAINSPRING_CONNECTIONS"))
    connections_per_address: int = Field(200, ge=1, validation_alias=named("MAINSPRING_CONNECTIONS_PER_ADDRESS"))
    header_seconds: float = Field(10, gt=0, le=3600, validation_alias=named("MAINSPRING_HEADER_SECONDS"))
    body_seconds: float = Field(30, gt=0, le=3600, validation_alias=named("MAINSPRING_BODY_SECONDS"))
    metrics_open: bool = Field(False, validation_alias=named("MAINSPRING_METRICS_OPEN"))
    max_body: int = Field(1024 * 1024, ge=1024, validation_alias=named("MAINSPRING_MAX_BODY"))

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError):
            raise ValueError(f"there is no time zone {value!r}; use a name such as Europe/Paris") from None
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _known_proxies(cls, value: str) -> str:
        read_proxies(value)
        return value

    @field_validator("retry_on")
    @classmethod
    def _known_statuses(cls, value: str) -> str:
        read_statuses(value)
        return value

    @field_validator("session_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < _SHORTEST_SECRET:
            raise ValueError(f"it needs at least {_SHORTEST_SECRET} bytes, such as from: openssl rand -hex 32")
        return value

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def service_settings(**given: Any) -> ServiceSettings:
    """Read the settings from the environment; given values override them. ConfigurationError names a wrong setting."""
    try:
        return ServiceSettings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = _name_in_use(str(first["loc"][0])) if first["loc"] else "settings"
        raise ConfigurationError(f"{name} is wrong: {str(first['msg']).removeprefix('Value error, ')}.") from None


def _name_in_use(name: str) -> str:
    """The name of a setting that the environment uses; pydantic reports its first name."""
    for field in ServiceSettings.model_fields.values():
        choices = getattr(field.validation_alias, "choices", [])
        if name in choices:
            return next((str(one) for one in choices if one in os.environ), name)
    return name
