"""`mainspring alerts`: alert rules, for an operator with access to the database."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from mainspring.cli.support.database import actor, on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, say
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.terminal.output import print_table
from mainspring.client.alerts.trial import AlertTest
from mainspring.client.alerts.watch import AlertWatch
from mainspring.client.outgoing.settings import outgoing_settings
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.durations import duration_text
from mainspring.errors import AlertRuleNotFound
from mainspring.model.access.audit import Entry
from mainspring.model.alerts.rule import KINDS, AlertRule, options_of
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import PENDING
from mainspring.model.printable import printable
from mainspring.rules.instants import instant_text

alerts = typer.Typer(
    help="Alert rules: messages about dead letters, missed firings, late queues, missing workers, open breakers.",
    no_args_is_help=True,
    add_completion=False,
)

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The id of the rule, or its name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Email = Annotated[list[str] | None, typer.Option("--email", metavar="ADDRESS", help="Send to this address.")]
Webhook = Annotated[list[str] | None, typer.Option("--webhook", metavar="URL", help="Send JSON to this URL.")]
Chat = Annotated[
    list[str] | None,
    typer.Option("--chat", metavar="URL", help="Send to this chat: https://hooks.slack.com/secret://NAME."),
]
Queues = Annotated[list[str] | None, typer.Option("--queue", help="Only this queue.")]
Prefixes = Annotated[list[str] | None, typer.Option("--prefix", help="Only jobs whose names begin with this.")]
After = Annotated[str | None, typer.Option("--after", metavar="TIME", help="How long the problem lasts first: 5m.")]
Threshold = Annotated[int | None, typer.Option("--threshold", help="Of dead_letters: how many count.")]
Within = Annotated[str | None, typer.Option("--within", metavar="TIME", help="Of dead_letters: in which time.")]
Window = Annotated[str | None, typer.Option("--group-window", metavar="TIME", help="Gather subjects for so long.")]
Repeat = Annotated[str | None, typer.Option("--repeat-every", metavar="TIME", help="Tell again this often.")]
Resolved = Annotated[bool | None, typer.Option("--resolved/--no-resolved", help="Tell the end of an alert, too.")]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether the rule is evaluated.")]
SendIn = Annotated[str | None, typer.Option("--send-in", metavar="QUEUE", help="The queue of the jobs that send.")]


@alerts.command("list")
@logged
def list_rules(as_json: Json = False, data: Data = None, uri: Uri = None) -> None:
    """List the alert rules with the states of their alerts; with --json, one object per line."""

    async def find(scheduler: Scheduler) -> list[AlertRule]:
        return await scheduler.alerts.all()

    found = on_database(place(data, uri), find)
    if as_json:
        for rule in found:
            print(json.dumps(_facts(rule), default=str))
        return
    lines = [(rule.id, rule.name, rule.kind, _status(rule), _destinations(rule)) for rule in found]
    print_table(("ID", "NAME", "KIND", "STATUS", "TO"), [tuple(map(printable, line)) for line in lines])


@alerts.command()
@logged
def show(rule: RuleArgument, as_json: Json = False, data: Data = None, uri: Uri = None) -> None:
    """Show a rule: its options, and the subjects of its alert."""
    _print(on_database(place(data, uri), lambda scheduler: _named(scheduler, rule)), as_json=as_json)


@alerts.command()
@logged
def add(
    name: Annotated[str, typer.Argument(help="A name for readers of the messages.")],
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
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Add a rule, with at least one of --email, --webhook and --chat."""
    options = _options(
        queues=queue,
        prefixes=prefix,
        after=after,
        threshold=threshold,
        within=within,
        group_window=group_window,
        repeat_every=repeat_every,
        send_resolved=resolved,
        queue=send_in,
    )
    to = _to(email, webhook, chat)

    async def create(scheduler: Scheduler) -> AlertRule:
        await scheduler.audit.check()
        made = await scheduler.alerts.create(name, kind, to, actor=actor(), **options)  # type: ignore[arg-type]
        await _note(scheduler, "alert.create", None, made)
        return made

    _print(on_database(place(data, uri), create), as_json=as_json)


