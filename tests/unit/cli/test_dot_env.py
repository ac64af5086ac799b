"""What the file `.env` of the current folder may set, and what it may not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.cli.support.dot_env import read_dot_env

CONTROLLING = (
    *("MAINSPRING_MONGOD", "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONPATH"),
    *("PYTHONHOME", "PYTHONSTARTUP", "PYTHONWARNINGS", "OPENSSL_CONF", "SSL_CERT_FILE", "XDG_CONFIG_HOME", "HOME"),
    *("USERPROFILE", "APPDATA", "GCONV_PATH", "GLIBC_TUNABLES", "MAINSPRING_WORKER_URI", "mainspring_mongod"),
    *("SSLKEYLOGFILE", "sslkeylogfile", "PYTHON_PRESITE", "__PYVENV_LAUNCHER__", "PYMONGOCRYPT_LIB", "BASH_ENV"),
    *(
        "COMSPEC",
        "LD_AUDIT",
        "LD_DEBUG_OUTPUT",
        "ld_preload",
        "DYLD_LIBRARY_PATH",
        "OPENSSL_MODULES",
        "OPENSSL_ENGINES",
    ),
    *("PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONINSPECT", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "pythonpath"),
)
HARMLESS = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED"}
"""The variables of the interpreter that a file may set: they change its output, its caches and its hashes."""


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment of the test's own."""
    return {"PORT": "1"}


@pytest.mark.parametrize("name", CONTROLLING)
def test_a_file_cannot_name_what_is_run(
    tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / ".env"
    path.write_text(f"{name}=./evil\nMONGODB_URI=mongodb://there\n")
    read_dot_env(path, environment)
    assert environment == {"PORT": "1", "MONGODB_URI": "mongodb://there"}
    warned = capsys.readouterr().err
    assert (
        warned == f"mainspring: {name} in {path} is ignored, since it chooses which code runs; "
        "set it in the environment itself.\n"
    )


def test_of_the_variables_of_this_interpreter_a_file_sets_the_harmless_ones_alone(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    told = subprocess.run([sys.executable, "-I", "--help-env"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^PYTHON[A-Z0-9]+\b(?!_)", told, re.MULTILINE))
    assert {"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME"} | HARMLESS <= names
    (tmp_path / ".env").write_text("".join(f"{name}=x\n" for name in sorted(names)))
    read_dot_env(tmp_path / ".env", environment)
    assert environment.keys() == {"PORT", *HARMLESS}


def test_the_real_environment_counts_more_and_needs_no_warning(
    tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    environment["MAINSPRING_MONGOD"] = "/usr/bin/mongod"
    (tmp_path / ".env").write_text(
        "MAINSPRING_MONGOD=./evil\nPORT=2\nexport MINE='a b'\nPYTHONUNBUFFERED=1\nEMPTY\n# COMMENT=1\n"
    )
    read_dot_env(tmp_path / ".env", environment)
    assert environment == {"PORT": "1", "MAINSPRING_MONGOD": "/usr/bin/mongod", "MINE": "a b", "PYTHONUNBUFFERED": "1"}
    assert capsys.readouterr().err == ""


def test_a_file_that_is_not_there_or_cannot_be_read_is_no_obstacle(
    tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    read_dot_env(tmp_path / ".env", environment)
    assert capsys.readouterr().err == ""
    (tmp_path / ".env").write_bytes(b"PORT=\xff\n")
    read_dot_env(tmp_path / ".env", environment)
    assert "cannot be read and is ignored" in capsys.readouterr().err
    assert environment == {"PORT": "1"}
