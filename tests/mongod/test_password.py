"""Only a process that can read the folder gets into its server: passwords, keys, and the modes of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from harness.other_user import as_nobody, as_root
from mainspring.errors import EmbeddedError
from mainspring.mongod import ports, replica_set
from mainspring.mongod.binary import find_mongod
from mainspring.mongod.credentials import ensure_key, read_key
from mainspring.mongod.folder import Folder
from mainspring.mongod.process import SET_NAME, Mongod
from mainspring.mongod.server import open_server

IsAlive = Callable[[int], bool]
Eventually = Callable[..., None]
UNAUTHORIZED, WRONG_PASSWORD = 13, 18


def stranger(port: int) -> MongoClient[dict[str, Any]]:
    """A client without a password."""
    return MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=60_000)


def refusal(act: Callable[[], object]) -> int | None:
    with pytest.raises(OperationFailure) as caught:
        act()
    return caught.value.code


@contextmanager
def running(folder: Folder, *arguments: str) -> Iterator[int]:
    """A mongod on a folder's data, started as earlier versions did: without a password."""
    folder.prepare()
    port = ports.choose_port(None)
    assert port is not None
    command = [str(find_mongod()), "--dbpath", str(folder.data), "--port", str(port), "--bind_ip", "127.0.0.1"]
    command += ["--nounixsocket", "--replSet", SET_NAME, "--oplogSize", "50", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(60)


def test_a_client_without_the_password_can_neither_read_nor_write_nor_make_users(folder: Path) -> None:
    with open_server(folder) as server, stranger(server.port) as client:
        assert refusal(client.list_database_names) == UNAUTHORIZED
        assert refusal(client.mainspring.jobs.find_one) == UNAUTHORIZED
        assert refusal(lambda: client.mainspring["jobs.access"].insert_one({"role": "admin"})) == UNAUTHORIZED
        assert refusal(lambda: client.admin.command("createUser", "me", pwd="me", roles=["root"])) == UNAUTHORIZED
        assert refusal(lambda: client.admin.command("shutdown")) == UNAUTHORIZED


@as_root
def test_another_user_of_the_machine_reads_no_file_and_no_document(folder: Path) -> None:
    def find() -> str:
        with stranger(server.port) as client:
            return str(client.mainspring.jobs.find_one())

    with open_server(folder) as server, MongoClient[dict[str, Any]](server.uri) as client:
        client.mainspring.jobs.insert_one({"_id": "canary"})
        assert as_nobody(find) == "OperationFailure"
        assert as_nobody((folder / "uri").read_text) == "PermissionError"


def test_not_even_a_server_that_has_no_user_yet_lets_a_stranger_make_one(folder: Path, eventually: Eventually) -> None:
    place = Folder(folder)
    place.prepare()
    port = ports.choose_port(None)
    assert port is not None
    mongod = Mongod(place, str(find_mongod()), port, "0.25")
    try:
        eventually(lambda: ports.answers(port), 60)
        with stranger(port) as client:
            config = {"_id": SET_NAME, "members": [{"_id": 0, "host": f"127.0.0.1:{port}"}]}
            assert refusal(lambda: client.admin.command("replSetInitiate", config)) == UNAUTHORIZED
            assert refusal(lambda: client.admin.command("createUser", "me", pwd="me", roles=["root"])) == UNAUTHORIZED
    finally:
        mongod.stop()


def test_the_server_runs_no_javascript(folder: Path) -> None:
    with open_server(folder) as server, MongoClient[dict[str, Any]](server.uri) as client:
        client.test.things.insert_one({"_id": 1})
        with pytest.raises(OperationFailure):
            client.test.things.find_one({"$where": "true"})
        assert client.admin.command("getCmdLineOpts")["parsed"]["security"]["javascriptEnabled"] is False


def test_the_user_that_programs_connect_as_cannot_make_others(folder: Path) -> None:
    with open_server(folder) as server, MongoClient[dict[str, Any]](server.uri) as client:
        assert refusal(lambda: client.admin.command("createUser", "me", pwd="me", roles=["root"])) == UNAUTHORIZED
        assert refusal(lambda: client.admin.command("setParameter", 1, enableLocalhostAuthBypass=True)) == UNAUTHORIZED


def test_everything_in_the_folder_is_its_owners_alone(folder: Path) -> None:
    old = os.umask(0o022)
    try:
        with open_server(folder):
            open_to_others = [path.name for path in folder.rglob("*") if path.lstat().st_mode & 0o077]
    finally:
        os.umask(old)
    assert open_to_others == []


def test_the_password_is_in_no_log_and_on_no_command_line(folder: Path) -> None:
    with open_server(folder) as server:
        password = server.uri.partition("@")[0].rpartition(":")[2]
        assert len(password) >= 43
        processes = [psutil.Process(pid) for pid in (server.pid, server.guardian_pid)]
        said = [" ".join(process.cmdline()) for process in processes]
        said += [str(process.environ()) for process in processes]
    key = (folder / "mongod.key").read_text().strip()
    said += [path.read_text(errors="replace") for path in folder.glob("*") if path.suffix in (".log", ".out", ".json")]
    assert len(said) >= 7
    assert [text for text in said if password in text or key in text] == []


def test_the_file_uri_is_all_that_another_client_needs(folder: Path) -> None:
    with open_server(folder) as server:
        uri = (folder / "uri").read_text().strip()
        assert uri == server.uri
        with MongoClient[dict[str, Any]](uri) as client:
            assert client.test.things.insert_one({}).acknowledged


def test_data_that_was_made_without_a_password_gets_one(folder: Path, eventually: Eventually) -> None:
    with running(Folder(folder)) as port, stranger(port) as client:
        eventually(lambda: ports.answers(port), 60)
        client.admin.command("replSetInitiate", {"_id": SET_NAME, "members": [{"_id": 0, "host": f"127.0.0.1:{port}"}]})
        eventually(lambda: client.admin.command("hello")["isWritablePrimary"], 60)
        client.test.things.insert_one({"_id": "from before"})
    with open_server(folder) as server, MongoClient[dict[str, Any]](server.uri) as client:
        assert client.test.things.count_documents({"_id": "from before"}) == 1
        with stranger(server.port) as outside:
            assert refusal(outside.test.things.find_one) == UNAUTHORIZED


def test_a_server_that_was_left_running_without_its_key_is_named_with_the_cure(folder: Path) -> None:
    with open_server(folder):
        (folder / "mongod.key").unlink()
        with pytest.raises(EmbeddedError, match=r"runs without its password.*stop all processes that use the folder"):
            open_server(folder)


@pytest.mark.parametrize("fault", ["others may read it", "it is gone", "it is damaged"])
def test_a_key_that_is_no_good_is_made_anew(tmp_path: Path, fault: str) -> None:
    key = tmp_path / "mongod.key"
    ensure_key(key)
    first = read_key(key)
    ensure_key(key)
    assert first is not None and read_key(key) == first
    if fault == "others may read it":
        key.chmod(0o644)
    elif fault == "it is gone":
        key.unlink()
    else:
        key.write_text("")
    ensure_key(key)
    assert read_key(key) not in (first, None)
    assert key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["mongod.key"]


def test_a_new_key_makes_a_new_password_and_keeps_the_data(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as first, MongoClient[dict[str, Any]](first.uri) as client:
        client.test.things.insert_one({"_id": 1})
    eventually(lambda: not is_alive(first.pid) and not is_alive(first.guardian_pid), 60)
    (folder / "mongod.key").unlink()
    with open_server(folder) as second, MongoClient[dict[str, Any]](second.uri) as client:
        assert client.test.things.count_documents({}) == 1
        assert second.uri.partition("@")[0] != first.uri.partition("@")[0]
        with MongoClient[dict[str, Any]](first.uri.replace(str(first.port), str(second.port))) as old:
            assert refusal(old.test.things.find_one) == WRONG_PASSWORD


def test_a_user_who_dies_before_the_password_is_set_leaves_it_to_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replica_set, "_provide_user", die)
    with pytest.raises(KeyboardInterrupt):
        open_server(folder)
    monkeypatch.undo()
    with open_server(folder) as server, MongoClient[dict[str, Any]](server.uri) as client:
        assert client.test.things.insert_one({}).acknowledged


def test_a_folder_of_its_own_that_was_open_to_others_is_closed(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    with open_server(folder):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_with_other_things_in_it_stays_as_it_is_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "readme.txt").touch()
    with open_server(folder) as server:
        assert folder.stat().st_mode & 0o777 == 0o755
        assert server.ensure() is False
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [f"Others may look into {folder}"]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_in_which_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    (folder / "readme.txt").touch()
    folder.chmod(mode)
    with pytest.raises(EmbeddedError, match=r"Others may write in .* chmod go-w"):
        open_server(folder)
