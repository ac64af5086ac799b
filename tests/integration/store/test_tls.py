"""A server that talks only TLS: jobs run, and a client that connects in another way gets an error with its cure."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.mail import make_certificate
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import ConfigurationError, Scheduler, Unavailable

pytestmark = pytest.mark.slow

# Long enough for a busy machine to get the server's answer.
PATIENCE = 8


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for 127.0.0.1 that is its own CA, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    whole = folder / "server.pem"
    whole.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return whole


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[Servers]:
    with Servers(1, name="tls", certificate=certificate) as servers:
        yield servers


@pytest.fixture
def plain(server: Servers) -> str:
    """The URI of a database of the test's own, without a word of TLS."""
    return server.uri(f"t_{secrets.token_hex(4)}")


async def run_one_job(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work() -> str:
        return "done"

    async def worker_is_known() -> bool:
        return any(worker.live for worker in await scheduler.workers.all())

    async with scheduler:
        job = await scheduler.schedule("work")
        assert (await job.wait(timeout=60)).result == "done"
        await eventually(worker_is_known, 60)  # the heartbeat has a client of its own


async def test_jobs_run_over_tls_with_the_ca_of_the_uri(plain: str, certificate: Path) -> None:
    await run_one_job(Scheduler(f"{plain}&tls=true&tlsCAFile={certificate}"))


async def test_jobs_run_over_tls_with_a_client_that_is_handed_in(plain: str, certificate: Path) -> None:
    async with AsyncMongoClient[dict[str, Any]](plain, tls=True, tlsCAFile=str(certificate)) as client:
        await run_one_job(Scheduler(client=client))


async def refusal(uri: str) -> str:
    scheduler = Scheduler(uri, operation_timeout=PATIENCE)
    with pytest.raises(Unavailable) as refused:
        await scheduler.connect()
    await scheduler.stop()
    return str(refused.value)


async def test_a_server_that_cannot_be_talked_to_so_says_what_to_do(plain: str, uri: str) -> None:
    without_tls = f"{uri}{'&' if '?' in uri else '?'}tls=true"
    told = await asyncio.gather(refusal(plain), refusal(f"{plain}&tls=true"), refusal(without_tls))

    assert "If the server requires TLS, add tls=true to the URI." in told[0]
    assert "If a CA of your own has signed the certificate, name its file in the URI: tlsCAFile=" in told[1]
    assert "take tls=true out of the URI" in told[2]


async def test_a_file_that_is_not_there_or_is_no_certificate_is_named(plain: str, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for name, text in (("missing.pem", "No such file"), ("empty.pem", "no certificate or crl")):
        file = tmp_path / name
        scheduler = Scheduler(f"{plain}&tls=true&tlsCAFile={file}")
        with pytest.raises(ConfigurationError) as refused:
            await scheduler.connect()
        assert f"names a file that cannot be used (tlsCAFile={file})" in str(refused.value)
        assert text in str(refused.value)
