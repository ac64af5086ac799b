"""Secrets on the wire: values go in, and never come out again."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from mainspring.api.wire.base import In, Instant, Milliseconds, Out
from mainspring.model.secrets import LARGEST, Secret


class SecretIn(In):
    """A secret's value: given, or made by the server."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"value": "a-token-of-yours"}, {"generate": "signing", "keepOld": 86_400_000}]}
    )

    value: Annotated[SecretStr, Field(min_length=1, max_length=LARGEST)] | None = Field(
        None, description="The value. It is stored encrypted, and nobody can read it back here."
    )
    generate: Literal["signing"] | None = Field(
        None,
        description="Let the server make a secret to sign webhooks with (Standard Webhooks, `whsec_…`). "
        "The answer shows it, this once.",
    )
    keep_old: Milliseconds = Field(
        0, description="For how long webhooks are signed with the value before, too, so that receivers can change over."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.value is None) == (self.generate is None):
            raise ValueError("give a value, or generate, and not both")
        return self


class SecretOut(Out):
    """What is known of a secret. Its value is not."""

    name: str = Field(examples=["billing-token"])
    kid: str = Field(description="The id of the key that it is encrypted with.", examples=["2026a"])
    version: int = Field(description="1 at first; rises with every new value.")
    created_at: Instant
    updated_at: Instant
    actor: str | None = None
    old_until: Instant | None = Field(None, description="Until when the value before is signed with, too.")

    @classmethod
    def of(cls, secret: Secret) -> Self:
        return cls(
            name=secret.name,
            kid=secret.kid,
            version=secret.version,
            created_at=secret.created_at,
            updated_at=secret.updated_at,
            actor=secret.actor,
            old_until=secret.old_until,
        )


class SecretPut(SecretOut):
    """A secret that was just stored."""

    value: str | None = Field(None, description="Only of a secret that the server has made: shown this once.")
