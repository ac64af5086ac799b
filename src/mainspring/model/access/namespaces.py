"""Namespaces: the names that a key with a scope may choose, apart from all names that other callers choose. Pure.

Ids of schedules, names of calendars and dedupe keys are one namespace for the library and for keys without a scope. A
key with a scope chooses its names below the queue and the prefix of names through which it reaches a resource, so that
it neither collides with a resource out of its scope nor learns whether that exists:

    a key for the queue billing                       billing:nightly
    a key for names that begin with report.           :report.:nightly
    a key for such names in the queue billing         billing:report.:nightly

Keys that reach a resource through the same queue and prefix share its namespace, whatever else they reach. Queue and
prefix are escaped and the last part has no colon, so that no two namespaces have a name in common.
"""

from __future__ import annotations

from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import Scope
from mainspring.model.limits.data_paths import name_part

_DIVIDER = "\x1f"
"""Separates a namespace and a dedupe key in the database; a caller's dedupe key cannot contain it."""


def namespace_of(scope: Scope, queue: str, name: str) -> str | None:
    """The namespace of a resource with this queue and name, which the scope allows; None for a scope of everything."""
    if scope.everything:
        return None
    own = "" if scope.queues is None else name_part(queue)
    if scope.prefixes is None:
        return f"{own}:"
    # The widest prefix, so that a narrower one beside it makes no difference.
    widest = min((one for one in scope.prefixes if name.startswith(one)), key=len)
    return f"{own}:{name_part(widest)}:"


def is_named_in(namespace: str, name: str) -> bool:
    """Whether a name belongs to a namespace."""
    rest = name.removeprefix(namespace)
    return rest != name and rest != "" and ":" not in rest


def has_name(scope: Scope, name: str) -> bool:
    """Whether a name belongs to a namespace of this scope; everything is one namespace."""
    if scope.everything:
        return True
    parts = name.split(":")
    if len(parts) != (2 if scope.prefixes is None else 3) or not parts[-1]:
        return False
    queue_fits = parts[0] == "" if scope.queues is None else parts[0] in map(name_part, scope.queues)
    return queue_fits and (scope.prefixes is None or parts[1] in map(name_part, scope.prefixes))


def example_name(scope: Scope) -> str:
    """A name that a key with this scope may choose."""
    queue = "" if scope.queues is None else f"{name_part(scope.queues[0])}"
    prefix = "" if scope.prefixes is None else f"{name_part(scope.prefixes[0])}:"
    return f"{queue}:{prefix}nightly"


def dedupe_key_in(namespace: str | None, key: str) -> str:
    """A dedupe key as it is stored."""
    if namespace is None:
        return key
    if not isinstance(namespace, str) or not namespace.isprintable():
        raise ConfigurationError(f"dedupe_namespace must be printable text, not {namespace!r:.100}.")
    return f"{namespace}{_DIVIDER}{key}"


def dedupe_key_shown(stored: Any) -> Any:
    """A dedupe key as its caller chose it; any other value, which another program may have stored, as it is."""
    return stored.rpartition(_DIVIDER)[2] if isinstance(stored, str) else stored
