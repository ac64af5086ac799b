"""The destinations of alert rules: from what the author gives to the data of the job that sends a message.

A chat and a webhook are checked as webhook jobs are, an email address as those of mail jobs are. Templates are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.alerts.rule import DESTINATIONS, MAIL, MOST_DESTINATIONS, Destination
from mainspring.model.privacy.credentials import REDACTED

_FIELDS = {MAIL: ("to",), "webhook": ("url", "headers", "sign_with"), "chat": ("url",)}
_TIMEOUT = 15.0
_EXAMPLE = '{"type": "chat", "url": "https://hooks.example.com/secret://chat"}'


def make_destinations(given: object, before: Sequence[Destination] = ()) -> tuple[Destination, ...]:
    """Check the destinations of a rule. Values that are given as they are shown of a destination of `before` stay as
    they were: what is hidden need not be given again, unless it would be sent to another URL."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ConfigurationError(f"to must be a list of destinations, such as [{_EXAMPLE}].")
    if not 1 <= len(given) <= MOST_DESTINATIONS:
        raise ConfigurationError(f"An alert rule has 1 to {MOST_DESTINATIONS} destinations in to.")
    # Two destinations may look the same, as two chats of one server do: each is the origin of one of those given.
    left = list(before)
    same = [_take(left, one) for one in given]
    made = zip(given, same, strict=True)
    return tuple(known or make_destination(_filled_in(one, left)) for one, known in made)


def _take(left: list[Destination], given: object, fields: Sequence[str] | None = None) -> Destination | None:
    """Take out the first destination whose shown values, or those of some fields, are as given."""
    wanted = _some(given, fields)
    found = next((one for one in left if _some(one.shown, fields) == wanted), None)
    if found is not None:
        left.remove(found)
    return found


def _some(given: object, fields: Sequence[str] | None) -> object:
    return [given.get(name) for name in fields] if fields and isinstance(given, Mapping) else given


def _filled_in(given: object, left: list[Destination]) -> object:
    """A changed destination with the hidden values of the one that it was, which has the same type and URL."""
    if not isinstance(given, Mapping):
        return given
    was = _take(left, given, ("type", "url"))
    if was is None or was.type == MAIL:
        return given
    stored = was.data["request"]
    filled = {**given, "url": stored["url"]}
    if isinstance(headers := given.get("headers"), Mapping):
        hidden = stored.get("headers") or {}
        filled["headers"] = {
            name: hidden.get(name, value) if value == REDACTED else value for name, value in headers.items()
        }
    return filled


def make_destination(given: object) -> Destination:
    """One destination, checked in full."""
    if not isinstance(given, Mapping) or given.get("type") not in DESTINATIONS:
        raise ConfigurationError(f"A destination in to has a type, one of {', '.join(DESTINATIONS)}: {_EXAMPLE}.")
    kind, fields = str(given["type"]), {name: one for name, one in given.items() if name != "type"}
    for name in fields:
        if name not in _FIELDS[kind]:
            raise ConfigurationError(f"A destination of the type {kind} has {', '.join(_FIELDS[kind])}, no {name!r}.")
    return _mail(fields) if kind == MAIL else _webhook(kind, fields)


def _mail(fields: Mapping[str, Any]) -> Destination:
    from pydantic import ValidationError

    from mainspring.jobtypes.mail.message import EmailRequest

    try:
        mail = EmailRequest.model_validate({"to": fields.get("to"), "subject": "x", "text": "x"})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ConfigurationError(f"to of an email destination: {first['msg'].removeprefix('Value error, ')}") from None
    return Destination(MAIL, {"to": list(mail.to)})


def _webhook(kind: str, fields: Mapping[str, Any]) -> Destination:
    try:
        from mainspring.jobtypes.http.request import parse_request
        from mainspring.jobtypes.http.urls import target_of
    except ModuleNotFoundError as error:
        text = f"Webhooks need the extra 'api': pip install \"mainspring[api]\" ({error})."
        raise ConfigurationError(text) from None
    given = {name: one for name, one in fields.items() if one}
    _refuse_hidden(given)
    request = parse_request({**given, "method": "POST", "templates": False, "timeout": _TIMEOUT}, {})
    return Destination(kind, {"request": request.to_document(), "target": target_of(request.url)})


def _refuse_hidden(given: Mapping[str, Any]) -> None:
    """Refuse the words that stand for a hidden value: the destination that had it had another URL, or is not known."""
    headers = given.get("headers")
    values = list(headers.values()) if isinstance(headers, Mapping) else []
    if REDACTED in str(given.get("url")) or REDACTED in values:
        raise ConfigurationError(
            f"{REDACTED} stands for a hidden value; give the whole URL and the headers' values again."
        )
