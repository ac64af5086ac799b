"""Settings and the choice of the URI: defaults, refusals, and the order of precedence."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import ConfigurationError, Scheduler
from mainspring.config.settings import Settings, choose_uri, make_settings

LOCAL = "mongodb://127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("option", "meant"),
    [("concurency", "concurrency"), ("leases", "lease"), ("pollinterval", "poll_interval"), ("queue", "queues")],
)
def test_an_unknown_option_is_refused_with_the_one_that_was_probably_meant(option: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Scheduler has no option '{option}'. Did you mean '{meant}'"):
        make_settings({option: 1})


def test_an_option_like_no_other_is_refused_with_the_list_of_all() -> None:
    with pytest.raises(ConfigurationError, match="Known are: aging, app, collection, concurrency, database"):
        make_settings({"zzz": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lease": 0.1}, 'lease must be seconds, a timedelta or text such as "5m", of at least 0.5 s, not 0.1'),
        ({"lease": "60"}, "lease='60' lacks a unit; write 60s"),
        ({"lease": None}, "lease must be seconds"),
        ({"lease": float("nan")}, "lease must be seconds"),
        ({"poll_interval": 0}, 'poll_interval must be seconds, a timedelta or text such as "5m", of at least 0.01 s'),
        ({"operation_timeout": -1}, "operation_timeout must be seconds"),
        ({"grace": -1}, 'grace must be seconds, a timedelta or text such as "5m", of at least 0 s'),
        ({"timeout": -1}, "timeout must be seconds"),
        ({"keep_finished": "week"}, "keep_finished='week' is not a duration"),
        ({"keep_failed": True}, "keep_failed must be seconds"),
        ({"aging": 0}, 'aging must be seconds, a timedelta or text such as "5m", of at least 0.1 s, not 0'),
        ({"aging": "10ms"}, "aging must be seconds"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, not 0"),
        ({"concurrency": 2.5}, "concurrency must be a whole number"),
        ({"concurrency": True}, "concurrency must be a whole number"),
        ({"prefetch": -1}, "prefetch must be a whole number of at least 0"),
        ({"max_data": 0}, "max_data must be a whole number of at least 1"),
        ({"max_result": "64k"}, "max_result must be a whole number"),
        (
            {"max_data": 8 * 1024**2 + 1},
            "max_data must be at most 8,388,608 bytes, not 8,388,609: a job must fit",
        ),
        ({"max_steps_size": 2**30}, "max_steps_size must be at most 8,388,608 bytes, not 1,073,741,824"),
        ({"max_data": 5 * 2**20, "max_steps_size": 5 * 2**20}, "must be at most 9,437,184 bytes together"),
        ({"max_result": 2**30}, "max_result must be at most 2,097,152 bytes, not 1,073,741,824"),
        ({"queues": "mail"}, "queues must be a list of queue names, or None for all, not 'mail'"),
        ({"queues": []}, "queues must be a list of queue names"),
        ({"queues": [""]}, "a queue's name must be printable text"),
        ({"database": "a/b"}, "'a/b' is not a valid database name"),
        ({"database": ""}, "is not a valid database name"),
        ({"collection": "$jobs"}, "is not a valid collection name"),
        ({"collection": "system.jobs"}, "is not a valid collection name"),
        ({"keep_ledger": -1}, "keep_ledger must be seconds"),
        ({"app": ""}, "app must be printable text"),
        ({"app": None}, "app must be printable text"),
        ({"undeclared": "delete"}, "undeclared must be report or remove, not 'delete'"),
        ({"undeclared": "remove"}, 'say which app this is with app="…"'),
        ({"undeclared": "remove", "app": "default"}, 'say which app this is with app="…"'),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_settings(options)


def test_durations_may_be_timedeltas() -> None:
    settings = make_settings({"lease": timedelta(minutes=2), "keep_finished": timedelta(days=1), "grace": 5})
    assert (settings.lease, settings.keep_finished, settings.grace) == (120.0, 86400.0, 5.0)


def test_the_defaults_are_those_that_are_promised() -> None:
    settings = make_settings({})
    assert settings == Settings()
    assert (settings.lease, settings.concurrency, settings.poll_interval, settings.max_data) == (60, 10, 1, 256 * 1024)
    assert (settings.collection, settings.queues, settings.keep_failed, settings.timeout) == ("jobs", None, None, None)
    assert (settings.app, settings.undeclared, settings.keep_ledger) == ("default", "report", 90 * 86400)


def test_what_may_be_left_out_for_ever_may_be_none() -> None:
    settings = make_settings(
        {"keep_finished": None, "keep_ledger": None, "timeout": None, "queues": None, "database": None, "aging": None}
    )
    assert (settings.keep_finished, settings.keep_ledger, settings.aging) == (None, None, None)


def test_an_app_with_a_name_may_remove_what_it_declares_no_more() -> None:
    settings = make_settings({"app": "shop", "undeclared": "remove"})
    assert (settings.app, settings.undeclared) == ("shop", "remove")


def test_queues_are_kept_once_each_and_in_order() -> None:
    assert make_settings({"queues": ["b", "a", "b"]}).queues == ("b", "a")


@pytest.mark.parametrize("lease", [0.5, 3.0, 60.0, 3600.0])
def test_a_claim_can_be_renewed_twice_and_fenced_before_its_lease_ends(lease: float) -> None:
    settings = Settings(lease=lease)
    assert settings.renew_timeout < lease / 6
    assert settings.renew_every + 2 * settings.renew_timeout < lease - settings.fence_margin
    assert settings.rescue_grace > 0


def test_the_argument_comes_before_the_environment() -> None:
    environment = {"MAINSPRING_URI": "mongodb://a", "MONGODB_URI": "mongodb://b", "MONGO_URI": "mongodb://c"}
    assert choose_uri("mongodb://z", environment) == "mongodb://z"
    assert choose_uri(None, environment) == "mongodb://a"
    del environment["MAINSPRING_URI"]
    assert choose_uri(None, environment) == "mongodb://b"
    del environment["MONGODB_URI"]
    assert choose_uri(None, environment) == "mongodb://c"


def test_with_nothing_said_the_embedded_server_is_used() -> None:
    assert choose_uri(None, {}) == "embedded:.mainspring"
    assert choose_uri(None, {"MAINSPRING_URI": ""}) == "embedded:.mainspring"
    assert choose_uri(None, {"MAINSPRING_URI": "embedded:./elsewhere"}) == "embedded:./elsewhere"


def test_the_scheduler_looks_at_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGO_URI", "mongodb://127.0.0.1:3/c")
    monkeypatch.setenv("MAINSPRING_URI", "mongodb://127.0.0.1:1/a")
    assert Scheduler().uri == "mongodb://127.0.0.1:1/a"
    assert Scheduler(LOCAL).uri == LOCAL


@pytest.mark.parametrize("uri", ["", "   "])
def test_an_empty_uri_is_refused_with_its_cure(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="The URI is empty; leave it out to use the embedded MongoDB"):
        Scheduler(uri)


def test_an_embedded_uri_names_a_folder() -> None:
    with pytest.raises(ConfigurationError, match=r"embedded: needs a folder, such as embedded:\./data"):
        Scheduler("embedded:")


def test_a_uri_of_another_kind_is_refused_without_showing_its_password() -> None:
    with pytest.raises(ConfigurationError, match="must begin with mongodb://") as caught:
        Scheduler("postgres://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_default_retry_may_be_a_number_and_nothing_else() -> None:
    Scheduler(LOCAL, retry=5)
    with pytest.raises(ConfigurationError, match="retry must be a Retry or a number"):
        Scheduler(LOCAL, retry="5")  # type: ignore[arg-type]


def test_a_plain_with_is_refused_with_the_two_that_work() -> None:
    asynchronous: Any = Scheduler(LOCAL)
    with pytest.raises(ConfigurationError, match=r"Write `async with scheduler:` .* mainspring\.sync"), asynchronous:
        pass
