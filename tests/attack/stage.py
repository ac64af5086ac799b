"""The product as it is attacked: real processes on a real database, with keys of every kind, targets and a mail server.

`mainspring up` serves and works in one process, on the embedded MongoDB or, in the tests, on theirs. Further services
that an attack needs are started on databases of their own. All that was started is stopped by its process id.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil  # type: ignore[import-untyped]

from attack import network
from attack.asking import Answer, Client
from attack.targets import Targets
from harness import mail
from harness.canaries import Canaries
from harness.commands import MAINSPRING, Command
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Job, Scheduler
from mainspring.config.settings import DEFAULT_DATABASE, EMBEDDED

if TYPE_CHECKING:
    from attack.tenants import Foreign

T = TypeVar("T")
HERE = Path(__file__).parent
FOREIGN = "zqforeign"
"""Part of every name and text of the tenant that the others must not see."""
FOREIGN_QUEUE = f"{FOREIGN}-queue"
KEYS: dict[str, dict[str, Any]] = {
    "operator": {"role": "operator"},
    "viewer": {"role": "viewer"},
    "tenant": {"role": "operator", "queues": ["qa"]},
    "tenant-viewer": {"role": "viewer", "queues": ["qa"]},
    "tenant-admin": {"role": "admin", "queues": ["qa"]},
    "foreign": {"role": "operator", "queues": [FOREIGN_QUEUE]},
    "foreign-admin": {"role": "admin", "queues": [FOREIGN_QUEUE]},
    "prefix": {"role": "operator", "prefixes": ["p."]},
    "prefix-admin": {"role": "admin", "prefixes": ["p."]},
    "both": {"role": "operator", "queues": ["qa"], "prefixes": ["pq."]},
}
"""Whose keys there are beside the admin's: what each may do, and where."""


@dataclass
class Service:
    """A running command that serves, and a client that asks it."""

    command: Command
    client: Client

    @property
    def memory(self) -> int:
        """How many bytes of memory its process has now."""
        return int(psutil.Process(self.command.process.pid).memory_info().rss)


