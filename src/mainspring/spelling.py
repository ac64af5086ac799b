"""Suggestions for names that callers misspell, or know from another tool.

`suggestion` and `did_you_mean` end the message about an unknown word. Calls of a `spelled` function, or of a class with
`spelled_verbs`, that have an unknown argument name the right one, where Python by itself says only that the argument is
unexpected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from mainspring.errors import ConfigurationError

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

# Names of other tools, and the names here: of several, the first one that the function in question has.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "acks_late": ("guarantee", "execution_type"),
    "args": ("data",),
    "arguments": ("data",),
    "at": ("run_at", "repeat"),
    "attempts": ("retry", "retry_attempts"),
    "autoretry_for": ("rules", "retry", "retry_on"),
    "coalesce": ("misfire",),
    "countdown": ("delay",),
    "cron": ("schedule", "repeat"),
    "crontab": ("schedule", "cron", "repeat"),
    "db": ("database",),
    "default_retry_delay": ("delay", "retry", "retry_delay"),
    "eta": ("run_at",),
    "every": ("repeat",),
    "expires": ("expires_at", "start_within"),
    "idempotency_key": ("dedupe_key",),
    "interval": ("every", "period", "repeat"),
    "kwargs": ("data",),
    "limit": ("concurrency",),
    "max_attempts": ("attempts", "retry", "retry_attempts"),
    "max_concurrency": ("concurrency",),
    "max_instances": ("overlap", "concurrency"),
    "max_retries": ("attempts", "retry", "retry_attempts"),
    "misfire_grace_time": ("misfire_grace",),
    "params": ("data", "query"),
    "payload": ("data", "body"),
    "rate_limit": ("rate",),
    "retries": ("attempts", "retry", "retry_attempts"),
    "retry": ("retry_attempts",),
    "retry_backoff": ("backoff", "retry"),
    "retry_delay": ("delay", "retry"),
    "rrule": ("repeat",),
    "scheduled_time": ("run_at",),
    "soft_time_limit": ("timeout",),
    "status": ("state",),
    "time_limit": ("timeout",),
    "time_zone": ("timezone",),
    "trigger": ("repeat", "schedule"),
    "tz": ("timezone",),
    "unique": ("dedupe_key",),
    "unique_key": ("dedupe_key",),
    "url": ("endpoint", "uri"),
    "when": ("run_at",),
    "workers": ("concurrency",),
}
# How to write the option, if the name alone does not show it.
_FORMS = {
    ("attempts", "retry"): "retry=Retry(attempts=…)",
    ("cron", "repeat"): 'repeat=Cron("0 9 * * *")',
    ("crontab", "repeat"): 'repeat=Cron("0 9 * * *")',
    ("every", "repeat"): 'repeat=Every("5m")',
    ("interval", "repeat"): 'repeat=Every("5m")',
    ("max_attempts", "retry"): "retry=Retry(attempts=…)",
    ("max_retries", "retry"): "retry=Retry(attempts=…)",
    ("retries", "retry"): "retry=Retry(attempts=…)",
    ("retry_backoff", "retry"): "retry=Retry(backoff=…)",
    ("retry_delay", "retry"): "retry=Retry(delay=…)",
    ("rrule", "repeat"): 'repeat=RRule("…")',
}
_ELSEWHERE = "__taken_elsewhere__"


def meant_by(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word probably stands for: by a synonym of another tool, or by its spelling. Words may be
    written with underscores or in camel case."""
    names = {_plain(name): name for name in known}
    plain = _plain(word)
    if plain in names:
        return names[plain]
    elsewhere = next((names[one] for one in _SYNONYMS.get(plain, ()) if one in names), None)
    close = elsewhere or next(iter(get_close_matches(word, sorted(names.values()), 1)), None)
    return close or next((names[one] for one in get_close_matches(plain, sorted(names), 1)), None)


def suggestion(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown word: the known word that was probably meant, or all known words."""
    meant = meant_by(word, known)
    if meant is None:
        return f" Known are: {', '.join(known)}."
    form = _FORMS.get((_plain(word), meant))
    return f" Did you mean {form or repr(meant)}?"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the closest known word, if one is close."""
    names = sorted(known)
    close = get_close_matches(word, names, 1)
    return f" Did you mean {close[0]!r}?" if close and word not in names else ""


def taken_elsewhere(words: Iterable[str], cure: str) -> Callable[[F], F]:
    """Mark a method: a call with one of these arguments is refused with the cure, in which `{word}` is the argument."""

    def mark(function: F) -> F:
        function.__dict__[_ELSEWHERE] = dict.fromkeys(words, cure)
        return function

    return mark


def spelled(function: F, what: str | None = None) -> F:
    """The function; a call with an unknown argument raises an error that names the known ones."""
    called = what or f"{function.__name__}()"
    signature = inspect.signature(function)
    cures: dict[str, str] = function.__dict__.get(_ELSEWHERE, {})

    def raise_refusal(args: Sequence[Any], kwargs: Iterable[str]) -> None:
        refusal = _refusal(called, signature, args, kwargs, cures)
        if refusal is not None:
            raise refusal from None

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            try:
                running = function(*args, **kwargs)
            except TypeError:
                raise_refusal(args, kwargs)
                raise
            return await running

        return wait  # type: ignore[return-value]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            raise_refusal(args, kwargs)
            raise

    return call  # type: ignore[return-value]


def spelled_class(cls: C) -> C:
    """The class; a constructor call with an unknown argument raises an error that names the known ones."""
    cls.__init__ = spelled(cls.__init__, cls.__name__)  # type: ignore[misc]
    return cls


def spelled_verbs(cls: C) -> C:
    """The class with all of its public methods `spelled`, those of its bases included."""
    for name in dir(cls):
        function = inspect.getattr_static(cls, name)
        if not name.startswith("_") and inspect.isfunction(function):
            setattr(cls, name, spelled(function))
    return cls


def _refusal(
    what: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Iterable[str], cures: Mapping[str, str]
) -> ConfigurationError | None:
    """The error for a call with too many or unknown arguments; None for any other call."""
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [one.name for one in parameters if one.kind in by_name]
    unknown = next((name for name in kwargs if name not in named), None)
    if unknown is not None and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        cure = cures[unknown].replace("{word}", unknown) if unknown in cures else suggestion(unknown, named)
        return ConfigurationError(f"{what} has no argument {unknown!r}.{cure}")
    places = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    given = len(args) - ("self" in signature.parameters)
    if given > len(places) and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        others = ", ".join(f"{name}=…" for name in named if name not in places)
        return ConfigurationError(f"{what} takes its arguments by name: {others or 'there are none'}.")
    return None


def _plain(word: str) -> str:
    """A name in small letters with underscores."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word).strip("_")
