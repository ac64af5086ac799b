"""The fingerprint of an error, short and stable, by which dead letters with the same cause are grouped.

It is made of the job's name, the error's type, the message without its varying parts (numbers, ids, quoted texts,
addresses) and the innermost place in the user's own code, by file and function and not by line, so that it survives a
release. It is a hash: nothing of the message can be read from it.
"""

from __future__ import annotations

import hashlib
import re

# The characters of a message that are read, and the characters that count once its varying parts are replaced.
_READ, _LONGEST = 5000, 600
_DIGITS = 16

_VARYING = [
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"\bworker \S+", "worker <id>"),
        (r'"[^"]*(?:"|$)|“[^”]*(?:”|$)|`[^`]*(?:`|$)', "<text>"),
        (r"(?<!\w)'[^']*(?:'|$)", "<text>"),
        (r"\b\w+://\S+", "<address>"),
        (r"[^\s<>@]{1,100}@[^\s<>]+", "<address>"),
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b0x[0-9a-fA-F]+\b", "<id>"),
        (r"\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b", "<id>"),
        (r"[0-9]+(?:[.,:][0-9]+)*", "#"),
        (r"\s+", " "),
    )
]
_FRAME = re.compile(r'^[\s|]*File "([^"\n]+)", line [0-9]+, in (.+)$', re.MULTILINE)
_HEADER = "Traceback (most recent call last):"
_OURS = re.compile(r"[/\\]mainspring[/\\](?:engine|store|model|cron)[/\\]")
_STANDARD = re.compile(
    r"^<frozen|[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\](?!site-packages|dist-packages)", re.IGNORECASE
)
_SLASHES = re.compile(r"[/\\]")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def fingerprint(name: str, type: str, message: str, stack: str | None = None) -> str:
    """The fingerprint of an error of a job: 16 hex digits, the same for the same cause."""
    parts = "\0".join((name, type, outline(message), place(stack)))
    return hashlib.blake2b(parts.encode("utf-8", "replace"), digest_size=_DIGITS // 2).hexdigest()


def outline(message: str) -> str:
    """A message with marks in place of its varying parts."""
    message = message[:_READ]
    for pattern, instead in _VARYING:
        message = pattern.sub(instead, message)
    return message.strip()[:_LONGEST]


def place(stack: str | None) -> str:
    """The place of an error in the user's code: its innermost file and function, as far as the stack shows.

    Where all of the user's code is installed like a library, it is the outermost one, which is the handler.
    """
    if not isinstance(stack, str):
        return ""
    frames = _FRAME.findall(stack.rpartition(_HEADER)[2])
    foreign = [frame for frame in frames if not _OURS.search(frame[0]) and not _STANDARD.search(frame[0])]
    own = [frame for frame in foreign if not _INSTALLED.search(frame[0])]
    chosen = own[-1:] or foreign[:1] or frames[-1:]
    if not chosen:
        return ""
    path, function = chosen[0]
    return f"{_SLASHES.split(path)[-1]}:{function.strip()}"
