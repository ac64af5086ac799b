"""Errors as answers: one shape for all of them, RFC 9457 problem details, with the field and the cure.

A wrong request is answered with a 4xx that names the cure, and with 503 while MongoDB is unavailable. Every problem
also has `success: false` and `error`, which the clients of older services read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from mainspring.api.request_faults import faults_of
from mainspring.api.wire.base import In
from mainspring.errors import (
    AlertRuleNotFound,
    AuditKeyMissing,
    CalendarNotFound,
    ConfigurationError,
    FlowNotFound,
    JobNotFound,
    JobStateError,
    KeyNotFound,
    MainspringError,
    MalformedDocument,
    OperationNotFound,
    QueueFull,
    RedriveNotFound,
    ScheduleNotFound,
    ScheduleStateError,
    SecretNotFound,
    Unavailable,
    UnsupportedServer,
    WorkerNotFound,
    WorkerStateError,
)
from mainspring.model.fields import Fields

MEDIA_TYPE = "application/problem+json"
_BACK_SOON = 2
_FIRST_WORD = re.compile(r"[a-z]\w*")
# Not in quotes, where a message has the caller's own words.
_SNAKE_WORDS = re.compile(r"(?<!['\"\w])[a-z]+(?:_[a-z]+)+(?!['\"\w])")

# The most specific class first: the first that matches decides.
_STATUSES: Sequence[tuple[type[Exception], int]] = (
    (JobNotFound, 404),
    (FlowNotFound, 404),
    (ScheduleNotFound, 404),
    (CalendarNotFound, 404),
    (RedriveNotFound, 404),
    (OperationNotFound, 404),
    (WorkerNotFound, 404),
    (SecretNotFound, 404),
    (AlertRuleNotFound, 404),
    (KeyNotFound, 404),
    (JobStateError, 409),
    (MalformedDocument, 409),
    (ScheduleStateError, 409),
    (WorkerStateError, 409),
    (QueueFull, 429),
    (Unavailable, 503),
    (UnsupportedServer, 501),
    (AuditKeyMissing, 500),
    (ConfigurationError, 422),
)

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Problem(Exception):
    """An answer that is an error: the status, the cause with its cure, and the field."""

    def __init__(
        self, status: int, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


def document(status: int, detail: str, errors: Sequence[Mapping[str, Any]] = ()) -> Fields:
    """The body of a problem."""
    title = HTTPStatus(status).phrase
    body: Fields = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    # The fields that clients of the older services read.
    body |= {"success": False, "error": detail}
    return body | ({"errors": list(errors)} if errors else {})


def answer(problem: Problem) -> JSONResponse:
    """A problem as a response."""
    errors = [] if problem.field is None else [{"field": problem.field, "detail": problem.detail}]
    return JSONResponse(
        document(problem.status, problem.detail, errors), problem.status, problem.headers, media_type=MEDIA_TYPE
    )


def as_problem(error: MainspringError) -> Problem:
    """The problem that a client gets for an error of the library."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    soon = {"Retry-After": str(_BACK_SOON)} if status in (429, 503) else {}
    if status == 503:
        return Problem(503, "MongoDB cannot be reached at present; try again in a moment.", headers=soon)
    if isinstance(error, ConfigurationError) and status == 422:
        text, field = on_the_wire(str(error))
        return Problem(status, text, field=field)
    return Problem(status, str(error), headers=soon)


def on_the_wire(text: str, names: Mapping[str, str] | None = None) -> tuple[str, str | None]:
    """A message of the library with the API's names of fields (`run_at` is called runAt here), and the field that it is
    about: the first of them, or the word with which it begins. `names` has fields that are called something else."""
    words = {**_names(), **(names or {})}
    found = [words[word] for word in _SNAKE_WORDS.findall(text) if word in words]
    begins = _FIRST_WORD.match(text)
    if begins is not None and begins[0] in words.values():
        found.append(begins[0])
    return _SNAKE_WORDS.sub(lambda word: words.get(word[0], word[0]), text), next(iter(found), None)


def _names() -> dict[str, str]:
    """The names on the wire of all fields of requests, by those in the library."""
    fields = (one for model in _below(In) for one in model.model_fields.items())
    return {name: field.alias for name, field in fields if field.alias is not None}


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in model.__subclasses__():
        yield one
        yield from _below(one)


def add_handlers(app: FastAPI) -> None:
    """Add the handlers that answer every foreseen error of an app as a problem; `Faults` answers the others."""

    @app.exception_handler(Problem)
    async def _problem(request: Request, error: Problem) -> JSONResponse:
        return answer(error)

    @app.exception_handler(MainspringError)
    async def _library(request: Request, error: MainspringError) -> JSONResponse:
        return answer(as_problem(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return _refused(error, _body_of(request))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return answer(_no_such_method(request))
        return answer(Problem(error.status_code, str(error.detail), headers=error.headers))


def _no_such_method(request: Request) -> Problem:
    """The refusal of a method. A path has one route per method, and the framework would name those of one only."""
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    methods = [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)
    ]
    takes = ", ".join(methods)
    return Problem(405, f"This path has no method {request.method}; it takes {takes}.", headers={"Allow": takes})


def _body_of(request: Request) -> type[BaseModel] | None:
    """The expected body of a request, if its endpoint takes one."""
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation = None if field is None else field.field_info.annotation
    kinds = (annotation, *get_args(annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _refused(error: RequestValidationError, body: type[BaseModel] | None) -> JSONResponse:
    """The answer with the faults of a request, field by field, without its values: they may be secrets."""
    broken = next((one for one in error.errors() if one["type"] == "json_invalid"), None)
    if broken is not None:
        why = f"The body is not valid JSON, at character {broken['loc'][-1]}: {broken['ctx']['error']}."
        return JSONResponse(document(400, why), 400, media_type=MEDIA_TYPE)
    errors = faults_of(error.errors(), error.body, body)
    first = errors[0] if errors else {"field": "", "detail": "The request cannot be read."}
    detail = f"{first['field']}: {first['detail']}" if first["field"] else str(first["detail"])
    return JSONResponse(document(422, detail, errors), 422, media_type=MEDIA_TYPE)
