"""Users of an embedded server in processes of their own, and the means to see what is left of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainspring.mongod.folder import Folder
from mainspring.mongod.locks import FileLock

USER = """
import os, signal, sys, threading
from pathlib import Path
from pymongo import MongoClient
from mainspring.errors import EmbeddedError
from mainspring.mongod.server import open_server

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had the tests ignore it
try:
    server = open_server(Path(sys.argv[1]))
except EmbeddedError as error:
    print("error", error, flush=True)
    sys.exit()
client = MongoClient(server.uri)
print(server.pid, server.guardian_pid, server.port, flush=True)
for line in sys.stdin:
    match line.split():
        case ["write", number]:
            client.test.things.insert_one({"number": int(number)})
            print("written", flush=True)
        case ["read"]:
            print(*sorted(thing["number"] for thing in client.test.things.find()), flush=True)
        case ["ensure"]:
            server.ensure()
            print(server.pid, flush=True)
        case ["fork", then]:
            child = os.fork()
            if child == 0:
                server.ensure() if then == "ensure" else server.close()
                print(os.getpid(), flush=True)
                threading.Event().wait()
        case ["close"]:
            client.close()
            server.close()
            print("closed", flush=True)
"""


class User:
    """A process that uses the server in a folder, and does what it is asked."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", USER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def joined(self) -> tuple[int, int, int]:
        """Process ids of mongod and guardian, and the port."""
        mongod, guardian, port = map(int, self.line().split())
        return mongod, guardian, port

    def ask(self, command: str) -> str:
        assert self._process.stdin
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self.line()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)
        self._process.wait(60)

    def interrupt_group(self) -> None:
        """What Ctrl-C in its terminal does, pressed again until the process ends: Python notes a SIGINT that arrives
        just before it waits for its input, and raises KeyboardInterrupt only after that wait."""
        until = time.monotonic() + 60
        while True:
            os.killpg(self.pid, signal.SIGINT)
            try:
                self._process.wait(1)
                return
            except subprocess.TimeoutExpired:
                assert time.monotonic() < until, "the process did not end after Ctrl-C"

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


NewUser = Callable[..., User]


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends between the opening and the reading
        pass
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    return alive


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait for a condition, which has to come true within some seconds."""

    def wait(condition: Callable[[], object], seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "it did not come true in time"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def used_folders() -> Iterator[list[Folder]]:
    """The folders of tests that are over. Their servers end by themselves, or the last test fails."""
    folders: list[Folder] = []
    yield folders
    until = time.monotonic() + 60
    while folders and time.monotonic() < until:
        sweep(folders)
        time.sleep(0.02)
    for folder in folders:
        state = folder.read_state()
        for pid in (state.guardian, state.mongod):
            if pid and alive(pid):
                os.kill(pid, signal.SIGKILL)
    assert not folders, "some guardians outlived their tests"


def sweep(folders: list[Folder]) -> None:
    """Remove the folders in which nothing runs any more: each takes 100 MB."""
    for folder in list(folders):
        lock = FileLock(folder.guardian_lock)
        if lock.try_exclusive():
            folders.remove(folder)
            shutil.rmtree(folder.path)
        lock.close()


@pytest.fixture
def folder(tmp_path: Path, used_folders: list[Folder]) -> Iterator[Path]:
    """A folder that does not exist yet."""
    sweep(used_folders)
    path = tmp_path / "ein Ordner – 目录"
    yield path
    if path.is_dir():
        used_folders.append(Folder(path))


@pytest.fixture
def new_user(folder: Path) -> Iterator[NewUser]:
    users: list[User] = []

    def start(**environment: str) -> User:
        users.append(User(folder, **environment))
        return users[-1]

    yield start
    for user in users:
        user.end()


@pytest.fixture
def fake_mongod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Have a shell script stand in for mongod."""

    def make(script: str) -> Path:
        path = tmp_path / "mongod-of-a-test"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        monkeypatch.setenv("MAINSPRING_MONGOD", str(path))
        return path

    return make
