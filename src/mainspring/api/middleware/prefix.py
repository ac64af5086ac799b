"""The prefix under which the service is reached: of the application that mounts it, or of a proxy.

A mounted application finds its prefix in `root_path`, and the whole path in `path`. A proxy may pass the prefix on or
remove it; the setting MAINSPRING_PREFIX names it, and both ways are recognised.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


def path_of(scope: Scope) -> str:
    """The path of a request within the service."""
    path, root = str(scope["path"]), prefix_of(scope)
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


def prefix_of(scope: Scope) -> str:
    """The prefix of a request, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


class Prefix:
    """Puts the prefix of a proxy into the scope of each request, as a mounted application has it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._prefix:
            path, root = str(scope["path"]), self._prefix
            kept = path == root or path.startswith(f"{root}/")
            scope = {**scope, "root_path": root, "path": path if kept else root + path}
        await self._app(scope, receive, send)
