"""What answers tell beside their content: headers, traces, reflections."""

from __future__ import annotations

import re

from attack.asking import Answer, send_raw, status_of
from attack.books import Row, probe
from attack.stage import Stage
from harness.canaries import Canaries

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TRACES = ("Traceback", 'File "', ".py", "pymongo", "uvicorn", "starlette", "fastapi")
_SCRIPT = "%3Cscript%3Ealert(1)%3C/script%3E"


def _protected(answer: Answer) -> bool:
    given = all(value in answer.headers.get(name, "") for name, value in _HEADERS.items())
    return given and "Access-Control-Allow-Origin" not in answer.headers and "Server" not in answer.headers


@probe("pages", "Every answer protects browsers, and no error tells of the inside", fast=True)
async def errors(stage: Stage, row: Row) -> None:
    client = stage.client
    json = {"Content-Type": "application/json"}
    answers = [
        await client.get("/nothing"),
        await client.get(f"/{_SCRIPT}"),
        await client.get(f"/api/jobs/{_SCRIPT}", "operator"),
        await client.get(f"/api/jobs?name={_SCRIPT}&limit={_SCRIPT}", "operator"),
        await client.get("/api/session"),
        await client.get("/api/session", headers={"Authorization": "Basic x"}),
        await client.get("/api/keys", "viewer"),
        await client.ask("PATCH", "/api/jobs", "operator"),
        await client.ask("POST", "/api/jobs", "operator", data=b"{", headers=json),
        await client.ask("POST", "/api/jobs", "operator", data=b"x", headers={"Content-Type": "text/html"}),
        await client.ask("POST", "/api/jobs", "operator", data=b"x" * 2_000_000, headers=json),
        await client.post("/api/jobs", "operator", {"name": "<script>", "priority": "<script>"}),
        await client.get("/livez"),
        await client.get("/readyz"),
        await client.get("/openapi.json"),
    ]
    for answer in answers:
        told = [] if answer.ok else [one for one in _TRACES if one in answer.text]
        kind = answer.headers.get("Content-Type", "")
        row.check(_protected(answer) and not told and "html" not in kind, f"{answer.request} → {answer.headers} {told}")
    docs = await client.get("/docs")
    inline = re.search(r"<script>|<style>|\son\w+=|\sstyle=|javascript:", docs.text, re.IGNORECASE)
    row.check(_protected(docs) and inline is None, f"{docs.request} → {docs.headers} {inline}")


@probe("pages", "No other origin is allowed to read, by CORS or otherwise", fast=True)
async def cors(stage: Stage, row: Row) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin in ("http://evil.test", "null", stage.client.url):
        for path in ("/api/jobs", "/api/session", "/openapi.json", "/livez"):
            answer = await stage.client.ask("OPTIONS", path, headers={"Origin": origin, **asks})
            allowed = [name for name in answer.headers if name.lower().startswith("access-control-")]
            row.check(not allowed, f"{answer.request} → {allowed}")
    for method in ("TRACE", "TRACK", "DEBUG"):
        said = await send_raw(
            stage.client.url,
            f"{method} / HTTP/1.1\r\nHost: localhost\r\nX-A: zqtrace\r\nConnection: close\r\n\r\n".encode(),
        )
        row.check(status_of(said) >= 400 and b"zqtrace" not in said, f"{method} / → {said[:300]!r}")


@probe(
    "pages",
    "A fault of the service has the same headers, and shows no value: not in its answer, not in the log",
)
async def faults(stage: Stage, row: Row) -> None:
    service = await stage.serve("up", "faulty:scheduler", "--uri", stage.spare())
    value = Canaries().plant("a value")
    answer = await service.client.ask("PUT", "/api/calendars/x", json={"days": ["2030-12-24"], "description": value})
    row.control(answer.status == 500, answer)
    row.check(_protected(answer), f"{answer.request} → {dict(answer.headers)}")
    row.check("no-store" in answer.headers.get("Cache-Control", ""), f"{answer.request} → {dict(answer.headers)}")
    row.check(value not in answer.text and not [one for one in _TRACES if one in answer.text], answer)
    row.control("a fault of the service" in service.command.output, "the log tells of the fault")
    row.check(value not in service.command.output, "the log has a value of the request")
    service.command.stop()
