"""The file `.env` of the current folder: settings for the commands, and for the handlers that they run.

A file must not control a process only because the process was started beside it: variables that name a program or a
library to run, or the folder where keys are stored, are read from the real environment only. All other variables are
settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from dotenv.main import DotEnv

from mainspring.cli.supervision.channel import URI_OF_WORKER
from mainspring.cli.support.exit_codes import say
from mainspring.mongod.binary import VARIABLE as MONGOD

_REAL_ONLY = (
    *(MONGOD, URI_OF_WORKER, "PATH", "HOME", "USERPROFILE", "APPDATA", "GCONV_PATH", "GLIBC_TUNABLES"),
    *("SSLKEYLOGFILE", "PYTHON_PRESITE", "__PYVENV_LAUNCHER__", "PYMONGOCRYPT_LIB", "BASH_ENV", "COMSPEC"),
)
_REAL_ONLY_PREFIXES = ("LD_", "DYLD_", "XDG_", "OPENSSL_", "SSL_CERT_")
# The interpreter's variables, apart from those that only change its output, its caches or its hashes.
_OF_PYTHON = re.compile(r"PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|IOENCODING$|UTF8$|HASHSEED$|_|$)")


def read_dot_env(path: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Add the variables of a file to the environment, apart from those that it has already, and those that a file may
    not set, which are reported on stderr."""
    try:
        found = DotEnv(path, override=False, encoding="utf-8").dict()
    except (OSError, UnicodeDecodeError) as error:
        say(f"{path} cannot be read and is ignored: {error}")
        return
    for name, value in found.items():
        if value is None or name in environment:
            continue
        if _is_real_only(name):
            say(f"{name} in {path} is ignored, since it chooses which code runs; set it in the environment itself.")
        else:
            environment[name] = value


def _is_real_only(name: str) -> bool:
    upper = name.upper()  # on Windows, names are the same in both cases
    return upper in _REAL_ONLY or upper.startswith(_REAL_ONLY_PREFIXES) or _OF_PYTHON.match(upper) is not None