@alerts.command()
@logged
def edit(
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
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Change a rule; what is not given stays. --email, --webhook and --chat replace all destinations."""
    options = _options(
        queues=queue,
        prefixes=prefix,
        after=after,
        threshold=threshold,
        within=within,
        group_window=group_window,
        repeat_every=repeat_every,
        send_resolved=resolved,
        enabled=enabled,
        queue=send_in,
    )
    to = _to(email, webhook, chat) or None

    async def change(scheduler: Scheduler, found: AlertRule) -> AlertRule:
        return await scheduler.alerts.edit(found.id, name=name, to=to, **options)

    _print(_changed("alert.update", rule, change, data, uri), as_json=as_json)


@alerts.command()
@logged
def silence(
    rule: RuleArgument,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long: 2h.")] = None,
    off: Annotated[bool, typer.Option("--off", help="End the silence.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="The reason; the rule shows it.")] = "",
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Send no messages of a rule for some time, or end that with --off."""
    if (duration is None) != off:
        raise typer.BadParameter("give --for TIME, or --off")

    async def change(scheduler: Scheduler, found: AlertRule) -> AlertRule:
        if duration is None:
            return await scheduler.alerts.unsilence(found.id)
        return await scheduler.alerts.silence(found.id, duration, reason=reason, actor=actor())

    action = "alert.unsilence" if off else "alert.silence"
    _print(_changed(action, rule, change, data, uri), as_json=as_json)


@alerts.command()
@logged
def test(
    rule: RuleArgument,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="How many seconds to wait.")] = 10.0,
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Send one message, marked as a test, to each destination of a rule: a worker sends it, or this command where no
    live worker can. Exit code 1 if one does not arrive."""

    async def send(scheduler: Scheduler) -> list[AlertTest]:
        await scheduler.audit.check()
        found = await _named(scheduler, rule)
        outcomes = await _try(scheduler, found, timeout)
        arrived = {"arrived": [one.arrived for one in outcomes]}
        await ServiceBackend(scheduler).note_change(Entry(actor(), "alert.test", found.id, after=arrived))
        return outcomes

    outcomes = on_database(place(data, uri), send)
    if as_json:
        for one in outcomes:
            facts = {"to": one.to, "job_id": one.job_id, "state": one.state, "arrived": one.arrived, "error": one.error}
            print(json.dumps(facts))
    else:
        rows = [(_place(one.to), one.job_id, one.state, one.error or "-") for one in outcomes]
        print_table(("TO", "JOB", "STATE", "ERROR"), [tuple(map(printable, row)) for row in rows])
    if any(one.state == PENDING for one in outcomes):
        say(
            "A message is pending: its next attempt is a worker's. Mail needs MAINSPRING_SMTP_URL, here or in a worker."
        )
    if not all(one.arrived for one in outcomes):
        raise typer.Exit(RUNTIME_FAILURE)


async def _try(scheduler: Scheduler, rule: AlertRule, timeout: float) -> list[AlertTest]:
    """Test a rule as the service does: this process sends the messages that no live worker can send."""
    backend, watch = ServiceBackend(scheduler), AlertWatch(scheduler, outgoing_settings())
    try:
        ids = await backend.begin_alert_test(rule)
        await watch.deliver(ids)
        return await backend.end_alert_test(rule, ids, timeout)
    finally:
        await watch.close()


@alerts.command()
@logged
def delete(rule: RuleArgument, as_json: Json = False, data: Data = None, uri: Uri = None) -> None:
    """Delete a rule."""

    async def remove(scheduler: Scheduler) -> AlertRule:
        await scheduler.audit.check()
        found = await _named(scheduler, rule)
        await scheduler.alerts.delete(found.id)
        await _note(scheduler, "alert.delete", found, None)
        return found

    gone = on_database(place(data, uri), remove)
    if as_json:
        print(json.dumps({"id": gone.id, "deleted": True}))
    else:
        say(f"The alert rule {gone.name} is deleted.")


def _changed(
    action: str,
    rule: str,
    change: Callable[[Scheduler, AlertRule], Awaitable[AlertRule]],
    data: Any,
    uri: str | None,
) -> AlertRule:
    """Change a rule, and write the audit entry."""

    async def work(scheduler: Scheduler) -> AlertRule:
        await scheduler.audit.check()
        before = await _named(scheduler, rule)
        after = await change(scheduler, before)
        await _note(scheduler, action, before, after)
        return after

    return on_database(place(data, uri), work)


async def _named(scheduler: Scheduler, name: str) -> AlertRule:
    """The rule with this id, or the only one with this name."""
    found = await scheduler.alerts.all()
    fitting = [one for one in found if one.id == name] or [one for one in found if one.name == name]
    if len(fitting) != 1:
        raise AlertRuleNotFound(name)
    return fitting[0]


async def _note(scheduler: Scheduler, action: str, before: AlertRule | None, after: AlertRule | None) -> None:
    rule = after or before
    assert rule is not None
    was, now = (None if one is None else _facts(one) for one in (before, after))
    await ServiceBackend(scheduler).note_change(Entry(actor(), action, rule.id, None, was, now))


def _options(**given: Any) -> Fields:
    return {name: value for name, value in given.items() if value is not None}


def _to(email: list[str] | None, webhook: list[str] | None, chat: list[str] | None) -> list[Fields]:
    to: list[Fields] = [{"type": "email", "to": email}] if email else []
    return [*to, *({"type": kind, "url": url} for kind, urls in (("webhook", webhook), ("chat", chat))
                   for url in urls or ())]  # fmt: skip


# -- printing ----------------------------------------------------------------------------------------------------------


def _print(rule: AlertRule, *, as_json: bool) -> None:
    facts = _facts(rule)
    if as_json:
        print(json.dumps(facts, default=str))
        return
    print(f"{printable(rule.name)} ({rule.kind}, {rule.id}) is {_status(rule)}; it tells {_destinations(rule)}")
    for subject in rule.state.current:
        print(printable(f"- {subject.text} (since {instant_text(subject.since)})"))
    if rule.silence is not None:
        print(printable(f"Silenced until {instant_text(rule.silence.until)}: {rule.silence.reason or 'no reason'}"))


def _status(rule: AlertRule) -> str:
    return rule.state.status if rule.enabled else "disabled"


def _destinations(rule: AlertRule) -> str:
    return printable(", ".join(_place(one.shown) for one in rule.to))


def _place(shown: Fields) -> str:
    return str(shown.get("url") or " ".join(shown.get("to") or ()))


def _facts(rule: AlertRule) -> Fields:
    spans = ("after", "within", "group_window", "repeat_every")
    options = {
        name: duration_text(round(value * 1000)) if name in spans and value is not None else value
        for name, value in options_of(rule).items()
    }
    state = rule.state
    return {
        "id": rule.id,
        "name": rule.name,
        "kind": rule.kind,
        "to": [one.shown for one in rule.to],
        **options,
        "status": _status(rule),
        "subjects": [one.text for one in state.current],
        "told_at": None if state.told_at is None else state.told_at.isoformat(),
        "messages": state.messages,
        "silenced_until": None if rule.silence is None else rule.silence.until.isoformat(),
    }
