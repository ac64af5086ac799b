"""The HTTP API of a service, called over the network with an API key.

Only the standard library is used, so that a machine of an operator needs the extra `cli` alone. Certificates are
checked; SSL_CERT_FILE names those of an authority of your own. Redirects are not followed: they would carry the key to
another place.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, urlsplit

from mainspring.cli.calls.door import Reply
from mainspring.cli.support.exit_codes import CommandFailed
from mainspring.errors import ConfigurationError

_TIMEOUT = 90.0
"""Longer than the longest answer takes, which waits for the end of a job."""
_STREAM_TIMEOUT = 60.0
"""The service sends something every 15 seconds."""


class Network:
    """A service at a URL."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = _read(url)
        self._key = key
        self.place = f"{self._url.scheme}://{self._url.netloc}{self._prefix}"
        self.keyed: bool | None = key is not None
        self._open: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.close()

    def send(self, method: str, target: str, body: bytes | None, once: str | None = None) -> Reply:
        answer = self._request(method, target, body, _TIMEOUT, once)
        try:
            return Reply(answer.status, answer.headers.get_content_type(), answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(method, error) from error

    def stream(self, target: str) -> tuple[Reply, Iterator[bytes]]:
        answer = self._request("GET", target, None, _STREAM_TIMEOUT)
        kind = answer.headers.get_content_type()
        if answer.status != http.client.OK:
            return Reply(answer.status, kind, answer.read()), iter(())
        return Reply(answer.status, kind, b""), self._parts(answer)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @property
    def _prefix(self) -> str:
        return self._url.path.rstrip("/")

    def _request(
        self, method: str, target: str, body: bytes | None, timeout: float, once: str | None = None
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json, text/event-stream", "User-Agent": "mainspring-cli"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if once is not None:
            headers["Idempotency-Key"] = once
        if self._open is not None:
            self._open.close()
        self._open = self._connection(timeout)
        try:
            self._open.connect()
        except OSError as error:
            raise CommandFailed(self._unreachable(error)) from error
        try:
            self._open.request(method, self._prefix + target, body, headers)
            return self._open.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(method, error) from error

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _parts(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while part := answer.readline():
                yield part
        except (OSError, http.client.HTTPException) as error:
            raise self._lost("GET", error) from error

    def _unreachable(self, error: OSError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names another authority"
        elif isinstance(error, ssl.SSLError):
            why = "it does not speak TLS; write http:// if it is on this machine"
        else:
            why = f"{error.strerror or error}; is it running? `mainspring serve` and `mainspring up` start one"
        return f"The service at {self.place} cannot be reached: {why}."

    def _lost(self, method: str, error: Exception) -> CommandFailed:
        done = (
            "" if method == "GET" else " It is unknown whether the request was carried out: check before you try again."
        )
        return CommandFailed(f"The answer of the service at {self.place} did not arrive: {error}.{done}")


def _read(text: str) -> SplitResult:
    """The URL of a service."""
    try:
        url = urlsplit(text)
        port_is_valid = url.port != 0
    except ValueError:
        port_is_valid = False
        url = SplitResult("", "", "", "", "")
    if url.scheme in ("mongodb", "mongodb+srv", "embedded"):
        raise ConfigurationError("--url is for a service, and this is a database: give it as --uri.")
    if url.scheme not in ("http", "https") or not url.hostname or not port_is_valid or url.query or url.fragment:
        raise ConfigurationError(f"--url must be the URL of a service, such as http://127.0.0.1:3000, not {text!r}.")
    if url.username is not None or url.password is not None:
        raise ConfigurationError("--url must not contain a password; give the API key as --key or MAINSPRING_API_KEY.")
    return url
