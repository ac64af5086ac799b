"""The destinations of alert rules: from what the author gives to the data of the job that sends a message.

A chat and a webhook are checked as webhook jobs are, an email address as those of mail jobs are. Templates are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.alerts.rule import DESTINATIONS, MAIL, MOST_DESTINATIONS, Destination

_FIELDS = {MAIL: ("to",), "webhook": ("url", "headers", "sign_with"), "chat": ("url",)}
_TIMEOUT = 15.0
_EXAMPLE = '{"type": "chat", "url": "https://hooks.example.com/secret://chat"}'


def make_destinations(given: object, before: Sequence[Destination] = ()) -> tuple[Destination, ...]:
    """Check the destinations of a rule. One that is given just as it is shown stays as it was `before`: the values that
    are not shown need not be given again."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ConfigurationError(f"to must be a list of destinations, such as [{_EXAMPLE}].")
    if not 1 <= len(given) <= MOST_DESTINATIONS:
        raise ConfigurationError(f"An alert rule has 1 to {MOST_DESTINATIONS} destinations in to.")
    return tuple(_known(one, before) or make_destination(one) for one in given)


def _known(given: object, before: Sequence[Destination]) -> Destination | None:
    return next((one for one in before if given == one.shown), None)


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
    request = parse_request({**given, "method": "POST", "templates": False, "timeout": _TIMEOUT}, {})
    return Destination(kind, {"request": request.to_document(), "target": target_of(request.url)})
