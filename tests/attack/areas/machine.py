"""Other users of the same machine, and files that lie about: the embedded MongoDB, its folder, `.env`, the demo."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from attack.books import Row, probe
from attack.stage import Stage
from harness.commands import Command
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.config.settings import EMBEDDED

_NOBODY = 65534


def _is_embedded(stage: Stage) -> bool:
    return stage.place.startswith(EMBEDDED)


@probe("machine", "Another user of the machine can neither read nor write the folder of the embedded MongoDB")
async def files(stage: Stage, row: Row) -> None:
    row.control(_is_embedded(stage), "the product runs on the embedded MongoDB")
    for path in (stage.data, *sorted(stage.data.rglob("*"))):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue  # mongod's own files come and go
        shut = not mode & (stat.S_IRWXG | stat.S_IRWXO) or (path.parent != stage.data and path != stage.data)
        row.check(shut, f"{path.name} has the mode {stat.filemode(mode)}")
    if os.getuid() != 0:
        row.note = "modes alone: only root can become another user"
        return
    before = stat.S_IMODE(stage.folder.stat().st_mode)
    stage.folder.chmod(0o755)  # the folder around it is another user's obstacle, and no part of the product
    try:
        row.control(_as_another_user("ls", stage.folder).returncode == 0, f"another user reaches {stage.folder}")
        for command, name in (("ls", ""), ("cat", "state.json"), ("cat", "mongod.key"), ("touch", "x")):
            ran = _as_another_user(command, stage.data / name)
            row.check(ran.returncode != 0, f"as another user: {command} {stage.data / name} → {ran.stdout[:200]}")
    finally:
        stage.folder.chmod(before)


def _as_another_user(command: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command, str(path)], capture_output=True, text=True, user=_NOBODY, group=_NOBODY, extra_groups=[]
    )


def _port(stage: Stage) -> int:
    """The port of the embedded MongoDB, which every user of the machine can see."""
    assert stage.scheduler.uri is not None
    return urlsplit(stage.scheduler.uri.partition("?")[0]).port or 0


@probe("machine", "The embedded MongoDB lets no client in without its password")
async def password(stage: Stage, row: Row) -> None:
    row.control(_is_embedded(stage), "the product runs on the embedded MongoDB")
    host = f"127.0.0.1:{_port(stage)}"
    users: tuple[dict[str, Any], ...] = (
        {},
        {"username": "mainspring", "password": "mainspring"},
        {"username": "__system", "password": "mainspring", "authSource": "local"},
    )
    now = datetime.now(UTC)
    key = {"_id": "ATTACKERKEY1", "v": 1, "name": "x", "role": "admin", "created_at": now}
    key |= {"hash": sha256(b"Z" * 43).hexdigest()}
    for given in users:
        async with AsyncMongoClient[dict[str, Any]](host, directConnection=True, timeoutMS=3000, **given) as client:
            database = client["mainspring"]
            await _refused(row, f"{given}: list databases", client.list_database_names())
            await _refused(row, f"{given}: read", database.jobs.find_one())
            await _refused(row, f"{given}: insert a key", database["jobs.access"].insert_one(key))
            await _refused(
                row, f"{given}: make a user", client.admin.command("createUser", "x", pwd="x", roles=["root"])
            )
            await _refused(row, f"{given}: shut down", client.admin.command("getCmdLineOpts"))
    stage.client.keys["attacker"] = f"ms_ATTACKERKEY1_{'Z' * 43}"
    answer = await stage.client.get("/api/session", "attacker", source="127.0.0.60")
    row.check(answer.status in (401, 429), answer)
    await stage.db["jobs.access"].delete_one({"_id": "ATTACKERKEY1"})


async def _refused(row: Row, what: str, asked: Any) -> None:
    try:
        await asked
    except PyMongoError as error:
        shut = "Authentication failed" in str(error) or "requires authentication" in str(error)
        row.check(shut, f"{what}: {error}")
    else:
        row.check(False, f"{what}: was done")


@probe("machine", "The embedded MongoDB runs no JavaScript, and its network has no compressors")
async def scripting(stage: Stage, row: Row) -> None:
    row.control(_is_embedded(stage), "the product runs on the embedded MongoDB")
    for filter_ in ({"$where": "true"}, {"$expr": {"$function": {"body": "function() {}", "args": [], "lang": "js"}}}):
        try:
            await stage.db["jobs.access"].find_one(filter_)  # which is never empty
        except OperationFailure as error:
            row.check("script" in str(error).lower() or error.code == 2, f"{filter_}: {error}")
        else:
            row.check(False, f"{filter_} was evaluated")
    offered = await stage.scheduler.client.admin.command("hello", compression=["zlib", "snappy", "zstd"])
    row.check(not offered.get("compression"), f"compressors are offered: {offered.get('compression')}")


@probe("machine", "A file .env in the current folder names no program to run")
async def environment_file(stage: Stage, row: Row) -> None:
    commands = [("keys", "create", "ops"), ("serve", "--port", "0"), ("worker",)]
    started = []
    for number, command in enumerate(commands):
        folder = stage.folder / f"planted-{number}"
        _plant(folder)
        started.append(stage.run(*command, cwd=folder))
    await asyncio.to_thread(_wait, started[0])
    row.control(started[0].process.poll() is not None, "the command ends")
    await eventually(lambda: all(_is_running(one) for one in started[1:]), 60)
    for number, command in enumerate(commands):
        ran = stage.folder / f"planted-{number}" / "zqran"
        row.check(not ran.exists(), f"mainspring {' '.join(command)} ran a program that .env names")
    for one in started:
        one.stop()


def _plant(folder: Path) -> None:
    """A folder with a program, and with a file that names it in every way."""
    folder.mkdir()
    for name in ("evil.sh", "mongod"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/zqran\nexit 1\n")
        (folder / name).chmod(0o755)
    names = ("MAINSPRING_MONGOD", "PYTHONSTARTUP", "LD_PRELOAD", "BASH_ENV", "SSLKEYLOGFILE")
    lines = [f"PATH={folder}", *(f"{name}={folder}/evil.sh" for name in names)]
    (folder / ".env").write_text("\n".join(lines))


def _is_running(command: Command) -> bool:
    """Whether a command has come to where it has its database, or has ended."""
    return command.process.poll() is not None or any(word in command.output for word in ("MongoDB ", " is up"))


def _wait(command: Command) -> None:
    try:
        command.wait(60)
    except subprocess.TimeoutExpired:
        command.stop()


@probe("machine", "No demonstration is played in a database that was named")
async def demonstration(stage: Stage, row: Row) -> None:
    uri = stage.spare()
    scheduler = Scheduler(uri)
    try:
        job = await scheduler.schedule("send-email", {"to": "real@customer.test", "subject": "invoice"})
        running = stage.run("up", "--uri", uri, "--port", "0", "--for", "5")
        await asyncio.to_thread(_wait, running)
        row.control("is up" in running.output, running.output)
        found = [one async for one in scheduler.jobs()]
        row.check([one.state for one in found if one.id == job.id] == ["pending"], "a real job was played with")
        row.check(len(found) == 1, f"sample jobs were stored: {[one.name for one in found]}")
    finally:
        await scheduler.stop()
