"""The messages of alerts: the data of the job that sends one, by the type of its destination. Pure.

The texts of subjects hold names and error messages that jobs may have chosen. Characters that do not print become
escapes, texts are cut, and a chat gets no markup of a job's making. The job's templates are off, so that `{{…}}` in an
error is sent as it is.
"""

from __future__ import annotations

from typing import Any

from mainspring.model.alerts.episode import FIRING, REPEAT, RESOLVED, TEST, Message
from mainspring.model.alerts.rule import CHAT, MAIL, AlertRule, Destination
from mainspring.model.printable import printable, shortened
from mainspring.rules.instants import instant_text

TOLD_AT_MOST = 20
_LONGEST_TEXT, _LONGEST_TITLE = 400, 200
_WORDS = {FIRING: "FIRING", REPEAT: "STILL FIRING", RESOLVED: "RESOLVED", TEST: "TEST"}
_TEST = "This is a test of the alert rule; nothing is wrong."


def job_data(rule: AlertRule, message: Message, destination: Destination) -> dict[str, Any]:
    """The data of the job that sends a message to a destination."""
    if destination.type == MAIL:
        text = "\n".join((*_lines(rule, message), "", f"Rule {rule.id}, of the kind {rule.kind}."))
        return {**destination.data, "subject": _title(rule, message), "text": text}
    body = {"text": _chat(rule, message)} if destination.type == CHAT else _json(rule, message)
    return {**destination.data, "request": {**destination.data["request"], "body": body}}


def _title(rule: AlertRule, message: Message) -> str:
    return shortened(f"[Mainspring] {_WORDS[message.kind]}: {printable(rule.name)}", _LONGEST_TITLE)


def _lines(rule: AlertRule, message: Message) -> list[str]:
    """The message as lines of plain text."""
    lines = [_title(rule, message)]
    if message.kind == TEST:
        return [*lines, _TEST]
    told = message.subjects[:TOLD_AT_MOST]
    lines += [f"- {_clean(one.text)}" for one in told]
    if len(message.subjects) > len(told):
        lines.append(f"- and {len(message.subjects) - len(told)} more")
    word = "It began" if message.kind == RESOLVED else "Since"
    return [*lines, f"{word} {instant_text(message.since)}."]


def _chat(rule: AlertRule, message: Message) -> str:
    """The text for a chat, with the three characters escaped that begin its markup, such as `<!channel>`."""
    text = "\n".join(_lines(rule, message))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json(rule: AlertRule, message: Message) -> dict[str, Any]:
    told = message.subjects[:TOLD_AT_MOST]
    return {
        "type": "mainspring.alert",
        "status": message.kind,
        "rule": {"id": rule.id, "name": printable(rule.name), "kind": rule.kind},
        "number": message.number,
        "episode": message.episode,
        "at": instant_text(message.at),
        "since": instant_text(message.since),
        "text": "\n".join(_lines(rule, message)),
        "subjects": [
            {"key": _clean(one.key), "text": _clean(one.text), "since": instant_text(one.since)} for one in told
        ],
        "more": len(message.subjects) - len(told),
    }


def _clean(text: str) -> str:
    return shortened(printable(text[: 2 * _LONGEST_TEXT]), _LONGEST_TEXT)
