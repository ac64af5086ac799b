"""A real SMTP server on loopback that keeps what it is sent, with or without TLS and a login."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

OK = "250 OK"


@dataclass
class Mail:
    """What arrived: the envelope, and the message byte by byte."""

    sender: str
    recipients: list[str]
    content: bytes
    encrypted: bool
    user: str | None

    @property
    def message(self) -> Message:
        return message_from_bytes(self.content)


@dataclass
class Sink:
    """The server's side. What it answers can be set: by recipient, to the sender, and to the mail itself."""

    port: int = 0
    replies: dict[str, str] = field(default_factory=dict)
    sender_reply: str = OK
    mail_reply: str = "250 queued as 4711"
    received: list[Mail] = field(default_factory=list)
    wire: bytes = b""
    logins: list[tuple[str, str]] = field(default_factory=list)
    password: str | None = None
    login_reply: str | None = None

    async def handle_MAIL(self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]) -> str:
        if self.sender_reply == OK:
            envelope.mail_from = address
        return self.sender_reply

    async def handle_RCPT(self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]) -> str:
        reply = self.replies.get(address, OK)
        if reply == OK:
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        if self.mail_reply.startswith("250"):
            login: Any = session.auth_data
            user = login.decode() if session.authenticated else None
            encrypted = server.transport.get_extra_info("ssl_object") is not None
            self.received.append(Mail(envelope.mail_from or "", envelope.rcpt_tos, envelope.content, encrypted, user))
        return self.mail_reply

    @property
    def commands(self) -> list[str]:
        """The lines that a client has sent as commands, up to its first mail's content."""
        lines = self.wire.decode("latin-1").split("\r\n")
        return lines[: lines.index("DATA") + 1] if "DATA" in lines else lines

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, auth_data: Any) -> AuthResult:
        assert isinstance(auth_data, LoginPassword)
        user, password = auth_data.login.decode(), auth_data.password.decode()
        self.logins.append((user, password))
        if password == self.password:
            return AuthResult(success=True, auth_data=auth_data.login)
        if self.login_reply is not None:
            return AuthResult(success=False, handled=False, message=self.login_reply)
        return AuthResult(success=False, handled=False)


class _Recording(SMTP):
    """Keeps the very bytes that come over the wire, those of a TLS connection as they are when decrypted."""

    def data_received(self, data: bytes) -> None:
        self.event_handler.wire += data
        super().data_received(data)


@asynccontextmanager
async def smtp_sink(
    *,
    context: ssl.SSLContext | None = None,
    implicit: bool = False,
    password: str | None = None,
    plain_login: bool = False,
) -> AsyncIterator[Sink]:
    """A server: with a context it speaks TLS, from the first byte or by STARTTLS; with a password it wants a login."""
    sink = Sink(password=password)
    options: dict[str, Any] = {"hostname": "sink.test", "ident": "sink"}
    if context is not None and not implicit:
        options["tls_context"] = context
    if password is not None:
        options |= {"authenticator": sink.authenticate, "auth_require_tls": not (plain_login or implicit)}
    server = await asyncio.get_running_loop().create_server(
        lambda: _Recording(sink, **options), "127.0.0.1", 0, ssl=context if implicit else None
    )
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        await server.wait_closed()


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of its own for 127.0.0.1: the file to trust it by, and what a server uses."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=sink.test"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
