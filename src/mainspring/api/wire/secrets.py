"""Secrets on the wire: requests have values, answers have none, except for a value that the server has just made."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from mainspring.api.wire.base import In, Instant, Out, Span
from mainspring.api.wire.job_requests import Text
from mainspring.model.privacy.origins import MOST_ORIGINS
from mainspring.model.privacy.secrets import LARGEST, Secret

Origin = Annotated[str, Field(min_length=1, max_length=300)]
Names = Annotated[list[Text], Field(min_length=1, max_length=100)]


class SecretIn(In):
    """A secret's value: given, or made by the server."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"value": "a-token-of-yours", "origins": ["https://api.example.com"], "queues": ["billing"]},
                {"generate": "signing", "origins": ["https://*.example.com"], "keepOld": "1d"},
            ]
        }
    )

    value: Annotated[SecretStr, Field(min_length=1, max_length=LARGEST)] | None = Field(
        None, description="The value. It is stored encrypted and cannot be read back."
    )
    generate: Literal["signing"] | None = Field(
        None,
        description="Let the server generate a secret to sign webhooks with (Standard Webhooks, `whsec_…`). Only this "
        "answer shows it.",
    )
    origins: Annotated[list[Origin], Field(min_length=1, max_length=MOST_ORIGINS)] = Field(
        description="Where webhooks may send it: scheme, host and port. `https://*.example.com` means every host below "
        'example.com; `["*"]`, alone, means everywhere.',
        examples=[["https://api.example.com"]],
    )
    queues: Names | None = Field(
        None,
        description="The queues whose jobs may use it. Without `queues` and `prefixes` every job may, but API keys "
        "with a scope cannot create such a job.",
    )
    prefixes: Names | None = Field(None, description="The prefixes of the names of jobs that may use it.")
    keep_old: Span = Field(
        "0s",
        description="How long webhooks are also signed with the previous value, so that receivers can switch to the "
        "new one.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.value is None) == (self.generate is None):
            raise ValueError("give a value, or generate, and not both")
        return self


class SecretOut(Out):
    """A secret without its value."""

    name: str = Field(examples=["billing-token"])
    key_id: str = Field(description="The id of the key that it is encrypted with.", examples=["2026a"])
    version: int = Field(description="1 at first; rises with every new value.")
    created_at: Instant
    updated_at: Instant
    actor: str | None = None
    old_until: Instant | None = Field(None, description="Until when webhooks are also signed with the previous value.")
    origins: list[str] = Field(description="The origins that webhooks may send it to; if empty, none.")
    queues: list[str] | None = Field(None, description="The queues whose jobs may use it; null: all.")
    prefixes: list[str] | None = Field(
        None, description="The prefixes of the names of jobs that may use it; null: any name."
    )

    @classmethod
    def of(cls, secret: Secret) -> Self:
        return cls(
            name=secret.name,
            key_id=secret.key_id,
            version=secret.version,
            created_at=secret.created_at,
            updated_at=secret.updated_at,
            actor=secret.actor,
            old_until=secret.old_until,
            origins=list(secret.origins),
            queues=None if secret.queues is None else list(secret.queues),
            prefixes=None if secret.prefixes is None else list(secret.prefixes),
        )


class SecretPut(SecretOut):
    """A secret that was just stored."""

    value: str | None = Field(None, description="The value, if the server has made it. Only this answer shows it.")
