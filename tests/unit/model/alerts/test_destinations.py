"""Destinations of alert rules as they are shown: no credential is among them."""

from __future__ import annotations

from mainspring.client.alerts.destinations import make_destination


def test_of_a_webhook_only_the_server_and_references_to_secrets_are_shown() -> None:
    headers = {
        "Authorization": "Bearer secret://token",
        "X-Reference": "secret://other",
        "X-Key": "canary-1",
        "X-Both": "canary-2 secret://token",
    }
    destination = make_destination(
        {"type": "webhook", "url": "https://hook.example.com/canary-3?k=canary-4", "headers": headers}
    )
    assert destination.shown == {
        "type": "webhook",
        "url": "https://hook.example.com:443/[redacted]",
        "headers": {
            "Authorization": "Bearer secret://token",
            "X-Reference": "secret://other",
            "X-Key": "[redacted]",
            "X-Both": "[redacted]",
        },
    }
    assert "canary" not in repr(destination)
