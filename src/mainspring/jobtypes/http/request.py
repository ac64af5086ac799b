"""The request of a webhook job: `WebhookRequest`, checked in full when the job is made.

All fields are the author's own text. An error names the field and the cure, and never repeats a value, since values may
be secret.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from mainspring.clock import EPOCH
from mainspring.errors import InvalidJob
from mainspring.jobtypes.http.bodies import LONGEST_BODY, build_body, check_body
from mainspring.jobtypes.http.headers import LONGEST_HEADER, fill_headers
from mainspring.jobtypes.http.secret_references import secret_names, split_secret_path
from mainspring.jobtypes.http.statuses import ALL, DEFAULT_RETRY_ON, DEFAULT_SUCCESS, NETWORK, Status, check_statuses
from mainspring.jobtypes.http.templates import Facts, check_template, data_paths
from mainspring.jobtypes.http.urls import build_url, check_url
from mainspring.spelling import suggestion

METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
LARGEST_RESPONSE = 1 << 20
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(rf"[\t\x20-\x7e]{{0,{LONGEST_HEADER}}}")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWN_NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")
_CONNECTION_NAMES = (
    *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"),
    *("proxy-connection", "proxy-authorization", "proxy-authenticate", "http2-settings"),
)

QueryValue = str | int | float | bool | list[str]
Statuses = Annotated[tuple[Status, ...], Field(strict=False, max_length=32)]


class WebhookRequest(BaseModel):
    """An HTTP request to be made by a job. Times are in seconds."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str
    method: str = "POST"
    headers: dict[str, str] = Field(default_factory=dict, max_length=64)
    query: dict[str, QueryValue] = Field(default_factory=dict, max_length=64)
    body: JsonValue = None
    """A text is sent unchanged; any other value as JSON."""
    body_base64: str | None = Field(default=None, max_length=LONGEST_BODY * 4 // 3 + 4)
    """Bytes, instead of `body`."""
    timeout: float = Field(default=30.0, ge=0.1, le=600.0, allow_inf_nan=False)
    success: Statuses = DEFAULT_SUCCESS
    retry_on: Statuses = DEFAULT_RETRY_ON
    redirects: int = Field(default=0, ge=0, le=3)
    max_response: int = Field(default=64 * 1024, ge=0, le=LARGEST_RESPONSE)
    sign_with: Annotated[tuple[str, ...], Field(strict=False, max_length=5)] = ()
    """Names of signing secrets; each gives a signature of its own."""
    templates: bool = True

    @field_validator("method", mode="before")
    @classmethod
    def _check_method(cls, value: object) -> object:
        method = value.upper() if isinstance(value, str) and value.isascii() else value
        if method not in METHODS:
            raise ValueError(f"must be one of {', '.join(METHODS)}.")
        return method

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("name the same header twice, in different letters.")
        return {name: value.strip() for name, value in headers.items()}

    @field_validator("success", "retry_on")
    @classmethod
    def _check_statuses(cls, statuses: tuple[Status, ...]) -> tuple[Status, ...]:
        return check_statuses(statuses)

    @field_validator("sign_with")
    @classmethod
    def _check_sign_with(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_SECRET_NAME.fullmatch(name) for name in names):
            raise ValueError("must be names of secrets: letters, digits, - and _.")
        return names

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        for kind in (NETWORK, ALL):
            if kind in self.success:
                raise ValueError(f"success cannot hold {kind!r}, which is a kind of failure.")
        self._check_body()
        self.check_templates()
        return self

    def _check_body(self) -> None:
        if self.body is not None and self.body_base64 is not None:
            raise ValueError("body and body_base64 cannot be given together.")
        if self.has_body and self.method in ("GET", "HEAD"):
            raise ValueError(f"body: a {self.method} request has none; use POST or PUT, or the query.")
        if self.body_base64 is not None and len(_bytes_of(self.body_base64)) > LONGEST_BODY:
            raise ValueError("body_base64 must not be larger than 1 MiB.")

    @property
    def has_body(self) -> bool:
        return self.body is not None or self.body_base64 is not None

    @property
    def content_type(self) -> str | None:
        """The Content-Type header as given; None if the kind of body decides."""
        return next((value for name, value in self.headers.items() if name.lower() == "content-type"), None)

    def body_bytes(self) -> bytes:
        """The bytes of `body_base64`."""
        return _bytes_of(self.body_base64 or "")

    def secret_names(self) -> frozenset[str]:
        """The names of all secrets that the request refers to, for its URL, its headers and its signatures."""
        found = {name for value in self.headers.values() for name in secret_names(value)}
        path = split_secret_path(self.url)[1]
        return frozenset(found | set(self.sign_with) | ({path} if path is not None else set()))

    def data_paths(self) -> frozenset[str]:
        """The paths in the job's data that templates name."""
        texts: list[Any] = [self.url, *self.headers.values(), *self._query_texts()]
        return data_paths([*texts, self.body]) if self.templates else frozenset()

    def check_templates(self, data: Mapping[str, Any] | None = None) -> None:
        """Refuse unknown templates and, with the job's data, templates that lead nowhere in it."""
        plain, _ = split_secret_path(self.url)
        check_url(plain, data, self.templates)
        if any("secret://" in text for text in (plain, *self.query, *self._query_texts())):
            raise ValueError(
                "secrets can be referred to in header values, and as the whole path of the URL, as in "
                "https://hooks.example.com/secret://chat; not elsewhere in the URL or the query."
            )
        if self.templates:
            for value in (*self.headers.values(), *self._query_texts()):
                check_template(value, data)
        if check_body(self.body, self.content_type, self.templates, data) > LONGEST_BODY:
            raise ValueError("body must not be larger than 1 MiB.")
        if data is not None or not self.templates:
            self._check_filled(data or {})

    def _check_filled(self, data: Mapping[str, Any]) -> None:
        """Refuse a request that is already known to be too large, or not sendable, with its values filled in."""
        facts = Facts("0" * 24, 1, EPOCH, data, 1, EPOCH) if self.templates else None
        build_url(split_secret_path(self.url)[0], self.query, facts)
        fill_headers(self.headers, facts, defaultdict(str))
        if self.body is not None:
            build_body(self.body, self.content_type, facts)

    def _query_texts(self) -> list[str]:
        texts: list[str] = []
        for value in self.query.values():
            texts += value if isinstance(value, list) else [value] if isinstance(value, str) else []
        return texts

    def to_document(self) -> dict[str, Any]:
        """The request as plain values, without defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)


def parse_request(document: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> WebhookRequest:
    """Read and check a request. The error names every field that is wrong, and repeats no values."""
    unknown = [key for key in document if key not in WebhookRequest.model_fields]
    if unknown:
        known = sorted(WebhookRequest.model_fields)
        raise InvalidJob(f"A webhook has no field {unknown[0]!r}.{suggestion(str(unknown[0]), known)}")
    try:
        request = WebhookRequest.model_validate(dict(document))
        if data is not None:
            request.check_templates(data)
    except ValidationError as error:
        raise InvalidJob("The webhook is not valid: " + "; ".join(explain(error))) from None
    except ValueError as error:
        raise InvalidJob(f"The webhook is not valid: {error}") from None
    return request


def explain(error: ValidationError) -> list[str]:
    """The faults, field by field, without the values."""
    lines = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(step) for step in one["loc"][:2] if step != "[key]")
        said = one["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {said}" if place else said)
    return list(dict.fromkeys(lines))


def _check_header(name: str, value: str) -> None:
    shown = name if _TOKEN.fullmatch(name) else None
    if shown is None:
        raise ValueError("have a name that is none: use letters, digits and -.")
    lower = name.lower()
    if lower in _CONNECTION_NAMES:
        raise ValueError(f"cannot hold {shown}: it belongs to the connection, and is set by itself.")
    if lower in _OWN_NAMES or lower.startswith("mainspring-"):
        raise ValueError(f"cannot hold {shown}: it is set by Mainspring.")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"{shown} has a value with a line break, or something else that is not plain ASCII text.")
    secret_names(value)


def _bytes_of(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("body_base64 is not valid base64.") from None
