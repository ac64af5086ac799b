"""A process for handlers, as far as it runs without one."""

from __future__ import annotations

import signal
import sys
from multiprocessing import Pipe

import pytest

from mainspring.engine.run import child_process


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe breaks in another way there")
def test_a_process_whose_worker_died_while_it_started_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(child_process, "_die_with_parent", lambda: None)
    worker, mine = Pipe()
    worker.close()
    child_process.serve(mine, Pipe()[0])
