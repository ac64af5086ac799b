"""Mail: no command, header or recipient is smuggled in, and no sender is anybody's but ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attack.areas.calls import run_all
from attack.books import Row, probe
from attack.stage import Stage

_BREAKS = (
    "\r\nBcc: victim@evil.test",
    "\nBcc: victim@evil.test",
    "\rBcc: victim@evil.test",
    "\r\n\r\nanother body",
    "\r\n.\r\nMAIL FROM:<x@evil.test>\r\nRCPT TO:<victim@evil.test>\r\nDATA\r\n",
    "\x00Bcc: victim@evil.test",
    "\u2028Bcc: victim@evil.test",
    "\x85Bcc: victim@evil.test",
    "\u010d\u010aBcc: victim@evil.test",
    "=?utf-8?q?=0D=0ABcc:_victim@evil.test?=",
    "\r\n Bcc: victim@evil.test",
    ">,<victim@evil.test",
    " , , victim@evil.test",
    " ORCPT=rfc822;victim@evil.test",
)
_BASE: dict[str, Any] = {"to": "you@example.test", "subject": "hello", "text": "a text"}
_PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "to": lambda text: {"to": f"you@example.test{text}"},
    "to's name": lambda text: {"to": f"You{text} <you@example.test>"},
    "to's quoted name": lambda text: {"to": f'"You{text}" <you@example.test>'},
    "to's list": lambda text: {"to": ["you@example.test", f"you2@example.test{text}"]},
    "cc": lambda text: {"cc": f"you@example.test{text}"},
    "bcc": lambda text: {"bcc": [f"you@example.test{text}"]},
    "reply to": lambda text: {"replyTo": f"you@example.test{text}"},
    "from": lambda text: {"from": f"jobs@example.test{text}"},
    "from's name": lambda text: {"from": f"Jobs{text} <jobs@example.test>"},
    "subject": lambda text: {"subject": f"hello{text}"},
    "text": lambda text: {"text": f"a text{text}"},
    "html": lambda text: {"html": f"<p>{text}</p>"},
    "a header": lambda text: {"headers": {"X-Given": f"a{text}"}},
    "a header's name": lambda text: {"headers": {f"X-Given{text}": "a"}},
}
_HEADERS = (
    *("Bcc", "To", "Cc", "From", "Sender", "Return-Path", "Received", "Date", "Message-ID", "Content-Type"),
    *("MIME-Version", "Content-Transfer-Encoding", "DKIM-Signature", "Resent-To", "Errors-To"),
)


def _job(mail: dict[str, Any]) -> dict[str, Any]:
    return {"type": "email", "data": {**_BASE, **mail}}


@probe("mails", "Nothing in a mail becomes a command, a header or a recipient that was not asked for", fast=True)
async def smuggling(stage: Stage, row: Row) -> None:
    stage.mail.received.clear()
    _, job = await stage.hook("operator", **_job({}))
    row.control(job is not None and job.state == "completed" and stage.mail.received, "a mail is sent")
    tries = stage.some([(place, text) for place in _PLACES for text in _BREAKS], 25)
    sent = 1
    for answer, job in await run_all(stage, "operator", [_job(_PLACES[place](text)) for place, text in tries]):
        row.check(answer.status in (400, 422) or job is not None, answer)
        sent += job is not None and job.state == "completed"
    for mail in stage.mail.received:
        header = str(mail.message).split("\n\n", 1)[0]
        asked = all(one.endswith("@example.test") for one in mail.recipients)
        clean = "victim" not in repr(mail.recipients) and mail.message["Bcc"] is None and "\nBcc:" not in header
        row.check(asked and clean and mail.sender.endswith("@example.test"), f"sent to {mail.recipients}: {header}")
    row.check(len(stage.mail.received) == sent, f"{len(stage.mail.received)} mails were received of {sent} jobs")


@probe("mails", "Headers of the envelope cannot be set, and recipients are bounded", fast=True)
async def bounds(stage: Stage, row: Row) -> None:
    for name in stage.some(_HEADERS, 6):
        answer = await stage.create("operator", **_job({"headers": {name: "x@evil.test"}}))
        row.check(answer.status in (400, 422), answer)
    for many, held in ((100, True), (101, False), (5000, False)):
        to = [f"you{n}@example.test" for n in range(many)]
        answer = await stage.create("operator", **_job({"to": to}), delay="1h")
        row.check(answer.ok == held, f"{many} recipients → {answer.status}")


_SENDERS = (
    *(
        "other@example.test",
        "ceo@bank.test",
        "CEO <ceo@bank.test>",
        "jobs@example.test.evil.test",
        "jobs@notexample.test",
        "jobs@test",
    ),
    *("jobs@sub.example.test", "jobs@EXAMPLE.test.", "root@localhost", '"jobs@example.test" <ceo@bank.test>'),
)


@probe("mails", "Mail is sent from the senders that are allowed alone", fast=True)
async def senders(stage: Stage, row: Row) -> None:
    stage.mail.received.clear()
    answer, job = await stage.hook("operator", **_job({"from": "Jobs <jobs@example.test>"}))
    row.control(job is not None and job.state == "completed", answer)
    for sender in _SENDERS:
        for by, queue in (("operator", "mail"), ("tenant", "qa")):
            answer, job = await stage.hook(by, queue=queue, **_job({"from": sender}))
            row.check(answer.refused or (job is not None and job.state == "failed"), answer)
    for sender in _SENDERS[:3]:
        data = {"to": "you@example.test", "subject": "x", "text": "y", "from": sender}
        made = await stage.scheduler.schedule("mainspring:email", data, queue="email", retry=1)
        row.check((await stage.end(made.id)).state == "failed", f"a raw mail from {sender}")
    strange = [mail.sender for mail in stage.mail.received if mail.sender != "jobs@example.test"]
    row.check(not strange, f"mail was sent from {strange}")


@probe("mails", "Off loopback, mail is handed over with TLS or not at all")
async def transport(stage: Stage, row: Row) -> None:
    from mainspring.jobtypes.mail.settings import SmtpSettings

    for url in ("smtp://mail.example.test", "smtp://mail.example.test:25", "smtp://10.0.0.1:25"):
        settings = SmtpSettings.parse(url, "jobs@example.test")
        row.check(settings.tls in ("required", "implicit"), f"{url} → starttls={settings.tls}")
    settings = SmtpSettings.parse("smtp://user:password@mail.example.test", "jobs@example.test")
    row.check(settings.tls == "required", "with a password, TLS is required")
