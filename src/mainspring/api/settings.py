"""What the service is told by the environment and a file `.env`, validated once.

Each setting has a name of Mainspring's own, and where an older service used another one, that is accepted too.
"""

from __future__ import annotations

from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mainspring.errors import ConfigurationError

_PORTS = 65_535


def _named(*names: str) -> Any:
    return AliasChoices(*names)


class ServiceSettings(BaseSettings):
    """The settings of `mainspring serve` and `mainspring up`. Durations in milliseconds end with `_ms`."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", validation_alias=_named("MAINSPRING_HOST"))
    port: int = Field(3000, ge=0, le=_PORTS, validation_alias=_named("MAINSPRING_PORT", "PORT"))
    timezone: str = Field("UTC", validation_alias=_named("MAINSPRING_TIMEZONE"))
    hosts: Annotated[str, Field(validation_alias=_named("MAINSPRING_HOSTS"))] = ""
    concurrency: int | None = Field(
        None, ge=1, validation_alias=_named("MAINSPRING_CONCURRENCY", "MAX_CONCURRENT_JOBS")
    )
    poll_interval_ms: int | None = Field(
        None, ge=10, validation_alias=_named("MAINSPRING_POLL_INTERVAL_MS", "SCHEDULER_POLL_INTERVAL")
    )
    retry_attempts: int = Field(
        3, ge=0, le=1000, validation_alias=_named("MAINSPRING_RETRY_ATTEMPTS", "JOB_RETRY_ATTEMPTS")
    )
    retry_delay_ms: int = Field(5000, ge=0, validation_alias=_named("MAINSPRING_RETRY_DELAY_MS", "JOB_RETRY_DELAY"))
    http_allow: str = Field("", validation_alias=_named("MAINSPRING_HTTP_ALLOW"))
    smtp_url: SecretStr | None = Field(None, validation_alias=_named("MAINSPRING_SMTP_URL"))
    smtp_from: str | None = Field(None, validation_alias=_named("MAINSPRING_SMTP_FROM"))
    session_hours: float = Field(12, gt=0, le=24 * 90, validation_alias=_named("MAINSPRING_SESSION_HOURS"))
    requests_a_minute: int = Field(6000, ge=1, validation_alias=_named("MAINSPRING_REQUESTS_A_MINUTE"))
    max_body: int = Field(1024 * 1024, ge=1024, validation_alias=_named("MAINSPRING_MAX_BODY"))

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError):
            raise ValueError(f"there is no time zone {value!r}; use a name such as Europe/Paris") from None
        return value

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def service_settings(**given: Any) -> ServiceSettings:
    """The settings of the environment, with what was given on top; ConfigurationError says what is wrong."""
    try:
        return ServiceSettings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise ConfigurationError(f"{name} is wrong: {str(first['msg']).removeprefix('Value error, ')}.") from None
