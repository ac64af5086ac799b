"""Line breaks, zero bytes, other alphabets and expressions in every part of a webhook: none becomes a header, a request
or code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attack.areas.calls import run_all
from attack.books import Row, probe
from attack.stage import Stage
from harness.sinks import Received

_BREAKS = (
    "\r\nX-Injected: 1",
    "\nX-Injected: 1",
    "\rX-Injected: 1",
    "\r\n X-Injected: 1",
    "\x00X-Injected: 1",
    "\x0bX-Injected: 1",
    "\x85X-Injected: 1",
    "\u2028X-Injected: 1",
    "%0d%0aX-Injected:%201",
    "\u010d\u010aX-Injected: 1",
    "\u560d\u560aX-Injected: 1",
    "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    " HTTP/1.1\r\nX-Injected: 1\r\nX-Rest:",
    "\x7f\r\nX-Injected: 1",
)
Place = Callable[[str, str], dict[str, Any]]
_PLACES: dict[str, Place] = {
    "a header": lambda url, text: {"endpoint": url, "headers": {"X-Given": f"a{text}"}},
    "a header by a template": lambda url, text: {
        "endpoint": url,
        "headers": {"X-Given": "a{{data.x}}"},
        "data": {"x": text},
    },
    "a header's name": lambda url, text: {"endpoint": url, "headers": {f"X-Given{text}": "a"}},
    "a content type": lambda url, text: {
        "endpoint": url,
        "headers": {"Content-Type": f"text/plain{text}"},
        "body": "x",
    },
    "the path": lambda url, text: {"endpoint": f"{url}/a{text}"},
    "the path by a template": lambda url, text: {"endpoint": url + "/{{data.x}}", "data": {"x": text}},
    "the query": lambda url, text: {"endpoint": f"{url}?a={text}"},
    "the query by a template": lambda url, text: {"endpoint": url + "?a={{data.x}}", "data": {"x": text}},
    "a query's value": lambda url, text: {"endpoint": url, "query": {"a": text}},
    "a query's name": lambda url, text: {"endpoint": url, "query": {f"a{text}": "b"}},
    "a query's value by a template": lambda url, text: {
        "endpoint": url,
        "query": {"a": "{{data.x}}"},
        "data": {"x": text},
    },
    "a fragment": lambda url, text: {"endpoint": f"{url}#a{text}"},
    "the host": lambda url, text: {"endpoint": url.replace("evil.test", f"evil.test{text}")},
    "a text": lambda url, text: {"endpoint": url, "body": f"a{text}"},
    "a text by a template": lambda url, text: {"endpoint": url, "body": "a{{data.x}}", "data": {"x": text}},
    "JSON by a template": lambda url, text: {"endpoint": url, "body": {"a": "{{data.x}}"}, "data": {"x": text}},
    "a form by a template": lambda url, text: {
        "endpoint": url,
        "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "body": "a={{data.x}}",
        "data": {"x": text},
    },
    "the method": lambda url, text: {"endpoint": url, "method": f"POST{text}"},
    "a tag": lambda url, text: {"endpoint": url, "tags": [f"a{text}"]},
    "the idea of a trace": lambda url, text: {"endpoint": url, "headers": {"traceparent": f"00-1-1-01{text}"}},
}
_FRAMING = (
    *("Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer", "Keep-Alive"),
    *("Proxy-Authorization", "Expect", "content-length", "HOST", "Transfer_Encoding"),
)
EXPRESSIONS = (
    "{{7*7}}",
    "{{data.x*7}}",
    "{{data.__class__}}",
    "{{data.x.__class__.__mro__}}",
    "{{job.__init__.__globals__}}",
    "{{self}}",
    "{{config}}",
    "{{data['x']}}",
    "{{data.x|upper}}",
    "{{ data.x() }}",
    "{{request.headers}}",
    "{{secret://token}}",
    "{{env.HOME}}",
    "{{data.x}}{{",
    "{{{{data.x}}}}",
    "{{data.}}",
    "{{}}",
    "{% for a in b %}49{% endfor %}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{0.__class__}",
    "%(x)s",
    "$(id)",
    "`id`",
)


_VALID = ("{{attempt}}", "{{job.id}}", "{{timestamp}}")
"""Templates that are filled in where an author writes them, and stay as they are in the data of a job."""


def _is_clean(one: Received) -> bool:
    """Whether a request is one request, with no header that was not asked for."""
    named = [name.lower() for name, _ in one.headers]
    strange = any(character in text for text in (one.line, *map("".join, one.headers)) for character in "\r\n\x00")
    return not one.rest and "x-injected" not in named and named.count("host") == 1 and not strange


@probe(
    "injection", "A line break or a zero byte anywhere in a webhook becomes neither a header nor a request", fast=True
)
async def breaks(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    tries = stage.some([(place, text) for place in _PLACES for text in _BREAKS], 20)
    bodies = [_PLACES[place](stage.targets.url(f"/inject/{n}"), text) for n, (place, text) in enumerate(tries)]
    sent = 0
    for answer, job in await run_all(stage, "operator", bodies):
        row.check(answer.status in (400, 422) or job is not None, answer)
        sent += job is not None and job.state == "completed"
    received = stage.targets.received
    row.control(sent and len(received) >= sent, "some of the texts are harmless where they stand, and are sent")
    for one in received:
        row.check(_is_clean(one), f"received {one.line!r} {one.headers} {one.rest!r}")
    row.check(not stage.targets.at("/smuggled"), "a request was smuggled")


@probe("injection", "Headers that frame a request cannot be set by the one who writes a webhook", fast=True)
async def framing(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    _, job = await stage.hook("operator", endpoint=stage.targets.url("/frame"), headers={"X-Given": "0"}, body="abc")
    row.control(job is not None and job.state == "completed" and stage.targets.at("/frame"), "another header is sent")
    bodies = [
        {"endpoint": stage.targets.url(f"/frame/{name}"), "headers": {name: value}, "body": "abc"}
        for name in stage.some(_FRAMING, 6)
        for value in ("evil.test", "0", "chunked")
    ]
    for answer, job in await run_all(stage, "operator", bodies):
        if job is None:
            row.check(answer.status in (400, 422), answer)
    for one in stage.targets.received:
        framed = one.header("Content-Length") == str(len(one.body)) and one.header("Transfer-Encoding") is None
        row.check(framed and _is_clean(one) and one.body == b"abc", f"received {one.line!r} {one.headers}")


@probe("injection", "Templates put values in, once; nothing in them is evaluated", fast=True)
async def expressions(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    texts = stage.some(EXPRESSIONS, 4)
    bodies: list[dict[str, Any]] = []
    for n, text in enumerate(texts):
        url = stage.targets.url(f"/expression/{n}")
        bodies += [{"endpoint": url, "body": f"<{text}>", "data": {"x": 7}}]
        bodies += [{"endpoint": url, "body": {"a": f"<{text}>"}, "data": {"x": 7}}]
        bodies += [{"endpoint": url, "headers": {"X-Given": f"<{text}>"}, "data": {"x": 7}}]
        bodies += [{"endpoint": url, "body": "<{{data.x}}>", "data": {"x": text}}]
        bodies += [{"endpoint": url, "body": f"<{text}>", "templates": False}]
    for n, text in enumerate(_VALID, len(texts)):
        url = stage.targets.url(f"/expression/{n}")
        bodies += [
            {"endpoint": url, "body": body, "data": {"x": text}} for body in ("<{{data.x}}>", {"a": "<{{data.x}}>"})
        ]
        bodies += [{"endpoint": url, "headers": {"X-Given": "<{{data.x}}>"}, "data": {"x": text}}]
    texts = [*texts, *_VALID]
    for answer, job in await run_all(stage, "operator", bodies):
        row.check(answer.status in (400, 422) or job is not None, answer)
    seen = stage.targets.received
    row.control(seen, "what is no template is sent as it is")
    for one in seen:
        told = one.body.decode() + (one.header("X-Given") or "")
        number = int(one.path.rpartition("/")[2])
        row.check(_is_literal(told, texts[number]), f"{texts[number]!r} was sent as {told!r}")


def _is_literal(sent: str, text: str) -> bool:
    """Whether a text was sent as it is, as JSON writes it, or with its one value put in."""
    plain = text.replace("{{data.x}}", "7")
    forms = {f"<{one}>" for one in (text, plain)}
    return any(form in sent or form.replace('"', '\\"') in sent for form in forms) or sent == ""


@probe("injection", "Filled-in templates are bounded: a small job makes no large request", fast=True)
async def sizes(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    large = {"x": "y" * 10_000}
    url = stage.targets.url("/large")
    holes = "{{data.x}}"
    bodies: list[dict[str, Any]] = [
        {"endpoint": url, "body": holes * 4000},
        {"endpoint": url, "body": {"a": [holes] * 4000}},
        {"endpoint": url, "body": {f"k{n}": holes for n in range(900)}},
        {"endpoint": url, "headers": {"X-Given": holes * 400}},
        {"endpoint": url, "headers": {f"X-{n}": holes for n in range(50)}},
        {"endpoint": f"{url}/{holes * 300}"},
        {"endpoint": url, "query": {"a": holes * 400}},
    ]
    _, job = await stage.hook("operator", endpoint=url, body="{{data.x}}", data=large)
    row.control(job is not None and job.state == "completed", "a template with a large value")
    before = stage.service.memory
    for body in bodies:
        answer, job = await stage.hook("operator", **body, data=large)
        row.check(answer.refused or (job is not None and job.state == "failed"), answer)
    most = max(len(one.body) + sum(map(len, (n + v for n, v in one.headers))) for one in stage.targets.at("/large"))
    row.check(most <= 2 * 1024 * 1024, f"the target received {most:,} bytes")
    rose = stage.service.memory - before
    row.check(rose < 64 * 1024 * 1024, f"the memory rose by {rose / 1e6:.0f} MB")
