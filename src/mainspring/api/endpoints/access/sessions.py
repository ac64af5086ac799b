"""Sessions over HTTP: a client exchanges its key for a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, Request, Response

from mainspring.api.dependencies import Viewer
from mainspring.api.middleware.authentication import (
    BY_KEY,
    BY_SESSION,
    check_same_site,
    cookie_name,
    needs_tls,
    unknown,
)
from mainspring.api.wire.access import SessionFacts
from mainspring.api.wire.base import Answer

router = APIRouter(tags=["access"])


@router.get("/api/session", summary="Get the caller of this request")
async def get_session(caller: Viewer, request: Request) -> Answer[SessionFacts]:
    """Return the caller of this request, how it was authenticated, and its rights. A session also gets its CSRF
    token."""
    token = None
    if caller.principal.way == BY_SESSION:
        token = caller.service.authenticator.csrf_token(request.cookies[cookie_name(request)])
    return Answer(data=SessionFacts.of(caller.principal, token))


@router.post("/api/session", status_code=201, summary="Log in")
async def open_session(caller: Viewer, request: Request, response: Response) -> Answer[SessionFacts]:
    """Exchange the API key in the Authorization header for a session cookie. Requests that change something must then
    send `csrfToken` in the header X-Csrf-Token."""
    principal, authenticator = caller.principal, caller.service.authenticator
    if principal.way != BY_KEY or principal.key is None:
        raise unknown("A session is opened with an API key.")
    caller.check_current()
    check_same_site(request)
    lasts = timedelta(hours=caller.service.settings.session_hours)
    text, session = authenticator.open_session(principal.key, lasts)
    await caller.note_sampled(
        caller.service.trail.sessions, "session.open", principal.key.id, after={"expiresAt": session.expires_at}
    )
    _set_cookie(request, response, text, int(lasts.total_seconds()))
    opened = replace(principal, way=BY_SESSION, session=session)
    return Answer(data=SessionFacts.of(opened, authenticator.csrf_token(text)))


@router.delete("/api/session", status_code=204, summary="Log out")
async def close_session(caller: Viewer, request: Request, response: Response) -> None:
    """End the session in every process of the service and delete its cookie in the browser. A copy of the cookie is
    no longer valid, and streams that were opened with it end."""
    session = caller.principal.session or caller.service.authenticator.session_in(request)
    if session is not None:
        await caller.backend.close_session(session.id, session.expires_at)
    await caller.note_sampled(caller.service.trail.sessions, "session.close", caller.actor)
    _set_cookie(request, response, "", 0)


def _set_cookie(request: Request, response: Response, value: str, lasts: int) -> None:
    response.set_cookie(
        cookie_name(request),
        value,
        max_age=lasts,
        path="/",
        secure=needs_tls(request),
        httponly=True,
        samesite="strict",
    )
