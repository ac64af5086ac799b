"""The HTTP API as commands use it: JSON in, JSON out, and every refusal as a sentence with an exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from mainspring.cli.calls.door import Door, Reply
from mainspring.cli.support.exit_codes import NOT_FOUND, RUNTIME_FAILURE, TO_BE_CHANGED, CommandFailed
from mainspring.model.fields import Fields

_PAGE = 200
_CODES = {400: TO_BE_CHANGED, 401: TO_BE_CHANGED, 403: TO_BE_CHANGED, 404: NOT_FOUND, 422: TO_BE_CHANGED}
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_NO_KEY = "The service at {place} needs an API key: give --key, or set MAINSPRING_API_KEY."
_WRONG_KEY = "The service at {place} does not accept this API key: it is unknown, expired or revoked."
_MAKE_KEY = "`mainspring keys create NAME` makes one, on the machine that reaches the database."


class Api:
    """The HTTP API behind a door. Paths begin with /api; their parts are quoted with `path`."""

    def __init__(self, door: Door, options: Collection[str] = (), named: Mapping[str, str] | None = None) -> None:
        """`options` are those of the command: a refused field is named as its option. `named` are the options whose
        fields have other names."""
        self._door = door
        self._options = options
        self._named = named or {}

    @property
    def place(self) -> str:
        """The service or the database, for sentences."""
        return self._door.place

    def get(self, path: str, *, accept: int | None = None, **query: Any) -> Any:
        """Read something; an answer with the status `accept` is no error."""
        return self._call("GET", path, query, None, accept)

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, once: str | None = None) -> Any:
        """Create or do something; a second request with the same `once` has no effect."""
        return self._call("POST", path, {}, body, once=once)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._call("PUT", path, {}, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._call("PATCH", path, {}, body)

    def delete(self, path: str, **query: Any) -> Any:
        return self._call("DELETE", path, query)

    def items(self, path: str, most: int, *, page: int = _PAGE, **query: Any) -> list[Any]:
        """The first items of a list, of as many pages as they take; `page` is the longest page of this list."""
        found: list[Any] = []
        cursor: str | None = None
        while len(found) < most:
            answer = self.get(path, limit=min(most - len(found), page), cursor=cursor, **query)
            found += answer["data"]
            cursor = answer.get("next")
            if cursor is None:
                break
        return found

    def events(self, **query: Any) -> Iterator[tuple[str, Fields]]:
        """The events of the installation as they happen: their types and their data."""
        head, lines = self._door.stream(_target("/api/events", query))
        if head.status != HTTPStatus.OK:
            raise self._refusal(head)
        kind = ""
        for line in lines:
            name, _, value = line.decode(errors="replace").rstrip("\r\n").partition(":")
            if name == "event":
                kind = value.strip()
            elif name == "data":
                yield kind, json.loads(value)

    def sleep(self, seconds: float) -> None:
        """Do nothing for a time."""
        self._door.sleep(seconds)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
        accept: int | None = None,
        once: str | None = None,
    ) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        reply = self._door.send(method, _target(path, query), sent, once)
        if not 200 <= reply.status < 300 and reply.status != accept:
            raise self._refusal(reply)
        return self._content(reply)

    def _content(self, reply: Reply) -> Any:
        try:
            return json.loads(reply.body)
        except ValueError:
            raise CommandFailed(
                f"{self.place} does not answer as Mainspring's HTTP API does (status {reply.status}, "
                f"{reply.media_type or 'no type'}); check --url.",
                TO_BE_CHANGED,
            ) from None

    def _refusal(self, reply: Reply) -> CommandFailed:
        """The sentence of an answer that is an error."""
        if 300 <= reply.status < 400:
            return CommandFailed(
                f"{self.place} redirects requests to another address; give that address as --url.", TO_BE_CHANGED
            )
        problem = self._content(reply)
        detail = problem.get("detail") if isinstance(problem, dict) else None
        if not isinstance(detail, str):
            return CommandFailed(f"{self.place} answers with status {reply.status}; check --url.", TO_BE_CHANGED)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            return CommandFailed(self._unauthorized(detail), TO_BE_CHANGED)
        code = _CODES.get(reply.status, RUNTIME_FAILURE)
        return CommandFailed(self._in_options(problem, detail), code)

    def _unauthorized(self, detail: str) -> str:
        if not detail.startswith(("An API key", "Unknown")):
            return detail
        return f"{(_WRONG_KEY if self._door.keyed else _NO_KEY).format(place=self.place)} {_MAKE_KEY}"

    def _in_options(self, problem: Mapping[str, Any], detail: str) -> str:
        """The sentence of a refused field, under the name of the option that has given it. A field of the data is a
        job's own: it may have the name of an option."""
        first = (problem.get("errors") or [{}])[0]
        where = str(first.get("field") or "")
        field = "" if where.startswith("data.") else where.rpartition(".")[2]
        option = self._named.get(field) or f"--{_CAPITAL.sub(lambda found: f'-{found[1].lower()}', field)}"
        if not field or (option not in self._options and field not in self._named):
            return detail
        return f"{option}: {first.get('detail') or detail}"


def path(*parts: str) -> str:
    """A path of the API; each part is quoted."""
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


def _target(path: str, query: Mapping[str, Any]) -> str:
    given = {name: _plain(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
