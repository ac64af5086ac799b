"""TLS between this process and MongoDB: what a URI asks for, and what to do where the two do not agree."""

from __future__ import annotations

import re

_SAID = re.compile(r"[?&](?:tls|ssl)=(true|false)\b", re.IGNORECASE)
_UNCHECKED = re.compile(r"[?&](tlsInsecure|tlsAllowInvalidCertificates|tlsAllowInvalidHostnames)=true\b", re.IGNORECASE)
_FILES = re.compile(r"[?&](tlsCAFile|tlsCertificateKeyFile|tlsCRLFile)=([^&]*)", re.IGNORECASE)
_CLIENT_CERTIFICATE = re.compile(r"[?&]tlsCertificateKeyFile=", re.IGNORECASE)


def asks_for_tls(uri: str | None) -> bool | None:
    """Whether the URI asks for TLS; None where a client was given instead."""
    if uri is None:
        return None
    said = _SAID.search(uri)
    return uri.startswith("mongodb+srv://") if said is None else said[1].lower() == "true"


def unchecked_by(uri: str | None) -> str | None:
    """The option of the URI by which another machine may pass for the server; None where certificates are checked."""
    found = _UNCHECKED.search(uri or "")
    return None if found is None else found[1]


def unusable_file(uri: str, error: OSError) -> str:
    """What to tell where a file that the URI names is not there, or is no certificate."""
    files = ", ".join(f"{name}={path}" for name, path in _FILES.findall(uri))
    return f"The MongoDB URI names a file that cannot be used ({files}): {error}"


def cure_of(message: str, uri: str) -> str | None:
    """What to do about a connection that could not be made, where TLS is the likely reason."""
    if not asks_for_tls(uri):
        return "If the server requires TLS, add tls=true to the URI." if "connection closed" in message else None
    if "CERTIFICATE_VERIFY_FAILED" in message:
        if "mismatch" in message:
            return "Let the URI name the server as its certificate does."
        if "expired" in message or "not yet valid" in message:
            return "Give the server a certificate that is valid now."
        return "If a CA of your own has signed the certificate, name its file in the URI: tlsCAFile=/path/to/ca.pem."
    if "SSL handshake failed" in message:
        return "If the server does not use TLS, take tls=true out of the URI."
    if re.search(r"connection (is already )?closed", message) and not _CLIENT_CERTIFICATE.search(uri):
        return (
            "If the server asks for a certificate of this client, name its file in the URI: "
            "tlsCertificateKeyFile=/path/to/client.pem."
        )
    return None
