"""Real mongod processes for tests: standalone, one-node and three-node replica sets, with fail points enabled."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from harness import reaper
from mainspring.mongod.binary import find_mongod

# A server takes about 30 MB; a dozen of them may run at once.
_ROOM = 2 * 1024**3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def memory() -> Path | None:
    """A folder in memory, if there is one with room: nothing there has to wait for a disk, and a write has to often.

    It takes nothing from the tests: what a server has written is there after kill -9 either way.
    """
    folder = Path("/dev/shm")
    roomy = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM
    return folder if roomy else None


class Node:
    """One mongod."""

    def __init__(
        self,
        folder: Path,
        *,
        replica_set: str | None,
        tablescans: bool = False,
        arguments: Sequence[str] = (),
        host: str = "127.0.0.1",
        certificate: Path | None = None,
    ) -> None:
        self.port = free_port()
        self.address = f"{host}:{self.port}"
        self._host = host
        self._folder = folder
        self._replica_set = replica_set
        self._tablescans = tablescans
        self._arguments = [*arguments, *(_requires_tls(certificate) if certificate else ())]
        self._tls: dict[str, Any] = {"tls": True, "tlsCAFile": str(certificate)} if certificate else {}
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        command = [
            str(find_mongod()),
            *("--dbpath", str(self._folder / "data"), "--port", str(self.port), "--bind_ip", self._host),
            *("--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", "--networkMessageCompressors", "disabled"),
            *("--setParameter", "enableTestCommands=1", "--setParameter", "diagnosticDataCollectionEnabled=false"),
            # Dropped collections are kept open that long; a thousand tests would use up the file descriptors.
            *("--setParameter", "minSnapshotHistoryWindowInSeconds=5"),
            # By default a journal's file has 100 MB, and two more are made in advance: too much for memory.
            *("--wiredTigerEngineConfigString", "log=(file_max=16MB,prealloc=false)"),
            *("--logpath", str(self._folder / "mongod.log"), "--logappend"),
            *self._arguments,
        ]
        if self._replica_set:
            command += ["--replSet", self._replica_set, "--oplogSize", "128"]
        if not self._tablescans:
            command += ["--notablescan"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        reaper.watch(self.process.pid)

    def kill(self) -> None:
        """kill -9"""
        assert self.process is not None
        self.process.kill()
        self._end()

    def pause(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.kill()

    def _end(self) -> None:
        assert self.process is not None
        self.process.wait()
        reaper.forget(self.process.pid)

    def client(self, **options: Any) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            self.address, directConnection=True, serverSelectionTimeoutMS=120_000, **self._tls, **options
        )


class Servers:
    """A standalone server (`nodes=0`) or a replica set of one or more nodes. With a `certificate`, a file that has its
    key too, they talk only TLS."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        name: str = "test",
        tablescans: bool = False,
        arguments: Sequence[str] = (),
        host: str = "127.0.0.1",
        certificate: Path | None = None,
    ) -> None:
        self.folder = self._folder = Path(tempfile.mkdtemp(prefix="mainspring-test-", dir=memory()))
        reaper.watch_folder(str(self._folder))
        self.name = name if nodes else None
        self.nodes = [
            Node(
                self._folder / str(index),
                replica_set=self.name,
                tablescans=tablescans,
                arguments=arguments,
                host=host,
                certificate=certificate,
            )
            for index in range(max(1, nodes))
        ]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            with node.client() as client:
                _until_answers(client)
        if self.name:
            members = [{"_id": i, "host": node.address, "priority": 2 - i % 2} for i, node in enumerate(self.nodes)]
            settings = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}
            with self.nodes[0].client() as client:
                client.admin.command("replSetInitiate", {"_id": self.name, "members": members, "settings": settings})
            self.primary()

    def halt(self) -> None:
        """End every node; `mend` starts them again, with all that they have stored."""
        for node in self.nodes:
            node.stop()

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self._folder, ignore_errors=True)
        reaper.forget(str(self._folder))

    def __enter__(self) -> Servers:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def uri(self, database: str) -> str:
        hosts = ",".join(node.address for node in self.nodes)
        return f"mongodb://{hosts}/{database}" + (f"?replicaSet={self.name}" if self.name else "")

    def primary(self, timeout: float = 120) -> Node:
        """The node that is primary now; waits for one."""
        until, patience = time.monotonic() + timeout, 500
        while time.monotonic() < until:
            for node in self.nodes:
                if node.process is None or node.process.poll() is not None:
                    continue
                with contextlib.suppress(PyMongoError), node.client(timeoutMS=patience) as client:
                    if client.admin.command("hello").get("isWritablePrimary"):
                        return node
            time.sleep(0.05)
            patience = min(2 * patience, 10_000)  # a paused node is passed over soon, and a slow one is waited for
        raise AssertionError("no primary came up")

    def mend(self, timeout: float = 120) -> None:
        """Start and resume every node, and wait until each is primary or has copied what the primary has."""
        for node in self.nodes:
            if node.process is None or node.process.poll() is not None:
                node.start()
            else:
                node.resume()
        until = time.monotonic() + timeout
        while not self._is_whole():
            assert time.monotonic() < until, "the replica set did not become whole"
            time.sleep(0.05)

    def _is_whole(self) -> bool:
        try:
            with self.primary().client(timeoutMS=20_000) as client:
                members = client.admin.command("replSetGetStatus")["members"]
        except PyMongoError:
            return False
        return [member["stateStr"] for member in members].count("SECONDARY") == len(self.nodes) - 1

    def step_down(self) -> None:
        with contextlib.suppress(PyMongoError), self.primary().client() as client:
            client.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=3, force=True)

    @contextlib.contextmanager
    def fail_point(self, name: str, mode: Any, **data: Any) -> Iterator[None]:
        """A fail point on the primary, switched off at the end."""
        with self.primary().client() as client:
            client.admin.command({"configureFailPoint": name, "mode": mode, "data": data})
            try:
                yield
            finally:
                client.admin.command({"configureFailPoint": name, "mode": "off"})


def _requires_tls(certificate: Path) -> Iterator[str]:
    yield from ("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificate), "--tlsCAFile", str(certificate))
    yield "--tlsAllowConnectionsWithoutCertificates"


def _until_answers(client: MongoClient[dict[str, Any]]) -> None:
    client.admin.command("ping")
