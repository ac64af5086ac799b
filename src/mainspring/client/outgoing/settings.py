"""The settings of webhooks and mail, from the environment or from a program.

`add_builtin_handlers` reads them where a program gives none. The settings of the service have the same fields.
"""

from __future__ import annotations

import os
from typing import Any, Unpack

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from mainspring.client.outgoing.options import OutgoingOptions
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.limits.limits import Rate
from mainspring.spelling import suggestion


def named(*names: str) -> Any:
    """The names of a setting in the environment."""
    return AliasChoices(*names)


class OutgoingSettings(BaseModel):
    """Where webhooks may go, the limits of each target, and the SMTP server of mail."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    http_allow: str = Field("", validation_alias=named("MAINSPRING_HTTP_ALLOW"))
    target_concurrency: int = Field(20, ge=0, le=1_000_000, validation_alias=named("MAINSPRING_TARGET_CONCURRENCY"))
    target_rate: str = Field("", validation_alias=named("MAINSPRING_TARGET_RATE"))
    target_breaker: bool = Field(True, validation_alias=named("MAINSPRING_TARGET_BREAKER"))
    smtp_url: SecretStr | None = Field(None, validation_alias=named("MAINSPRING_SMTP_URL"))
    smtp_from: str | None = Field(None, validation_alias=named("MAINSPRING_SMTP_FROM"))
    smtp_senders: str = Field("", validation_alias=named("MAINSPRING_SMTP_SENDERS"))

    @field_validator("target_rate")
    @classmethod
    def _known_rate(cls, value: str) -> str:
        if value.strip():
            Rate(value)
        return value.strip()


def outgoing_settings(**given: Unpack[OutgoingOptions]) -> OutgoingSettings:
    """Read the settings from the environment; given values override them. ConfigurationError names a wrong setting."""
    known = sorted(OutgoingSettings.model_fields)
    for name in given:
        if name not in known:
            raise ConfigurationError(f"Webhooks and mail have no setting {name!r}.{suggestion(name, known)}")
    variables = {name: f"MAINSPRING_{name.upper()}" for name in known}
    found: Fields = {name: os.environ[one] for name, one in variables.items() if one in os.environ}
    try:
        return OutgoingSettings.model_validate({**found, **given})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        said = str(first["msg"]).removeprefix("Value error, ")
        place = str(first["loc"][0]) if first["loc"] else "A setting of webhooks and mail"
        raise ConfigurationError(f"{place} is wrong: {said}.") from None
