"""The names of Mainspring's own jobs, and the hints where no worker has a handler."""

from __future__ import annotations

from mainspring.model.jobs.reserved_names import EMAIL, HTTP, hint_for


def test_a_job_of_mainspring_without_a_handler_has_a_cure_and_no_other_name() -> None:
    assert hint_for(EMAIL, [HTTP]).startswith(" Set MAINSPRING_SMTP_URL")
    assert hint_for("send-emial", ["send-email"]) == " Did you mean 'send-email'?"
    assert hint_for("other", ["send-email"]) == ""


def test_the_cures_of_webhooks_and_mails_name_both_kinds_of_workers() -> None:
    for name in (HTTP, EMAIL):
        assert "`mainspring worker` without a module" in hint_for(name, [])
        assert "scheduler.outgoing()" in hint_for(name, [])
