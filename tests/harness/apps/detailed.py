"""A handler whose error cannot be sent between processes, though its details can; at the top of a module for that."""

from __future__ import annotations

import threading


class Unsendable(Exception):
    """It holds a lock, which cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("cannot be sent over")
        self.lock = threading.Lock()
        self.details = {"status": 418}


async def explain_badly() -> None:
    raise Unsendable
