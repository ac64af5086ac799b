"""The tests of `ssrf_corpus.py`, in a network of their own with the addresses of cloud metadata and private networks.

Where the machine does not allow to make one, loopback alone has canaries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.ssrf_corpus import ADDRESSES
from harness import namespaces

PRIVATE = ("169.254.169.254", "10.0.0.1", "fd00:ec2::254")
CORPUS = Path(__file__).with_name("ssrf_corpus.py")


@pytest.mark.timeout(300)
def test_no_webhook_reaches_this_machine_or_its_network_whatever_is_asked_for(tmp_path: Path) -> None:
    tests = [sys.executable, "-m", "pytest", str(CORPUS), "-p", "no:cacheprovider", f"--basetemp={tmp_path}/in"]
    addresses = [f"ip addr add {one}/{128 if ':' in one else 32} dev lo" for one in PRIVATE]
    ready = " && ".join(["ip link set lo up", *addresses])
    inside = namespaces.why_not(ready) is None
    ran = subprocess.run(
        [*namespaces.unshare(ready), *tests] if inside else tests,
        env=os.environ | ({ADDRESSES: " ".join(PRIVATE)} if inside else {}),
        cwd=CORPUS.parents[2],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
