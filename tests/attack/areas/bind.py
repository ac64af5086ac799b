"""Addresses that are bound, and what is answered, while there is no key."""

from __future__ import annotations

import asyncio
import stat
from contextlib import suppress

from attack.books import Row, probe
from attack.stage import Stage
from harness.commands import Command
from harness.waiting import eventually

_BEYOND = ("0.0.0.0", "::", "::ffff:127.0.0.1", "192.0.2.7")
_REFUSED = 2


@probe("bind", "Without a key, nothing but loopback is bound")
async def nothing_but_loopback(stage: Stage, row: Row) -> None:
    commands = [
        (*command, "--host", host, "--port", "0")
        for host in stage.some(_BEYOND, 1)
        for command in (("up",), ("serve", "--open"))
    ]
    started = [stage.run(*command, "--uri", stage.spare()) for command in commands]
    codes = await asyncio.gather(*(_ends(one) for one in started))
    for command, one, code in zip(commands, started, codes, strict=True):
        row.check(code == _REFUSED, f"mainspring {' '.join(command)} → {code}: {one.output}")


async def _ends(command: Command) -> int | None:
    """The exit status of a command; None where it serves, or does not end in time."""
    with suppress(AssertionError):
        await eventually(lambda: command.process.poll() is not None or " http://" in command.output, 90)
    code = command.process.poll()
    command.stop()
    return code


@probe("bind", "`serve` is closed from its first start on: it lets no client in without a key")
async def closed_from_the_start(stage: Stage, row: Row) -> None:
    before = set(stage.stored_keys())
    service = await stage.serve("serve", "--uri", stage.spare())
    stored = [path for path in stage.stored_keys() if path not in before]
    row.control(len(stored) == 1, f"the first key is stored: {service.command.output}")
    text = stored[0].read_text().strip()
    service.client.keys["first"] = text
    row.control((await service.client.get("/api/session", "first")).ok, "the stored key is an admin's")
    for place in (stored[0], stored[0].parent):
        mode = place.stat().st_mode
        row.check(not mode & (stat.S_IRWXG | stat.S_IRWXO), f"{place.name} has the mode {stat.filemode(mode)}")
    row.check(text not in service.command.output, "the key is in an output that is no terminal")
    for path in ("/api/session", "/api/jobs", "/api/keys", "/api/events", "/api/audit", "/api/workers"):
        answer = await service.client.get(path)
        row.check(answer.status == 401, answer)
