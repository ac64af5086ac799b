"""The doctor's judgement, on values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.doctor.advisories import ADVISORIES, Advisory
from mainspring.model.doctor.facts import (
    DoctorFacts,
    IndexFact,
    OplogFacts,
    ServerFacts,
    ServiceFacts,
    SilentSchedule,
)
from mainspring.model.doctor.findings import DoctorReport, Finding
from mainspring.model.doctor.work_checks import make_findings
from mainspring.model.schema_versions import SchemaStatus
from mainspring.model.views.problems import Due, Held, LostLease, ProblemFacts, ScheduleFact
from mainspring.model.workers import WorkerStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WORKER = WorkerStatus("w", handlers=("mail",), queues=None, version="1.0")
SERVER = ServerFacts(
    (8, 0, 30),
    "replica set",
    data_members=3,
    majority_lag=timedelta(0),
    tls=True,
    users=("app",),
    roles=("readWrite",),
    zlib=False,
    oplog=OplogFacts(timedelta(days=2), True),
)
SOUND = DoctorFacts(
    server=SERVER,
    indexes=(IndexFact("jobs", "claim", True, True, 5, NOW - timedelta(days=1)),),
    work=ProblemFacts(NOW, (WORKER,)),
    schema=SchemaStatus(2, 2, True),
    service=ServiceFacts(True, 2, 1),
    at=NOW,
    scheduled_names=(("nightly", "mail"),),
    schedules_read=1,
)


def found(facts: DoctorFacts, check: str) -> list[Finding]:
    return [finding for finding in make_findings(facts).findings if finding.check == check]


def on(**changes: Any) -> DoctorFacts:
    return replace(SOUND, server=replace(SERVER, **changes))


def working(**changes: Any) -> DoctorFacts:
    assert SOUND.work is not None
    return replace(SOUND, work=replace(SOUND.work, **changes))


def test_a_sound_installation_has_one_finding_per_check_and_all_are_ok() -> None:
    report = make_findings(SOUND)
    assert report.status == "ok" and not report.problems
    assert all(finding.status == "ok" and not finding.cure for finding in report.findings), report.findings
    assert len({finding.check for finding in report.findings}) == len(report.findings) == 15


@pytest.mark.parametrize(
    ("facts", "check", "status", "words"),
    [
        (on(version=(7, 0, 5), zlib=True), "server version", "problem", "CVE-2025-14847"),
        (on(version=(7, 0, 5), zlib=False), "server version", "problem", "CVE-2026-9740"),
        (on(version=(7, 0, 5), tls=True, zlib=False), "server version", "problem", "CVE-2024-1351"),
        (on(version=(6, 0, 5), tls=False, zlib=False, loopback=True), "server version", "warning", "July 2025"),
        (on(version=(6, 0, 5), tls=False, zlib=False, loopback=True, embedded=True), "server version", "ok", "6.0.5"),
        (on(version=(6, 0, 5), zlib=True, loopback=True, embedded=True), "server version", "warning", "CVE-2025-14847"),
        (on(topology="standalone"), "topology", "problem", "standalone"),
        (on(topology="standalone", loopback=True), "topology", "warning", "standalone"),
        (on(data_members=1), "topology", "warning", "one node"),
        (on(data_members=1, embedded=True), "topology", "ok", "one node"),
        (replace(SOUND, service=ServiceFacts(True, 1, 1, audit_key="k1")), "audit log", "problem", "'k1'"),
        (on(data_members=3, down=("b:27017",)), "topology", "problem", "1 of the 3 nodes"),
        (on(data_members=2), "topology", "warning", "two nodes"),
        (on(data_members=2, arbiters=1), "topology", "warning", "arbiter"),
        (on(majority_lag=timedelta(minutes=1)), "write concern", "problem", "1 minute behind"),
        (on(write_concern="w=1"), "write concern", "ok", "w=1"),
        (on(skew=timedelta(seconds=90)), "clock skew", "warning", "ahead of"),
        (on(skew=timedelta(seconds=-90)), "clock skew", "warning", "behind"),
        (on(skew=timedelta(seconds=2), uncertainty=timedelta(seconds=3)), "clock skew", "ok", "agree"),
        (on(oplog=None), "oplog", "skipped", "cannot be read"),
        (on(oplog=OplogFacts(timedelta(minutes=20), True)), "oplog", "warning", "20 minutes"),
        (on(oplog=OplogFacts(timedelta(minutes=20), False)), "oplog", "ok", "not full yet"),
        (on(topology="standalone", oplog=None), "oplog", "skipped", "standalone"),
        (on(tls=False), "TLS", "warning", "another machine"),
        (on(tls=False, loopback=True), "TLS", "ok", "does not leave this machine"),
        (on(tls=None), "TLS", "skipped", "given client"),
        (on(tls=True, unchecked_by="tlsInsecure"), "TLS", "problem", "another machine may pass for the server"),
        (on(tls=True, unchecked_by="tlsInsecure", loopback=True), "TLS", "ok", "encrypted"),
        (on(users=()), "authentication", "problem", "every program"),
        (on(users=(), loopback=True), "authentication", "warning", "every user of this machine"),
        (on(users=None), "authentication", "skipped", "does not say"),
        (on(roles=("root",)), "authentication", "warning", "'root'"),
        (on(roles=("root",), embedded=True), "authentication", "ok", "'root'"),
        (replace(SOUND, work=None), "work", "skipped", "not checked"),
        (replace(SOUND, schema=SchemaStatus(1)), "schema", "warning", "schema version 1"),
        (replace(SOUND, service=ServiceFacts(True)), "service keys", "warning", "has no key"),
        (replace(SOUND, service=ServiceFacts(False)), "service keys", "ok", "not been used"),
        (replace(SOUND, service=ServiceFacts(True, 1, 0)), "service keys", "warning", "role admin"),
        (working(workers=()), "workers", "warning", "No worker is alive"),
        (working(workers=(), due=(Due("q", NOW, "mail"),)), "workers", "problem", "No worker is alive"),
        (working(workers=(), held=(Held("handler", "mail", 3, False),)), "workers", "problem", "No worker is alive"),
        (working(workers=(WORKER, replace(WORKER, id="x", handlers=()))), "workers", "warning", "'x' has no handlers"),
        (working(workers=(WORKER, replace(WORKER, id="x", version="2.0"))), "workers", "warning", "1.0, 2.0"),
        (
            working(leases=(LostLease("j", "q", "mail", NOW - timedelta(minutes=5)),)),
            "leases",
            "problem",
            "lost the worker",
        ),
        (working(held=(Held("handler", "ghost", 3, False),)), "jobs without a worker", "problem", "'ghost'"),
        (working(held=(Held("version", "mail", 3, False),)), "jobs without a worker", "problem", "newer handler"),
        (
            working(workers=(replace(WORKER, queues=("a",)),), due=(Due("b", NOW, "mail"),)),
            "jobs without a worker",
            "problem",
            "serves the queue 'b'",
        ),
        (replace(SOUND, schedules=(SilentSchedule("s", "mail", 0),)), "schedules", "warning", "never fired"),
        (replace(SOUND, schedules=(SilentSchedule("s", "mail", 4),)), "schedules", "ok", "1 schedule"),
        (
            replace(SOUND, schedules=(SilentSchedule("s", "", 0, "rule must be a document."),)),
            "schedules",
            "problem",
            "rule",
        ),
        (replace(SOUND, scheduled_names=(("s", "ghost"),)), "schedules", "warning", "'ghost'"),
    ],
)
def test_each_circumstance_has_its_finding_with_a_cure(facts: DoctorFacts, check: str, status: str, words: str) -> None:
    fitting = [finding for finding in found(facts, check) if words in finding.text]
    assert [finding.status for finding in fitting] == [status], found(facts, check)
    assert bool(fitting[0].cure) or status in ("ok", "skipped")


def test_indexes_that_are_missing_idle_or_foreign_are_told_apart() -> None:
    day = NOW - timedelta(days=1)
    missing = IndexFact("jobs", "lease", True, False)
    idle = IndexFact("jobs", "claim", True, True, 0, day)
    rare = IndexFact("jobs", "sealed", True, True, 0, day)
    foreign = IndexFact("jobs", "status_1", False, True, 0, day)
    new = IndexFact("jobs", "owner_1", False, True, 0, NOW)
    told = [
        (one.status, one.text) for one in found(replace(SOUND, indexes=(missing, idle, rare, foreign, new)), "indexes")
    ]
    assert [status for status, _ in told] == ["problem", "warning", "warning"]
    assert "jobs.lease" in told[0][1] and "jobs.claim" in told[1][1] and "jobs.status_1" in told[2][1]
    assert not any("sealed" in text or "owner_1" in text for _, text in told)
    assert [one.status for one in found(replace(SOUND, indexes=(rare, new)), "indexes")] == ["ok"]


def test_an_index_that_had_arrays_in_its_keys_is_told_with_the_way_to_make_it_again() -> None:
    day = NOW - timedelta(days=1)
    index = IndexFact("app.jobs", "finished", True, True, 5, day, ("finished_at", "state"))
    (finding,) = found(replace(SOUND, indexes=(index,)), "indexes")
    assert finding.status == "warning"
    assert "an array in finished_at and state of jobs" in finding.text and "app.jobs.finished" in finding.text
    wanted = "find({$or: [{'finished_at': {$type: 4}}, {'state': {$type: 4}}]})"
    assert f"db.getCollection('app.jobs').{wanted}" in finding.cure
    assert "db.getCollection('app.jobs').dropIndex('finished')" in finding.cure


def test_an_idle_index_is_no_news_while_no_worker_is_alive() -> None:
    idle = IndexFact("jobs", "claim", True, True, 0, NOW - timedelta(days=1))
    assert [one.status for one in found(replace(working(workers=()), indexes=(idle,)), "indexes")] == ["ok"]


def test_that_no_worker_is_alive_is_told_once() -> None:
    facts = replace(working(workers=(), due=(Due("q", NOW, "mail"),)), scheduled_names=(("nightly", "ghost"),))
    told = {one.check: one.status for one in make_findings(facts).findings if one.status != "ok"}
    assert told == {"workers": "problem"}


def test_jobs_that_wait_for_a_newer_handler_have_lost_no_worker() -> None:
    facts = working(held=(Held("version", "mail", 3, False),))
    assert [one.status for one in found(facts, "leases")] == ["ok"]


def test_a_server_that_does_not_say_whether_it_compresses_counts_as_one_that_does() -> None:
    (finding,) = [one for one in found(on(version=(8, 0, 16), zlib=None), "server version") if "14847" in one.text]
    assert finding.status == "problem" and "--networkMessageCompressors disabled" in finding.cure


def test_a_schedule_that_is_late_is_told_and_of_many_the_first_with_the_number_of_the_others() -> None:
    late = ScheduleFact("nightly", "mail", "default", NOW - timedelta(hours=1), NOW - timedelta(hours=1))
    assert any("nightly" in one.text for one in found(working(firing=(late,)), "schedules"))
    lost = tuple(LostLease(str(n), f"q{n}", "mail", NOW - timedelta(minutes=5)) for n in range(8))
    texts = [one.text for one in found(working(leases=lost), "leases")]
    assert len(texts) == 6 and texts[-1] == "And 3 more of this kind."


def test_the_doctor_says_where_it_has_not_looked_at_all_schedules() -> None:
    facts = replace(SOUND, schedules_read=1000, schedules_complete=False)
    assert "only the newest were checked" in found(facts, "schedules")[0].text


def test_the_worst_finding_is_the_status_of_the_report() -> None:
    findings = (Finding("a", "ok", ""), Finding("b", "problem", ""), Finding("c", "warning", ""))
    assert DoctorReport(NOW, findings).status == "problem"
    assert DoctorReport(NOW, findings[::2]).status == "warning"
    assert DoctorReport(NOW, ()).status == "ok"


def test_an_advisory_ends_with_the_release_that_has_the_fix() -> None:
    bleed = ADVISORIES[0]
    assert bleed.affects((6, 0, 26)) and not bleed.affects((6, 0, 27)) and not bleed.affects((9, 0, 0))
    assert bleed.affects((8, 2, 2)) and not bleed.affects((8, 2, 3))


def test_what_only_a_user_can_do_does_not_concern_an_embedded_server() -> None:
    old = on(version=(6, 0, 18), tls=False, zlib=False)
    told = [one.text for one in found(old, "server version")]
    assert any("CVE-2024-10921" in text for text in told) and any("CVE-2026-11933" in text for text in told)
    embedded = on(version=(6, 0, 18), tls=False, zlib=False, loopback=True, embedded=True)
    assert [one.status for one in found(embedded, "server version")] == ["ok"]


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda one: one.id)
def test_the_latest_releases_have_the_fixes_of_all_advisories(advisory: Advisory) -> None:
    latest = {(6, 0): 29, (7, 0): 40, (8, 0): 29, (8, 2): 12, (8, 3): 13}
    assert [series for series, patch in latest.items() if advisory.affects((*series, patch))] == []
