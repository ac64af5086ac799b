"""The attacks by area."""

from attack.areas import (
    answers,
    audit,
    bind,
    calls,
    documents,
    door,
    injection,
    keys,
    lists,
    machine,
    mails,
    pages,
    reach,
    secrets,
    slowness,
    streams,
    tenancy,
)

ORDER = (
    *(bind, door, reach, tenancy, streams, keys, calls, answers, injection, secrets, mails, lists, documents),
    *(audit, machine, pages, slowness),
)
"""As the table has them."""
NAMES = tuple(module.__name__.rpartition(".")[2] for module in ORDER)
