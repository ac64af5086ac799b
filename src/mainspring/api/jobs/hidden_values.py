"""The values of a webhook or mail that are hidden from the caller that changes it: credentials, redacted and encrypted.

Such values stay where they are. They are sent to no other target or recipient and inserted at no other place. A word
that stands for one, `[redacted]`, means the stored value at the same place and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.resources import is_reference
from mainspring.api.problems import Problem
from mainspring.client.namespaces.schedules import Schedule
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.jobtypes.http.request import parse_request
from mainspring.jobtypes.http.templates import value_at
from mainspring.jobtypes.http.urls import target_of
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.model.privacy.credentials import REDACTED
from mainspring.model.privacy.redaction import ENCRYPTED

_MARKS = (REDACTED, ENCRYPTED)
RECIPIENTS = ("to", "cc", "bcc")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A stored webhook: its request and its data, both as stored and as shown."""

    request: Mapping[str, Any]
    data: Any
    shown_request: Mapping[str, Any]
    shown_data: Any

    @classmethod
    def of(cls, caller: Caller, made: Job | Schedule) -> Webhook:
        stored, shown = _mapping(made.data), _mapping(shown_data(caller, made))
        return cls(
            _mapping(stored.get("request")), stored.get("data"), _mapping(shown.get("request")), shown.get("data")
        )

    def is_left_for(self, url: Any) -> bool:
        """Whether a request to this URL goes to another server than before."""
        try:
            return target_of(str(url)) != target_of(str(self.request.get("url")))
        except ConfigurationError:
            return True

    def merged(self, given: Mapping[str, Any], removed: set[str]) -> Fields:
        """The stored request with the given fields, and without the removed ones."""
        fields = {name: restored(value, self.request.get(name), self.shown_request.get(name))
                  for name, value in given.items()}  # fmt: skip
        kept = {name: value for name, value in self.request.items() if name not in removed and name not in given}
        if self.is_left_for(fields.get("url", self.request.get("url"))):
            fields = dict(given)
            kept = self._travelling(kept)
        for name, value in fields.items():
            refuse_marks(value, "endpoint" if name == "url" else name)
        return {**kept, **fields}

    def _travelling(self, kept: Mapping[str, Any]) -> Fields:
        """The fields that stay for another target: hidden values in headers and in the query are dropped."""
        if "body" in kept and kept["body"] != self.shown_request.get("body"):
            text = "The body has values that are not shown, which no other target gets; give the body again."
            raise Problem(422, text, field="body")
        parts = {name: self._shown_part(name, kept[name]) for name in ("headers", "query") if name in kept}
        return {**kept, **parts}

    def _shown_part(self, name: str, values: Any) -> Fields:
        shown = _mapping(self.shown_request.get(name))
        return {key: value for key, value in _mapping(values).items() if value == shown.get(key) or is_reference(value)}

    def check_templates(self, request: Mapping[str, Any], data: Any, visible: Any) -> None:
        """Refuse a request whose templates newly name a hidden value. `data` fills the templates; `visible` is the part
        of it that the caller was shown or has given."""
        before = frozenset() if self.is_left_for(request.get("url")) else _paths(self.request)
        for path in sorted(_paths(request) - before):
            if value_at(data, path) != value_at(visible, path):
                raise Problem(422, f"{{{{{path}}}}} names a value that is not shown, where it did not stand before; "
                                   "give the value again, in data.", field="data")  # fmt: skip


def shown_data(caller: Caller, made: Job | Schedule) -> Mapping[str, Any]:
    """The data of a job or a schedule as it is shown."""
    return caller.scheduler.privacy.shown(made).data


def restored(given: Any, stored: Any, shown: Any) -> Any:
    """The given value, with the stored one in place of each hidden one: a caller that sends back a shown value means
    it to stay."""
    if stored is not None and (given == shown or given in _MARKS):
        return stored
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        seen = _mapping(shown)
        return {name: restored(value, stored.get(name), seen.get(name)) for name, value in given.items()}
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        known = shown if isinstance(shown, list) and len(shown) == len(stored) else [None] * len(stored)
        return [restored(one, other, sight) for one, other, sight in zip(given, stored, known, strict=True)]
    return given


def refuse_marks(value: Any, field: str) -> None:
    """Refuse a word that stands for a hidden value, at a place without a stored value."""
    if isinstance(value, Mapping):
        for one in value.values():
            refuse_marks(one, field)
    elif isinstance(value, list | tuple):
        for one in value:
            refuse_marks(one, field)
    elif isinstance(value, str) and (value in _MARKS or f"={REDACTED}" in value or f"/{REDACTED}" in value):
        text = f"{field} has a word in the place of a value that is not shown; give the value again."
        raise Problem(422, text, field=field)


def refuse_flow_data(name: str) -> None:
    """Refuse other data for a job that Mainspring runs a flow by: its graph is checked when the flow is started."""
    if name in FLOW_NAMES:
        text = "The data of this job is the graph of a flow, which is checked when it starts; use POST /api/flows."
        raise Problem(422, text, field="data")


def recipients_of(mail: Mapping[str, Any]) -> list[Any]:
    """The recipients of a mail, as they are written."""
    return [mail.get(field) for field in RECIPIENTS]


def _paths(request: Mapping[str, Any]) -> frozenset[str]:
    """The places in the data that a request's templates name."""
    try:
        return parse_request(request).data_paths()
    except InvalidJob:
        return frozenset()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
