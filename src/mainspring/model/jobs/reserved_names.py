"""The names and queues of the jobs that Mainspring runs itself, and the set-up that they need. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.spelling import did_you_mean

RESERVED = "mainspring:"
"""The prefix of Mainspring's own names."""
HTTP, EMAIL = "mainspring:http", "mainspring:email"
FLOW, MAP, BATCH = "mainspring:flow", "mainspring:map", "mainspring:batch"
"""The root of a declared flow, a node that makes a job for each item, the root of a batch. Every worker runs them."""
FLOW_NAMES = (FLOW, MAP, BATCH)
ROOT_NAMES = (FLOW, BATCH)
QUEUES = {HTTP: "http", EMAIL: "email"}
_SENDERS = "`mainspring up`, `mainspring worker` without a module, or a worker that has called scheduler.outgoing()"
_CURES = {
    HTTP: f"{_SENDERS}, sends webhooks.",
    EMAIL: "Set MAINSPRING_SMTP_URL, such as smtps://user:password@mail.example.com:465, where the worker is started. "
    f"{_SENDERS}, sends mail.",
    **dict.fromkeys(FLOW_NAMES, "Flows are run by every worker of a version that has them; start one for its queue."),
}


def cure_for(name: str) -> str | None:
    """The cure when no worker has a handler for this name; None where the user's own code has to have one."""
    return _CURES.get(name)


def hint_for(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that no worker has a handler for this name: the cure, or the known name that is close."""
    cure = cure_for(name)
    return did_you_mean(name, known) if cure is None else f" {cure}"
