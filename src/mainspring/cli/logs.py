"""Logs of the commands: to stderr, from INFO on, unless the user's module has set up logging itself."""

from __future__ import annotations

import logging

from mainspring.cli.printable import printable


class _PrintableFormatter(logging.Formatter):
    """Log lines quote job names and errors; a stack trace keeps its lines."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


def set_up_logs(level: int = logging.INFO) -> None:
    """Show log lines, if nobody has decided otherwise."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(level)
