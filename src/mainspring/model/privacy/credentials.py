"""The names of credentials: the one list for redaction, for the display of webhooks, for searches and for the audit
log. Pure.

A name is that of a field of data, of a header, or of a parameter in a URL's query. The patterns are those of `redact`:
`*` matches anything, case does not matter, and `-` equals `_`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

REDACTED = "[redacted]"
ANY_KEY = "*_key"
CREDENTIALS = (
    *("*password", "*passwd", "*passphrase", "*secret", "*token", "*authorization", "*cookie", "*credential"),
    *("*credentials", "*apikey", "*accesskey", "*privatekey", "*secretkey", "*subscriptionkey", ANY_KEY),
    *("*_token_*", "*_secret_*", "*_password_*", "*_api_key_*", "sig", "*signature"),
)
"""The names of credentials."""
PLAIN_KEYS = frozenset(
    f"{kind}_key"
    for kind in ("cache", "dedupe", "foreign", "idempotency", "object", "partition", "primary", "public", "routing")
) | {"sort_key", "x_idempotency_key"}
"""Names that the pattern `*_key` does not match: they are no credentials. A pattern that is the full name does."""

_REMEMBERED = 4096
# A parameter of a query or a fragment: its name, and its value up to the next parameter or another delimiter. A value
# that is a single template contains no credential.
_PARAMETER = re.compile(r"""(?<=[?&;#])([^\s=&;#?"'<>]{1,200})=(?!\{\{[^{}]*\}\}(?![^\s&;#"'<>]))([^\s&;#"'<>]+)""")

# The URL of a chat's incoming webhook is a credential itself: its path lets any sender post there.
_CHAT_PATH = re.compile(
    r"""(https?://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:\w+\.)?discord(?:app)?\.com/api/webhooks|"""
    r"""[\w-]+\.webhook\.office\.com/webhookb2)/)([^\s?#"'<>\[]+)""",
    re.I,
)
_CHAT_MARKS = ("hooks.slack.com", "/api/webhooks/", ".webhook.office.com")

Name = Callable[[str], bool]


def matcher(pattern: str) -> Name:
    """The function that tells whether a name matches a pattern."""
    wanted = _normal(pattern)
    if "*" not in wanted:
        return lambda name: _normal(name) == wanted
    found = re.compile(translate(re.sub(r"[\[\]?]", lambda special: f"[{special[0]}]", wanted)))
    if wanted == ANY_KEY:
        return lambda name: found.match(_normal(name)) is not None and _normal(name) not in PLAIN_KEYS
    return lambda name: found.match(_normal(name)) is not None


def _normal(name: str) -> str:
    return name.casefold().replace("-", "_")


_MATCHERS = tuple(map(matcher, CREDENTIALS))


@lru_cache(_REMEMBERED)
def is_credential(name: str) -> bool:
    """Whether the values under this name are likely to be credentials, and are never shown."""
    return any(matches(name) for matches in _MATCHERS)


def mask_urls(text: str) -> str:
    """A text without the credentials in the queries of the URLs in it, and in the paths of webhooks of chats."""
    if _may_be_chat(text):
        text = _CHAT_PATH.sub(rf"\1{REDACTED}", text)
    return _PARAMETER.sub(_masked, text) if _may_have_query(text) else text


def url_credentials(text: str) -> Iterator[str]:
    """The credentials in the URLs in a text: in queries, as they are written there and decoded, and paths of chats."""
    if _may_be_chat(text):
        yield from (path for _, path in _CHAT_PATH.findall(text))
    if _may_have_query(text):
        for name, value in _PARAMETER.findall(text):
            if _is_parameter(name):
                yield value
                if "%" in value or "+" in value:
                    yield unquote_plus(value)


def mask_credentials(value: Any) -> Any:
    """Plain data without the values under the names of credentials, at any depth, and without credentials in URLs.
    Numbers and truth values are kept: they count or switch something."""
    if isinstance(value, Mapping):
        return {key: _kept(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask_credentials(one) for one in value]
    return mask_urls(value) if isinstance(value, str) else value


def _kept(name: str, value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float)
    return REDACTED if not plain and is_credential(name) else mask_credentials(value)


def _masked(found: re.Match[str]) -> str:
    return f"{found[1]}={REDACTED}" if _is_parameter(found[1]) else found[0]


def _is_parameter(name: str) -> bool:
    return is_credential(unquote_plus(name))


def _may_be_chat(text: str) -> bool:
    return "://" in text and any(mark in text.lower() for mark in _CHAT_MARKS)


def _may_have_query(text: str) -> bool:
    return "://" in text and "=" in text
