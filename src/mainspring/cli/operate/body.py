"""The options of `jobs add` and `schedules add`: the fields of `POST /api/jobs`, one option each.

A table says for each field its option, how its text is read, and its help. So whatever the HTTP API can say, a command
can say; `--set` names a field that has no option of its own.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from mainspring.cli.support.exit_codes import CommandFailed
from mainspring.cli.terminal.times import instant
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.schedules.firing_plan import MISFIRES, OVERLAPS
from mainspring.spelling import did_you_mean

Reader = Callable[[Any, str], Any]
GUARANTEES = ("at_least_once", "at_most_once", "exactly_once")


def one_of(value: str | None, known: tuple[str, ...], option: str) -> str | None:
    """A word of a known list; the error for another names the closest."""
    if value is not None and value not in known:
        raise ConfigurationError(
            f"{option} must be one of {', '.join(known)}, not {value!r}.{did_you_mean(value, list(known))}"
        )
    return value


def read_json(text: str, option: str) -> Any:
    """JSON that an option gives: as it is, from a file as @FILE, or from stdin as -."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text("utf-8")
        return json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"{option}: the file {text[1:]!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigurationError(
            f'{option} is not valid JSON: {error}. Quote it for the shell, as in {option} \'{{"to": "ann"}}\'.'
        ) from None


def read_object(text: str, option: str) -> Fields:
    """A JSON object that an option gives."""
    value = read_json(text, option)
    if not isinstance(value, dict):
        raise ConfigurationError(f'{option} must be a JSON object, such as \'{{"to": "ann"}}\', not {text!r}.')
    return value


