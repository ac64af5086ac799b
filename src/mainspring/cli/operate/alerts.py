"""`mainspring alerts`: alert rules, with the states of their alerts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.choices import Reason
from mainspring.cli.support.exit_codes import NOT_FOUND, RUNTIME_FAILURE, TO_BE_CHANGED, CommandFailed, say
from mainspring.cli.terminal.output import Columns, cell, print_text
from mainspring.model.alerts.rule import KINDS
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import PENDING
from mainspring.spelling import did_you_mean

alerts = typer.Typer(
    help="Alert rules: messages about dead letters, missed firings, late queues, missing workers and open breakers.",
    no_args_is_help=True,
)

_LONGEST_TEST = 30.0
_OPTIONS = {
    "queues": "--queue",
    "prefixes": "--prefix",
    "queue": "--send-in",
    "sendResolved": "--resolved",
    "enabled": "--enable",
    "duration": "--for",
}
"""The options whose fields have other names."""

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The id of the rule, or its name.")]
Email = Annotated[list[str] | None, typer.Option("--email", metavar="ADDRESS", help="Send to this address.")]
Webhook = Annotated[list[str] | None, typer.Option("--webhook", metavar="URL", help="Send JSON to this URL.")]
Chat = Annotated[
    list[str] | None,
    typer.Option("--chat", metavar="URL", help="Send to this chat: https://hooks.slack.com/secret://NAME."),
]
Queues = Annotated[list[str] | None, typer.Option("--queue", help="Only this queue.")]
Prefixes = Annotated[list[str] | None, typer.Option("--prefix", help="Only jobs whose names begin with this.")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="TIME", help="How long the problem must last before it counts, such as 5m."),
]
Threshold = Annotated[int | None, typer.Option("--threshold", help="For dead_letters: how many trigger the alert.")]
Within = Annotated[
    str | None,
    typer.Option("--within", metavar="TIME", help="For dead_letters: the span of time in which they are counted."),
]
Window = Annotated[
    str | None, typer.Option("--group-window", metavar="TIME", help="How long to gather subjects for one message.")
]
Repeat = Annotated[
    str | None,
    typer.Option("--repeat-every", metavar="TIME", help="How often to repeat the message of an alert that goes on."),
]
Resolved = Annotated[
    bool | None, typer.Option("--resolved/--no-resolved", help="Whether to send a message when the alert is over.")
]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether the rule is evaluated.")]
SendIn = Annotated[
    str | None, typer.Option("--send-in", metavar="QUEUE", help="The queue of the jobs that send the messages.")
]


def _status(rule: Any) -> str:
    return str(rule["status"]) if rule["enabled"] else "disabled"


def _place(destination: Any) -> str:
    return str(destination.get("url") or " ".join(destination.get("to") or ()))


_LIST: Columns = {
    "ID": lambda one: one["id"],
    "NAME": lambda one: one["name"],
    "KIND": lambda one: one["kind"],
    "STATUS": _status,
    "TO": lambda one: [_place(to) for to in one["to"]],
}
_TESTS: Columns = {
    "TO": lambda one: _place(one["to"]),
    "JOB": lambda one: one["jobId"],
    "STATE": lambda one: one["state"],
    "ERROR": lambda one: one["error"],
}


@alerts.command("list")
@operating
def list_rules(call: Call) -> None:
    """List the alert rules with the states of their alerts."""
    call.table(call.api.get("/api/alerts")["data"], _LIST, "There are no alert rules.", ("KIND",))


@alerts.command()
@operating
def show(call: Call, rule: RuleArgument) -> None:
    """Show a rule: its options, and the subjects of its alert."""
    call.document(_named(call, rule), _print)


@alerts.command()
@operating(named=_OPTIONS)
def add(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that the messages show.")],
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")],
    email: Email = None,
    webhook: Webhook = None,
    chat: Chat = None,
    queue: Queues = None,
    prefix: Prefixes = None,
    after: After = None,
    threshold: Threshold = None,
    within: Within = None,
    group_window: Window = None,
    repeat_every: Repeat = None,
    resolved: Resolved = None,
    send_in: SendIn = None,
) -> None:
    """Add a rule, with at least one of --email, --webhook and --chat."""
    to = _to(email, webhook, chat)
    if not to:
        raise CommandFailed("The rule has no destination: give --email, --webhook or --chat.", TO_BE_CHANGED)
    body = _given(
        name=name,
        kind=kind,
        to=to,
        queues=queue,
        prefixes=prefix,
        after=after,
        threshold=threshold,
        within=within,
        groupWindow=group_window,
        repeatEvery=repeat_every,
        sendResolved=resolved,
        queue=send_in,
    )
    call.document(call.api.post("/api/alerts", body)["data"], _print)


@alerts.command()
@operating(named=_OPTIONS)
def edit(
    call: Call,
    rule: RuleArgument,
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    email: Email = None,
    webhook: Webhook = None,
    chat: Chat = None,
    queue: Queues = None,
    prefix: Prefixes = None,
    after: After = None,
    threshold: Threshold = None,
    within: Within = None,
    group_window: Window = None,
    repeat_every: Repeat = None,
    resolved: Resolved = None,
    enabled: Enabled = None,
    send_in: SendIn = None,
) -> None:
    """Change a rule. Options that you do not give stay as they are. --email, --webhook and --chat replace all
    destinations."""
    body = _given(
        name=name,
        to=_to(email, webhook, chat) or None,
        queues=queue,
        prefixes=prefix,
        after=after,
        threshold=threshold,
        within=within,
        groupWindow=group_window,
        repeatEvery=repeat_every,
        sendResolved=resolved,
        enabled=enabled,
        queue=send_in,
    )
    call.document(call.api.patch(_path(call, rule), body)["data"], _print)


@alerts.command()
@operating(named=_OPTIONS)
def silence(
    call: Call,
    rule: RuleArgument,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long, such as 2h.")] = None,
    off: Annotated[bool, typer.Option("--off", help="End the silence.")] = False,
    reason: Reason = "",
) -> None:
    """Let a rule send no messages for some time, or end the silence with --off."""
    if (duration is None) != off:
        raise typer.BadParameter("give --for TIME, or --off")
    where = _path(call, rule)
    if off:
        found = call.api.post(f"{where}/unsilence")
    else:
        found = call.api.post(f"{where}/silence", {"duration": duration, "reason": reason})
    call.document(found["data"], _print)


@alerts.command()
@operating
def test(
    call: Call,
    rule: RuleArgument,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.0, max=_LONGEST_TEST, help="How many seconds to wait.")
    ] = 10.0,
) -> None:
    """Send one message, marked as a test, to each destination of a rule. A worker sends it. If no live worker can, the
    service does, or this command when it works on a database. Exit with 1 if a message does not arrive."""
    outcomes = call.api.post(f"{_path(call, rule)}/test", {"timeout": f"{round(timeout * 1000)}ms"})["data"]
    call.table(outcomes, _TESTS, "")
    if any(one["state"] == PENDING for one in outcomes):
        say(
            "A message is pending: a worker will make the next attempt. Email needs MAINSPRING_SMTP_URL, in a worker "
            "or where the test is sent."
        )
    if not all(one["arrived"] for one in outcomes):
        raise typer.Exit(RUNTIME_FAILURE)


@alerts.command()
@operating
def delete(call: Call, rule: RuleArgument) -> None:
    """Delete a rule."""
    gone = call.api.delete(_path(call, rule))["data"]
    call.done(gone, f"The alert rule {gone['name']} is deleted.")


def _path(call: Call, rule: str) -> str:
    return path("alerts", _named(call, rule)["id"])


def _named(call: Call, name: str) -> Any:
    """The rule with this id, or the only one with this name."""
    found = call.api.get("/api/alerts")["data"]
    fitting = [one for one in found if one["id"] == name] or [one for one in found if one["name"] == name]
    if len(fitting) > 1:
        ids = ", ".join(one["id"] for one in fitting)
        raise CommandFailed(f"{len(fitting)} alert rules have the name {name!r}; give the id: {ids}.", TO_BE_CHANGED)
    if not fitting:
        cure = did_you_mean(name, [one["name"] for one in found])
        raise CommandFailed(f"There is no alert rule {name!r}.{cure}", NOT_FOUND)
    return fitting[0]


def _given(**fields: Any) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _to(email: list[str] | None, webhook: list[str] | None, chat: list[str] | None) -> list[Fields]:
    urls = [(kind, url) for kind, given in (("webhook", webhook), ("chat", chat)) for url in given or ()]
    return [*([{"type": "email", "to": email}] if email else ()), *({"type": kind, "url": url} for kind, url in urls)]


def _print(rule: Any) -> None:
    to = cell([_place(one) for one in rule["to"]])
    print_text(f"{cell(rule['name'])} ({rule['kind']}, {cell(rule['id'])}) is {_status(rule)}; it tells {to}")
    for subject in rule["subjects"]:
        print_text(cell(f"- {subject['text']} (since {subject['since']})"))
    if rule["silence"] is not None:
        print_text(cell(f"Silenced until {rule['silence']['until']}: {rule['silence']['reason'] or 'no reason'}"))
