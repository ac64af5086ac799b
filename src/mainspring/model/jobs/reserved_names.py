"""The names and queues of the jobs that Mainspring runs itself, and what they need before they can run. Pure."""

from __future__ import annotations

RESERVED = "mainspring:"
"""Names that begin so are Mainspring's own."""
HTTP, EMAIL = "mainspring:http", "mainspring:email"
QUEUES = {HTTP: "http", EMAIL: "email"}
_CURES = {
    HTTP: "Webhooks are sent by `mainspring up`, or a worker that has called add_builtin_handlers().",
    EMAIL: "Set MAINSPRING_SMTP_URL, such as smtps://user:password@mail.example.com:465, where the worker is started.",
}


def cure_for(name: str) -> str | None:
    """The cure when no worker has a handler for this name; None where that is up to the user's own code."""
    return _CURES.get(name)