def read_pairs(texts: list[str], option: str) -> dict[str, str]:
    """Texts such as NAME=VALUE as a mapping."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise ConfigurationError(f"{option} must be NAME=VALUE, not {name!r}.")
    return {name: value for name, _, value in pairs}


def _read_set(texts: list[str], option: str) -> Fields:
    """Fields with JSON values; a value that is not JSON is text."""
    read: Fields = {}
    for name, value in read_pairs(texts, option).items():
        try:
            read[name] = json.loads(value)
        except ValueError:
            read[name] = value
    return read


def _as_is(value: Any, option: str) -> Any:
    return value


def _word(*known: str) -> Reader:
    return lambda value, option: one_of(value, known, option)


def _encrypted(texts: list[str], option: str) -> bool | list[str]:
    return True if texts == ["all"] else texts


def _rules(texts: list[str], option: str) -> list[Fields]:
    return [read_object(text, option) for text in texts]


def _statuses(texts: list[str], option: str) -> list[Any]:
    return [int(text) if text.isdigit() else text for text in texts]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the body, and the option that gives it."""

    name: str
    options: tuple[str, ...]
    help: str
    kind: Any = str
    read: Reader = _as_is
    panel: str | None = None

    def parameter(self) -> inspect.Parameter:
        option = typer.Option(*self.options, help=self.help, rich_help_panel=self.panel)
        return inspect.Parameter(
            f"field_{self.name}".replace(".", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[self.kind | None, option],
        )


_WEBHOOK, _RULE, _POLICY = "Webhook", "Rule", "Policies of the schedule"

WORK = (
    Field("data", ("--data",), "The data of the job as JSON; @FILE reads a file, - reads stdin.", read=read_object),
    Field("queue", ("--queue",), "The queue (default: default)."),
    Field("priority", ("--priority",), "1 (first) to 10 (last) (default: 5).", int),
    Field("tags", ("--tag",), "A tag; may be repeated.", list[str]),
    Field("timeout", ("--timeout",), "How long one attempt may take, such as 5m."),
    Field("retryAttempts", ("--retries",), "How many further attempts after the first.", int),
    Field("retryDelay", ("--retry-delay",), "The delay before the second attempt, such as 5s; later delays grow."),
    Field(
        "executionType",
        ("--guarantee",),
        f"{', '.join(GUARANTEES)}.",
        read=lambda value, option: str(one_of(value, GUARANTEES, option)).upper(),
    ),
    Field("startWithin", ("--start-within",), "How late the job may start, such as 30m; after that, it expires."),
    Field("label", ("--label",), "A label for the job, in addition to its name."),
    Field("dataVersion", ("--data-version",), "The payload version of the data.", int),
    Field(
        "type",
        ("--type",),
        "http, email or job; by default derived from the other options.",
        read=_word("http", "email", "job"),
    ),
    Field("endpoint", ("--endpoint",), "The URL that a webhook calls.", panel=_WEBHOOK),
    Field("method", ("--method",), "POST by default.", panel=_WEBHOOK),
    Field("headers", ("--header",), "NAME=VALUE; may be repeated.", list[str], read_pairs, _WEBHOOK),
    Field("query", ("--query",), "NAME=VALUE; may be repeated.", list[str], read_pairs, _WEBHOOK),
    Field("body", ("--body",), "The body as JSON; @FILE, or - for stdin.", read=read_json, panel=_WEBHOOK),
    Field(
        "success", ("--success",), "A status that counts as success; may be repeated.", list[str], _statuses, _WEBHOOK
    ),
    Field(
        "retryOn",
        ("--retry-on",),
        "When to retry: a status, 5xx, network or all; may be repeated.",
        list[str],
        _statuses,
        _WEBHOOK,
    ),
    Field(
        "templates",
        ("--templates/--no-templates",),
        "Whether to fill in templates such as {{data.id}}.",
        bool,
        panel=_WEBHOOK,
    ),
    Field("redirects", ("--redirects",), "How many redirects to follow, up to 3.", int, panel=_WEBHOOK),
    Field(
        "signWith", ("--sign-with",), "The name of a secret to sign with; may be repeated.", list[str], panel=_WEBHOOK
    ),
    Field(
        "",
        ("--set",),
        "FIELD=JSON: any other field of POST /api/jobs, such as repeat.after; may be repeated.",
        list[str],
        _read_set,
    ),
)
ONE_JOB = (
    Field("delay", ("--delay",), "Due after this time, such as 5m."),
    Field("runAt", ("--at", "--run-at"), "Due at this instant, such as 2030-12-24T18:00:00Z.", read=instant),
    Field("expiresAt", ("--expires-at",), "The job does not start after this instant.", read=instant),
    Field("dedupeKey", ("--dedupe-key",), "While a job with this key is live, no other is created."),
    Field("dedupeWindow", ("--dedupe-window",), "How long the key applies, such as 1h, even after the job's end."),
    Field("debounce", ("--debounce",), "With a key: due once no further call has come for this time, such as 5s."),
    Field("debounceMax", ("--debounce-max",), "With --debounce: due at the latest after this time."),
    Field("throttle", ("--throttle",), "With a key: at most one job in this time, such as 1m."),
    Field("encrypt", ("--encrypt",), "A path in the data to encrypt, or all; may be repeated.", list[str], _encrypted),
)
RULE = (
    Field("repeat.cron", ("--cron",), "A cron expression, such as '0 9 * * MON-FRI'.", panel=_RULE),
    Field("repeat.every", ("--every",), "A period, such as 5m.", panel=_RULE),
    Field(
        "repeat.after",
        ("--after",),
        "start or end: whether --every counts from the start or the end of a run.",
        read=_word("start", "end"),
        panel=_RULE,
    ),
    Field("repeat.anchor", ("--anchor",), "An instant from which --every counts.", read=instant, panel=_RULE),
    Field("repeat.rrule", ("--rrule",), "A recurrence rule (RFC 5545).", panel=_RULE),
    Field("repeat.start", ("--rrule-start",), "The DTSTART of --rrule.", read=instant, panel=_RULE),
    Field(
        "repeat.any",
        ("--any",),
        "A rule as JSON; may be repeated. The schedule fires when any of the rules does.",
        list[str],
        _rules,
        _RULE,
    ),
    Field(
        "repeat.gap",
        ("--gap",),
        "For a wall time that a clock change skips: after (fire after the gap) or skip.",
        panel=_RULE,
    ),
    Field("repeat.fold", ("--fold",), "For a wall time that occurs twice: first, last or both.", panel=_RULE),
    Field("repeat.then", ("--then",), "For a firing on a day of --except: skip, next or previous.", panel=_RULE),
    Field("repeat.at", ("--on",), "An instant to fire at; may be repeated.", list[str], panel=_RULE),
    Field("repeat.timezone", ("--timezone", "--zone"), "The time zone, such as Europe/Paris.", panel=_RULE),
    Field(
        "repeat.except", ("--except",), "A calendar whose days are left out; may be repeated.", list[str], panel=_RULE
    ),
    Field("startAt", ("--start-at",), "No firing before this instant.", read=instant, panel=_RULE),
    Field("endAt", ("--end-at",), "No firing after this instant.", read=instant, panel=_RULE),
    Field(
        "jitter", ("--jitter",), "Delay each firing by up to this time, such as 2m, to spread the load.", panel=_RULE
    ),
)
POLICIES = (
    Field("maxRuns", ("--max-runs",), "The maximum number of jobs that its firings make.", int, panel=_POLICY),
    Field("misfire", ("--misfire",), f"{', '.join(MISFIRES)}.", read=_word(*MISFIRES), panel=_POLICY),
    Field("misfireGrace", ("--misfire-grace",), "How late a firing may be before it counts as missed.", panel=_POLICY),
    Field(
        "misfireLimit", ("--misfire-limit",), "The maximum number of missed firings to make up for.", int, panel=_POLICY
    ),
    Field(
        "startDeadline",
        ("--start-deadline",),
        "The maximum age of a missed firing that still gets a job.",
        panel=_POLICY,
    ),
    Field("overlap", ("--overlap",), f"{', '.join(OVERLAPS)}.", read=_word(*OVERLAPS), panel=_POLICY),
    Field(
        "pauseAfter",
        ("--pause-after",),
        "Pause the schedule after this many consecutive failed runs.",
        int,
        panel=_POLICY,
    ),
)


def bodied(*fields: Field) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of these fields to a command, which takes the `body` that they make. `operating` reads from
    `field_options` which option gives which field."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = {one.parameter().name: one for one in fields}

        @wraps(command)
        def run(*args: Any, **given: Any) -> None:
            values = {field: given.pop(name, None) for name, field in parameters.items()}
            command(*args, body=make_body(values), **given)

        run.field_options = {  # type: ignore[attr-defined]
            one.name.rpartition(".")[2]: one.options[0] for one in fields
        }
        own = inspect.signature(command, eval_str=True)
        kept = [one for name, one in own.parameters.items() if name != "body"]
        run.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*kept, *(one.parameter() for one in fields)]
        )
        return run

    return decorate


def make_body(values: dict[Field, Any]) -> Fields:
    """The body of a request from the values of its options."""
    body: Fields = {}
    for field, value in values.items():
        if value is None or value == []:
            continue
        read = field.read(value, field.options[0])
        for name, one in ({field.name: read} if field.name else read).items():
            _put(body, name, one)
    return body


def _put(body: Fields, name: str, value: Any) -> None:
    """Put a value into the body; `repeat.cron` is the field `cron` in `repeat`."""
    group, dot, field = name.partition(".")
    inner = body.setdefault(group, {}) if dot else body
    if isinstance(inner, dict):
        inner[field if dot else group] = value


def with_name(body: Fields, name: str | None) -> Fields:
    """The body with the job's name, which only a webhook or an email may lack."""
    if name is None and not {"endpoint", "type"} & body.keys():
        raise CommandFailed("Name the job's handler, or give --endpoint for a webhook, or --type email.", 2)
    return body if name is None else {"name": name, **body}