class Stage:
    """All that an attack needs."""

    def __init__(self, folder: Path, servers: Servers, *, seed: int = 0, quick: bool = False, embedded: bool = True):
        self._servers = servers
        self._spares: list[str] = []
        self.folder = folder
        self.quick = quick
        self.dice = random.Random(seed)
        self.data = folder / "data"
        """The folder of the embedded server, if the product runs on it."""
        self.place = f"{EMBEDDED}{self.data}" if embedded else self.spare()
        self._config = folder / "config"
        """Where the commands keep what belongs to their user."""
        self.targets = Targets()
        self.canaries = Canaries()
        self.environment: dict[str, str] = {}
        self._started: list[Command] = []
        self._stack = AsyncExitStack()
        self._keyless: Service | None = None
        self.foreign: Foreign | None = None
        """What the foreign tenant has, once it was given something."""

    async def start(self) -> None:
        """Start the product, and make its keys."""
        await self._stack.enter_async_context(self.targets)
        self.mail = await self._stack.enter_async_context(mail.smtp_sink())
        assert self.targets.names is not None
        self.environment = {
            "PYTHONPATH": str(HERE.parent / "acceptance" / "apps"),
            "XDG_CONFIG_HOME": str(self._config),
            "TEST_DNS_PORT": str(self.targets.names.port),
            "MAINSPRING_KEYS": f"k1:{base64.b64encode(os.urandom(32)).decode()}",
            "MAINSPRING_SESSION_SECRET": self.canaries.plant("the secret of sessions", secrets.token_hex(32)),
            "MAINSPRING_REQUESTS_PER_MINUTE": "1000000",
            "MAINSPRING_SMTP_URL": f"smtp://127.0.0.1:{self.mail.port}?starttls=off",
            "MAINSPRING_SMTP_FROM": "jobs@example.test",
            "MAINSPRING_HTTP_ALLOW": "" if network.inside() else f"{network.public()},{network.other_public()}",
        }
        self.canaries.plant("the key for encryption", self.environment["MAINSPRING_KEYS"].partition(":")[2])
        self.service = await self.serve("up", "target:scheduler", *self._where())
        self.client = self.service.client
        self.scheduler = Scheduler(self.place)
        self._stack.push_async_callback(self.scheduler.stop)
        await self.scheduler.connect()
        self.db = self.scheduler.client.get_default_database(DEFAULT_DATABASE)
        await self._make_keys()

    async def stop(self) -> None:
        await self._stack.aclose()
        for command in self._started:
            command.stop()
        with self._servers.primary().client() as client:
            for name in self._spares:
                client.drop_database(name)

    def _where(self) -> tuple[str, str]:
        if self.place.startswith(EMBEDDED):
            return "--data", str(self.data)
        return "--uri", self.place

    async def _make_keys(self) -> None:
        made = await self.client.post("/api/keys", None, {"name": "admin", "role": "admin"})
        assert made.status == 201, made
        self.client.keys["admin"] = made.data["key"]
        for name, what in KEYS.items():
            await self.make_key(name, **what)
        await self.make_key("revoked", role="admin")
        await self.client.ask("DELETE", f"/api/keys/{self.key_id('revoked')}", "admin")
        await self.make_key("expired", role="admin")
        over = {"$set": {"expires_at": datetime.now(UTC) - timedelta(minutes=1)}}
        await self.db["jobs.access"].update_one({"_id": self.key_id("expired")}, over)
        await eventually(self._expired)

    async def _expired(self) -> bool:
        return (await self.client.get("/api/session", "expired", source="127.0.0.7")).status != 200

    async def make_key(self, name: str, by: str = "admin", **what: Any) -> Answer:
        """Make a key, and keep it under a name."""
        made = await self.client.post("/api/keys", by, {"name": f"{name} key", **what})
        if made.status == 201:
            self.client.keys[name] = self.canaries.plant(f"the key {name}", made.data["key"])
        return made

    def key_id(self, name: str) -> str:
        return self.client.keys[name].split("_")[1]

    def some(self, items: Iterable[T], few: int) -> list[T]:
        """All items, or a few of them, chosen by the seed, where the run is a quick one."""
        found = list(items)
        return self.dice.sample(found, few) if self.quick and len(found) > few else found

    # -- commands --------------------------------------------------------------------------------------------------

    def run(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Command:
        """Start a command of the product."""
        log = self.folder / f"output-{len(self._started)}"
        given = {**self.environment, **environment}
        self._started.append(Command((*MAINSPRING, *arguments), cwd=cwd or HERE / "apps", log=log, **given))
        return self._started[-1]

    async def serve(self, *arguments: str, **environment: str) -> Service:
        """Start a command that serves, at a free port unless it is told one, and wait until it answers."""
        port = () if "--port" in arguments else ("--port", "0")
        command = self.run(*arguments, *port, cwd=None, **environment)
        pattern = r"API +(http://\S+)"
        await eventually(lambda: re.search(pattern, command.output) or command.process.poll() is not None, 90)
        url = re.search(pattern, command.output)
        assert url is not None, command.output
        client = Client(url[1])
        self._stack.push_async_callback(client.close)
        return Service(command, client)

    async def keyless(self) -> Service:
        """A service for development that has no key, the same for all attacks."""
        if self._keyless is None:
            self._keyless = await self.serve("up", "target:scheduler", "--uri", self.spare())
        return self._keyless

    def stored_keys(self) -> list[Path]:
        """The files of the API keys that commands have stored for their user."""
        return [path for path in self._config.rglob("*") if path.is_file()]

    def spare(self) -> str:
        """The URI of a database that is not there yet."""
        self._spares.append(f"attack{secrets.token_hex(6)}")
        return self._servers.uri(self._spares[-1])

    @property
    def output(self) -> str:
        """What all commands have printed."""
        return "\n".join(command.output for command in self._started)

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def create(self, by: str, **body: Any) -> Answer:
        return await self.client.post("/api/jobs", by, {"retryAttempts": 0, **body})

    async def made(self, by: str, **body: Any) -> str:
        """The id of a job that has to be possible."""
        answer = await self.create(by, **body)
        assert answer.ok, answer
        job_id: str = answer.data["jobId"]
        return job_id

    async def end(self, job_id: str, timeout: float = 60) -> Job:
        """The job at its end."""
        return await self.scheduler.wait(job_id, timeout=timeout)

    async def ends(self, ids: Sequence[str], timeout: float = 120) -> list[Job]:
        return list(await asyncio.gather(*(self.end(one, timeout) for one in ids)))

    async def hook(self, by: str, **body: Any) -> tuple[Answer, Job | None]:
        """Create a webhook and let it end, where it is not refused."""
        answer = await self.create(by, **body)
        return answer, await self.end(answer.data["jobId"]) if answer.ok else None
