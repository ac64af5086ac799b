"""RRule: what its text may say, what is refused, and that nothing it says makes it search for long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import InvalidSchedule, RRule
from mainspring.rules import anchored
from mainspring.rules.rrule.compile import compiled
from unit.rules.agreement import check, utc
from unit.rules.writing import texts

START = utc("2026-01-05T09:00")
MOST_STEPS = 200_000


def firings(rule: RRule, number: int, start: datetime = START) -> list[str]:
    found = islice(rule.between(start, utc("2100-01-01")), number)
    return [at.isoformat(timespec="minutes") for at in found]


def steps(action: Callable[[], Any]) -> int:
    """How many functions are called by an action."""
    called = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return called


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=WEEKLY;BYDAY=MO,FR",
        "RRULE:FREQ=WEEKLY;BYDAY=MO,FR",
        "rrule:freq=weekly;byday=fr,mo;",
        "BYDAY=FR,MO,MO;FREQ=WEEKLY;INTERVAL=1;WKST=MO",
        "RRULE:FREQ=WEEKLY;\r\n BYDAY=MO,FR",
    ],
)
def test_the_same_rule_may_be_written_in_several_ways(text: str) -> None:
    rule = RRule(text, start=START)
    assert rule.text == "FREQ=WEEKLY;BYDAY=MO,FR"
    assert rule == RRule("FREQ=WEEKLY;BYDAY=MO,FR", start=START)
    assert firings(rule, 3) == ["2026-01-05T09:00+00:00", "2026-01-09T09:00+00:00", "2026-01-12T09:00+00:00"]


@pytest.mark.parametrize(
    ("text", "zone", "start"),
    [
        ("DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY", "UTC", "2026-01-05T09:00:00+00:00"),
        ("DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY", "Asia/Kolkata", "2026-01-05T14:30:00+05:30"),
        ("DTSTART;TZID=Asia/Kolkata:20260105T090000\nRRULE:FREQ=DAILY", "UTC", "2026-01-05T09:00:00+05:30"),
        ("DTSTART:20260105T090000\nRRULE:FREQ=DAILY", "Asia/Kolkata", "2026-01-05T09:00:00+05:30"),
        ("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY", "Asia/Kolkata", "2026-01-05T00:00:00+05:30"),
    ],
)
def test_the_text_may_have_the_start(text: str, zone: str, start: str) -> None:
    rule = RRule(text, zone)
    assert rule.start is not None
    assert rule.start.isoformat() == start
    assert rule.next(utc("2026-01-01")) == rule.start


def test_what_the_text_leaves_open_is_taken_from_the_start() -> None:
    start = datetime(2026, 1, 30, 8, 15, tzinfo=ZoneInfo("Europe/Berlin"))
    assert firings(RRule("FREQ=MONTHLY", "Europe/Berlin", start=start), 3) == [
        "2026-01-30T08:15+01:00",
        "2026-03-30T08:15+02:00",
        "2026-04-30T08:15+02:00",
    ]
    assert firings(RRule("FREQ=YEARLY;BYWEEKNO=20", "Europe/Berlin", start=start), 2) == [
        "2026-05-15T08:15+02:00",
        "2027-05-21T08:15+02:00",
    ]


def test_the_start_itself_fires_only_if_it_fits() -> None:
    assert firings(RRule("FREQ=WEEKLY;BYDAY=TU", start=START), 1) == ["2026-01-06T09:00+00:00"]


def test_without_a_start_it_counts_from_the_instant_it_is_asked_about() -> None:
    rule = RRule("FREQ=DAILY;INTERVAL=2")
    assert rule.start is None
    assert rule.next(START) == START + timedelta(days=2)
    assert rule.previous(START) is None
    assert list(rule.between(START, START + timedelta(days=3))) == [START, START + timedelta(days=2)]
    assert rule.count(START, START + timedelta(days=3)) == 2


def test_a_schedule_gives_it_a_start_unless_it_has_one() -> None:
    filled = RRule("FREQ=DAILY").anchored(START + timedelta(milliseconds=700))
    assert filled == RRule("FREQ=DAILY", start=START)
    assert filled.anchored(utc("2027-01-01")) is filled


def test_a_rule_that_is_declared_again_goes_on_from_its_old_start() -> None:
    before = RRule("FREQ=DAILY;INTERVAL=3", start=START)
    assert anchored(RRule("FREQ=DAILY;INTERVAL=3"), utc("2027-01-01"), before) == before
    other = anchored(RRule("FREQ=DAILY;INTERVAL=4"), utc("2027-01-01"), before)
    assert other == RRule("FREQ=DAILY;INTERVAL=4", start=utc("2027-01-01"))


@pytest.mark.parametrize("count", [1, 2, 7, 100_000])
def test_count_is_the_number_of_all_firings(count: int) -> None:
    rule = RRule(f"FREQ=MINUTELY;INTERVAL=3;BYDAY=MO,WE;COUNT={count}", start=START)
    endless = RRule("FREQ=MINUTELY;INTERVAL=3;BYDAY=MO,WE", start=START)
    last = rule.previous(utc("2100-01-01"))
    assert last is not None
    assert rule.next(last) is None
    assert rule.count(START, utc("2100-01-01")) == count == endless.count(START, last) + 1


def test_count_counts_what_fires_on_nights_of_change() -> None:
    start = datetime(2026, 3, 28, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    left_out = RRule("FREQ=DAILY;COUNT=2", "Europe/Berlin", start=start, gap="skip")
    assert firings(left_out, 9) == ["2026-03-28T02:30+01:00", "2026-03-30T02:30+02:00"]
    moved = RRule("FREQ=DAILY;COUNT=2", "Europe/Berlin", start=start)
    assert firings(moved, 9) == ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00"]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260107T075959Z", "2026-01-06T09:00:00+01:00"),
        ("20260107T080000Z", "2026-01-07T09:00:00+01:00"),
        ("20260107T090000", "2026-01-07T09:00:00+01:00"),
        ("20260107T085959", "2026-01-06T09:00:00+01:00"),
        ("20260107", "2026-01-07T09:00:00+01:00"),
    ],
)
def test_until_is_the_last_instant_and_a_date_means_all_of_its_day(until: str, last: str) -> None:
    start = datetime(2026, 1, 5, 9, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = RRule(f"FREQ=DAILY;UNTIL={until}", "Europe/Berlin", start=start)
    found = rule.previous(utc("2100-01-01"))
    assert found is not None
    assert found.isoformat() == last
    assert rule.next(found) is None


@pytest.mark.parametrize(("fold", "firings"), [("first", [0]), ("last", [1]), ("both", [0, 1])])
def test_the_only_firing_is_found_from_between_its_two_passes(fold: Any, firings: list[int]) -> None:
    text = "FREQ=YEARLY;INTERVAL=10000;BYMONTH=10;BYMONTHDAY=25;BYHOUR=2;BYMINUTE=30;BYSECOND=0"
    rule = RRule(text, "Europe/Berlin", start=utc("2026-10-01"), fold=fold)
    passes = [utc("2026-10-25T00:30"), utc("2026-10-25T01:30")]
    between = utc("2026-10-25T00:40"), utc("2026-10-25T01:10")
    assert check(rule, utc("2026-10-01"), utc("2027-01-01")) == [passes[one] for one in firings]
    for at in between:
        assert rule.next(at) == (passes[1] if 1 in firings else None)
        assert rule.previous(at) == (passes[0] if 0 in firings else None)


@pytest.mark.parametrize(
    ("text", "zone", "start", "after", "expected"),
    [
        (
            "FREQ=HOURLY;INTERVAL=60;BYMONTH=1,9,10;BYMONTHDAY=-7",
            "Europe/Berlin",
            "2026-10-23T10:34:10",
            "2026-10-23T10:34:10",
            "2026-10-25T23:34:10+01:00",
        ),
        (
            "FREQ=HOURLY;INTERVAL=10000;BYMONTHDAY=-6;BYDAY=MO,FR,SA,SU",
            "Africa/Cairo",
            "2026-10-09T19:59:38",
            "2026-10-29T21:00:00",
            "2035-11-25T05:59:38+02:00",
        ),
    ],
)
def test_hours_are_found_on_the_day_of_a_change_and_after_years(
    text: str, zone: str, start: str, after: str, expected: str
) -> None:
    """On the day of a change the hours before it are others than those after it; a rare day is awaited for years."""
    rule = RRule(text, zone, start=utc(start))
    found = rule.next(utc(after))
    assert found is not None
    assert found.isoformat() == expected
    assert rule.previous(found + timedelta(seconds=1)) == found


def test_notes_tell_what_the_clocks_did() -> None:
    zone = "Europe/Berlin"
    early = RRule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", zone, start=START, fold="both")
    assert early.notes(utc("2026-03-29T01:00")) == (
        "02:30 does not exist on this night in Europe/Berlin; fires at 03:00 instead",
    )
    assert early.notes(utc("2026-10-25T00:30")) == (
        "02:30 happens twice on this night in Europe/Berlin; this is the first pass",
    )
    assert "second pass" in early.notes(utc("2026-10-25T01:30"))[0]
    assert early.notes(utc("2026-03-28T01:30")) == ()
    assert early.notes(utc("2026-03-29T05:00")) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "takes a text such as"),
        (None, "takes a text such as"),
        ("daily", "parts look like FREQ=DAILY"),
        ("INTERVAL=2", "needs FREQ, one of YEARLY"),
        ("FREQ=FORTNIGHTLY", "FREQ must be one of"),
        ("FREQ=DAILY;BYDAYS=MO", "no part 'BYDAYS'; did you mean BYDAY"),
        ("FREQ=DAILY;BYEASTER=1", "no part 'BYEASTER'"),
        ("FREQ=DAILY;FREQ=WEEKLY", "has FREQ twice"),
        ("FREQ=DAILY;INTERVAL=0", "from 1 to 1,000,000"),
        ("FREQ=DAILY;INTERVAL=2000000", "from 1 to 1,000,000"),
        ("FREQ=DAILY;COUNT=0", "from 1 to 100,000"),
        ("FREQ=DAILY;COUNT=100001", "from 1 to 100,000"),
        ("FREQ=DAILY;COUNT=٣", "from 1 to 100,000"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20300101", "COUNT and UNTIL together; give one"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL must be a date"),
        ("FREQ=DAILY;UNTIL=20301332", "does not exist"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR takes whole numbers from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=", "BYHOUR takes whole numbers"),
        ("FREQ=DAILY;BYMONTHDAY=0", "or from -31 to -1"),
        ("FREQ=DAILY;BYSECOND=60", "from 0 to 59"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY takes MO, TU"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY takes MO, TU"),
        ("FREQ=WEEKLY;BYDAY=1MO", "an ordinal in BYDAY with FREQ=WEEKLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO with FREQ=MONTHLY"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY with FREQ=MONTHLY"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "an ordinal in BYDAY with BYWEEKNO"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS alone"),
        ("FREQ=DAILY\nRRULE:FREQ=WEEKLY", "takes one rule, not 2; join several by AnyOf"),
        ("FREQ=DAILY\nEXDATE:20260101T000000Z", r"no EXDATE: put these days into a calendar and use \.excluding"),
        ("FREQ=DAILY\nRDATE:20260101T000000Z", r"no RDATE: join the rule with At"),
        ("FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "no EXRULE"),
        ("DTSTART:yesterday\nRRULE:FREQ=DAILY", "is not a start"),
        ("DTSTART:20260101T000000Z\nDTSTART:20260101T000000Z\nRRULE:FREQ=DAILY", "two lines of DTSTART"),
        ("DTSTART;TZID=Europe/Berlin:20260101T000000Z\nRRULE:FREQ=DAILY", "names a zone and UTC"),
        ("DTSTART;TZID=Europe/Berlim:20260101T000000\nRRULE:FREQ=DAILY", "Did you mean 'Europe/Berlin'"),
        ("FREQ=DAILY;BYMONTH=" + ",".join(["1"] * 5000), "at most 4000 characters"),
        (
            "FREQ=DAILY;BYHOUR=0,1,2;BYMINUTE=" + ",".join(map(str, range(60))) + ";BYSECOND=0,1,2,3,4,5,6,7,8",
            "1,620 times a day, and 1,440 are the most; use FREQ=MINUTELY or FREQ=SECONDLY",
        ),
    ],
)
def test_what_is_no_rule_is_refused_with_its_cure(text: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        RRule(text)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"gap": "never"}, "gap must be one of"),
        ({"fold": "never"}, "fold must be one of"),
        ({"start": datetime(2026, 1, 1)}, "start=2026-01-01T00:00:00 has no time zone"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        RRule("FREQ=DAILY", **options)


def test_two_starts_or_two_zones_are_refused() -> None:
    with pytest.raises(InvalidSchedule, match="leave out start="):
        RRule("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY", start=START)
    with pytest.raises(InvalidSchedule, match="leave one of them out"):
        RRule("DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:FREQ=DAILY", "Asia/Kolkata")


NEVER = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=4;BYMONTHDAY=31",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
    "FREQ=YEARLY;BYDAY=MO;BYSETPOS=100;BYMONTH=1",
    "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
    "FREQ=SECONDLY;BYSECOND=1;BYSETPOS=2",
    "FREQ=YEARLY;BYYEARDAY=1;BYMONTH=12",
]


@pytest.mark.parametrize("text", NEVER)
def test_a_rule_that_never_fires_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fires"):
        RRule(text)
    with pytest.raises(InvalidSchedule, match="never fires from 2026-01-05T09:00:00"):
        RRule(text, start=START)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=2",
        "FREQ=DAILY;UNTIL=20251231",
    ],
)
def test_a_rule_that_its_start_keeps_from_firing_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fires from"):
        RRule(text, start=START)


@pytest.mark.parametrize(
    "text",
    [
        *NEVER,
        "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=7;BYSECOND=11",
        "FREQ=MINUTELY;INTERVAL=999983;BYHOUR=3;BYMINUTE=7",
        "FREQ=HOURLY;INTERVAL=1000000;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=DAILY;INTERVAL=1000000",
        "FREQ=WEEKLY;INTERVAL=1000000;BYDAY=MO,TU,WE,TH,FR,SA,SU",
        "FREQ=YEARLY;INTERVAL=1000000",
        "FREQ=YEARLY;INTERVAL=397;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=DAILY;INTERVAL=999;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;BYYEARDAY=" + ",".join(map(str, [*range(1, 367), *range(-366, 0)])),
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=5SU;COUNT=100000",
        "FREQ=SECONDLY;COUNT=100000",
        "FREQ=YEARLY;COUNT=100000",
    ],
)
def test_no_rule_makes_a_search_long(text: str) -> None:
    def ask() -> None:
        compiled.cache_clear()
        try:
            rule = RRule(text, "Europe/Berlin", start=START)
        except InvalidSchedule:
            return
        for at in (START, utc("2400-01-01"), utc("9990-01-01"), utc("9999-12-20")):
            rule.next(at)
            rule.previous(at)

    list(RRule("FREQ=DAILY", "Europe/Berlin", start=START).between(START, utc("2126-01-01")))  # zones are read once
    assert steps(ask) < MOST_STEPS


@settings(max_examples=30, deadline=None)
@given(texts(("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")), st.integers(1, 10**6))
def test_whatever_is_written_is_refused_or_answered_soon(text: str, interval: int) -> None:
    text = ";".join(part for part in text.split(";") if "INTERVAL" not in part) + f";INTERVAL={interval}"

    def ask() -> None:
        try:
            rule = RRule(text, start=START)
        except InvalidSchedule:
            return
        found = rule.next(utc("2031-01-01"))
        if found is not None:
            check(rule, found, found + timedelta(minutes=1))

    assert steps(ask) < MOST_STEPS


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="FREQ=;DAILYBMONTHUW0123456789,-:\n ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        RRule(text)
    except InvalidSchedule:
        pass


def test_a_second_of_thirty_years_is_counted_and_not_walked() -> None:
    rule = RRule("FREQ=SECONDLY", "Europe/Berlin", start=START)
    assert rule.count(START, START + timedelta(days=10_000)) == 864_000_000
    assert steps(lambda: rule.count(START, START + timedelta(days=12))) < 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FREQ=DAILY", "every day, at 09:00, in UTC, from 2026-01-05"),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR",
            "every 2 weeks, on Monday and Friday, at 09:00, in UTC, from 2026-01-05",
        ),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "every month, on the last Friday, at 17:00, in UTC, from 2026-01-05"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,-1", "on the last and 1st day of the month"),
        ("FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-2", "of these only the 2nd last in each month"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "on Monday, in the 20th week of the year"),
        ("FREQ=YEARLY;COUNT=3", "on the 5th day of the month, in January, at 09:00, in UTC, from 2026-01-05, 3 times"),
        ("FREQ=DAILY;UNTIL=20300101", "until 2030-01-01"),
        ("FREQ=DAILY;UNTIL=20300101T120000Z", "until 2030-01-01 12:00 UTC"),
        ("FREQ=HOURLY;INTERVAL=6", "every 6 hours, at minute 0, in UTC"),
        ("FREQ=MINUTELY;BYHOUR=9,10", "every minute, in the hours 9 and 10, in UTC"),
    ],
)
def test_it_says_what_it_means(text: str, said: str) -> None:
    assert said in RRule(text, start=START).describe()


def test_firings_are_in_the_zone_with_a_fixed_offset() -> None:
    rule = RRule("FREQ=DAILY", "Asia/Kolkata", start=START)
    found = rule.next(START)
    assert found is not None
    assert (found.hour, found.utcoffset(), found.tzname()) == (14, timedelta(hours=5, minutes=30), "IST")
    assert rule.zones == ("Asia/Kolkata",)
    assert found.astimezone(UTC) == START + timedelta(days=1)
