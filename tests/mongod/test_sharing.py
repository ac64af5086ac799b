"""Several users of one folder: they share one server, and it lives exactly as long as they do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from pymongo import AsyncMongoClient, MongoClient

from mainspring.errors import EmbeddedError
from mainspring.mongod.folder import Folder
from mainspring.mongod.server import open_server


class User(Protocol):
    pid: int

    def line(self) -> str: ...
    def joined(self) -> tuple[int, int, int]: ...
    def ask(self, command: str) -> str: ...
    def kill(self, number: signal.Signals = ...) -> None: ...
    def interrupt_group(self) -> None: ...


NewUser = Callable[..., User]
IsAlive = Callable[[int], bool]
Eventually = Callable[..., None]


def connect(uri: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(uri, w="majority", journal=True)


async def test_a_new_folder_becomes_a_server_with_transactions_and_change_streams(folder: Path) -> None:
    with open_server(folder) as server:
        assert folder.stat().st_mode & 0o777 == 0o700
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(server.uri)
        async with client:
            things = client.test.things
            async with await things.watch() as changes:
                async with client.start_session() as session, await session.start_transaction():
                    await things.insert_one({"_id": 1}, session=session)
                change = await changes.next()
            assert change["documentKey"] == {"_id": 1}


def test_it_listens_on_loopback_only_and_makes_no_socket_file(folder: Path) -> None:
    with open_server(folder) as server, connect(server.uri) as client:
        net = client.admin.command("getCmdLineOpts")["parsed"]["net"]
    assert net["bindIp"] == "127.0.0.1"
    assert net["unixDomainSocket"] == {"enabled": False}
    assert net["compression"] == {"compressors": "disabled"}


def test_opening_twice_in_one_process_holds_the_server_twice(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    first, second = open_server(folder), open_server(folder)
    assert (first.uri, first.pid) == (second.uri, second.pid)
    first.close()
    first.close()
    time.sleep(1.3)
    assert second.ensure() is False
    assert is_alive(second.pid)
    second.close()
    eventually(lambda: not is_alive(second.pid), 60)


def test_a_closed_server_says_so(folder: Path) -> None:
    server = open_server(folder)
    server.close()
    with pytest.raises(EmbeddedError, match="was closed; open it again"):
        server.ensure()


def test_killing_the_user_who_started_the_server_disturbs_no_other(new_user: NewUser, is_alive: IsAlive) -> None:
    starter = new_user()
    joined = starter.joined()
    other = new_user()
    assert other.joined() == joined
    starter.kill()
    time.sleep(1.3)
    assert other.ask("write 1") == "written"
    assert other.ask("ensure") == str(joined[0])
    assert is_alive(joined[1])


def test_ctrl_c_reaches_the_user_and_not_the_server(new_user: NewUser) -> None:
    starter, other = new_user(), new_user()
    joined = starter.joined()
    assert other.joined() == joined
    mongod, guardian, _ = joined
    assert os.getsid(guardian) == os.getsid(mongod) not in (os.getsid(0), starter.pid)
    starter.interrupt_group()
    assert other.ask("write 1") == "written"
    assert other.ask("ensure") == str(mongod)


def test_the_server_stops_cleanly_soon_after_its_last_user_has_left(
    folder: Path, new_user: NewUser, is_alive: IsAlive, eventually: Eventually
) -> None:
    user = new_user()
    mongod, guardian, port = user.joined()
    user.ask("write 1")
    user.ask("close")
    eventually(lambda: not is_alive(mongod) and not is_alive(guardian), 60)
    assert not Folder(folder).was_left_unclean()
    again = new_user()
    assert again.joined()[2] == port
    assert again.ask("read") == "1"
    assert "unclean shutdown" not in (folder / "mongod.log").read_text()


def test_the_server_does_not_outlive_users_who_were_all_killed(
    folder: Path, new_user: NewUser, is_alive: IsAlive, eventually: Eventually
) -> None:
    users = [new_user() for _ in range(3)]
    ((mongod, guardian, _),) = {user.joined() for user in users}
    for user in users:
        user.kill()
    eventually(lambda: not is_alive(mongod) and not is_alive(guardian), 60)
    assert not Folder(folder).was_left_unclean()


def test_a_user_who_comes_right_after_the_last_finds_the_server_running(folder: Path) -> None:
    with open_server(folder) as first:
        pid = first.pid
    with open_server(folder) as second:
        assert second.pid == pid


def test_a_user_who_comes_while_the_server_stops_gets_a_new_one(folder: Path, eventually: Eventually) -> None:
    with open_server(folder) as first:
        pass
    eventually(lambda: Folder(folder).read_state().phase == "stopping", 60)
    with open_server(folder) as second, connect(second.uri) as client:
        assert second.pid != first.pid
        assert second.uri == first.uri
        client.test.things.insert_one({})


def test_ten_users_at_once_get_one_server(new_user: NewUser) -> None:
    users = [new_user() for _ in range(10)]
    assert len({user.joined() for user in users}) == 1


def test_a_forked_child_does_not_hold_its_parents_server(
    new_user: NewUser, is_alive: IsAlive, eventually: Eventually
) -> None:
    parent = new_user()
    mongod, _, _ = parent.joined()
    child = int(parent.ask("fork close"))
    try:
        time.sleep(1.3)
        assert parent.ask("ensure") == str(mongod)
        parent.kill()
        eventually(lambda: not is_alive(mongod), 60)
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_ensures_its_server_holds_it_itself(
    new_user: NewUser, is_alive: IsAlive, eventually: Eventually
) -> None:
    parent = new_user()
    mongod, _, _ = parent.joined()
    child = int(parent.ask("fork ensure"))
    try:
        parent.kill()
        time.sleep(1.3)
        assert is_alive(mongod)
    finally:
        os.kill(child, signal.SIGKILL)
    eventually(lambda: not is_alive(mongod), 60)


def test_the_server_is_not_lost_when_the_working_directory_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    monkeypatch.chdir(folder.parent)
    with open_server(Path(folder.name)) as server:
        monkeypatch.chdir("/")
        assert server.folder == folder
        assert server.ensure() is False
