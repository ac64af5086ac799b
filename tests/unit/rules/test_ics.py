"""Calendars out of .ics files as other programs write them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import Calendar, InvalidSchedule


def ics(*events: str, head: str = "") -> str:
    """A file with these events, each given as its lines."""
    blocks = [f"BEGIN:VEVENT\nUID:{n}\nDTSTAMP:20260101T000000Z\n{event}\nEND:VEVENT" for n, event in enumerate(events)]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//example//holidays//EN", *([head] if head else []), *blocks]
    return "\n".join([*lines, "END:VCALENDAR", ""]).replace("\n", "\r\n")


def day(text: str) -> date:
    return date.fromisoformat(text)


def days_of(calendar: Calendar, year: int) -> list[str]:
    """All of its days in one year."""
    return [f"{one:%m-%d}" for one in _year(year) if calendar.contains(one)]


def _year(year: int) -> Iterator[date]:
    one = date(year, 1, 1)
    while one.year == year:
        yield one
        one += timedelta(days=1)


BERLIN = """BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
TZNAME:CEST
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
BEGIN:STANDARD
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
TZNAME:CET
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE"""


def test_a_file_of_public_holidays_is_read() -> None:
    text = ics(
        "SUMMARY:Good Friday\nDTSTART;VALUE=DATE:20260403\nDTEND;VALUE=DATE:20260404",
        "SUMMARY:Christmas\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nTRANSP:TRANSPARENT",
        "SUMMARY:A summary so long that it was folded by the progr\n am that wrote it\nDTSTART;VALUE=DATE:20260501",
        "SUMMARY:Cancelled\nDTSTART;VALUE=DATE:20260601\nSTATUS:CANCELLED",
        head="X-WR-CALNAME:Holidays",
    )
    for written in (text, text.encode(), text.replace("\r\n", "\n")):
        calendar = Calendar.from_ics(written)
        assert days_of(calendar, 2026) == ["04-03", "05-01", "12-25", "12-26"]


def test_events_with_times_take_the_days_on_which_they_are() -> None:
    calendar = Calendar.from_ics(
        ics(
            "DTSTART;TZID=Europe/Berlin:20260110T220000\nDTEND;TZID=Europe/Berlin:20260111T020000",
            "DTSTART;TZID=Europe/Berlin:20260210T080000\nDURATION:PT16H",
            "DTSTART:20260310T120000\nDTEND:20260310T130000",
            "DTSTART:20260410T233000Z\nDURATION:PT1H",
            "DTSTART:20260510T120000Z",
            head=BERLIN,
        )
    )
    expected = ["01-10", "01-11", "02-10", "03-10", "04-10", "04-11", "05-10"]
    assert days_of(calendar, 2026) == expected


def test_times_are_read_as_days_of_a_zone_if_one_is_given() -> None:
    text = ics(
        "DTSTART:20260410T233000Z\nDURATION:PT10M",
        "DTSTART;TZID=America/New_York:20260510T200000\nDURATION:PT1H",
        "DTSTART;VALUE=DATE:20260601",
        "DTSTART:20260701T233000\nDURATION:PT10M",
    )
    assert days_of(Calendar.from_ics(text), 2026) == ["04-10", "05-10", "06-01", "07-01"]
    berlin = Calendar.from_ics(text, timezone="Europe/Berlin")
    assert days_of(berlin, 2026) == ["04-11", "05-11", "06-01", "07-01"]


def test_a_day_of_every_year_is_kept_as_such() -> None:
    calendar = Calendar.from_ics(
        ics(
            "DTSTART;VALUE=DATE:20001225\nDTEND;VALUE=DATE:20001227\nRRULE:FREQ=YEARLY",
            "DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;INTERVAL=1",
            "DTSTART;VALUE=DATE:20000229\nRRULE:FREQ=YEARLY",
        )
    )
    assert calendar == Calendar(yearly=["12-25", "12-26", "01-01", "02-29"])


def test_days_of_every_week_are_kept_as_such() -> None:
    calendar = Calendar.from_ics(
        ics("DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU"), since=day("2026-02-01")
    )
    assert calendar == Calendar(weekdays=["SAT", "SUN"])


def test_what_begins_later_does_not_count_before() -> None:
    text = ics("DTSTART;VALUE=DATE:20280101\nRRULE:FREQ=YEARLY")
    calendar = Calendar.from_ics(text, since=day("2026-06-01"))
    assert not calendar.contains(day("2027-01-01"))
    assert calendar.contains(day("2028-01-01"))
    assert calendar.contains(day("2046-01-01"))


def test_other_repeated_events_are_written_out_for_twenty_years() -> None:
    text = ics("SUMMARY:Thanksgiving\nDTSTART;VALUE=DATE:19701126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    calendar = Calendar.from_ics(text, since=day("2026-06-01"))
    assert days_of(calendar, 2026) == ["11-26"]
    assert days_of(calendar, 2045) == ["11-23"]
    assert days_of(calendar, 2047) == []
    by_stamp = Calendar.from_ics(text)
    assert days_of(by_stamp, 2045) == ["11-23"]


def test_exceptions_and_additions_to_a_repeated_event_count() -> None:
    calendar = Calendar.from_ics(
        ics(
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=MONTHLY;COUNT=4\nEXDATE;VALUE=DATE:20260201\n"
            "EXDATE;VALUE=DATE:20260301,20260401\nRDATE;VALUE=DATE:20260515,20260616",
            "DTSTART:20260701T100000Z\nDURATION:PT1H\nRDATE;VALUE=PERIOD:20260801T220000Z/PT5H",
        )
    )
    assert days_of(calendar, 2026) == ["01-01", "05-15", "06-16", "07-01", "08-01", "08-02"]


def test_an_instance_that_was_moved_counts_where_it_was_moved_to() -> None:
    text = ics(
        "DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;COUNT=3",
        "RECURRENCE-ID;VALUE=DATE:20260112\nDTSTART;VALUE=DATE:20260114",
        "RECURRENCE-ID;VALUE=DATE:20260119\nDTSTART;VALUE=DATE:20260119\nSTATUS:CANCELLED",
    ).replace("UID:1", "UID:0")
    assert days_of(Calendar.from_ics(text.replace("UID:2", "UID:0")), 2026) == ["01-05", "01-14"]


def test_until_is_read_in_the_zone_of_the_event() -> None:
    text = ics(
        "DTSTART;TZID=Europe/Berlin:20260105T003000\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260106T233000Z",
        head=BERLIN,
    )
    assert days_of(Calendar.from_ics(text), 2026) == ["01-05", "01-06", "01-07"]


def test_long_events_are_kept_as_ranges() -> None:
    calendar = Calendar.from_ics(ics("DTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20460101"))
    assert calendar.ranges == ((day("2026-01-01"), day("2045-12-31")),)


def test_an_empty_file_is_an_empty_calendar() -> None:
    assert Calendar.from_ics(ics()) == Calendar()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no BEGIN:VCALENDAR"),
        ("hello", "This .ics file cannot be read"),
        (b"\xff\xfe\x00", "This .ics file cannot be read"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "no BEGIN:VCALENDAR"),
        (5, "text or bytes, not int"),
        ("BEGIN:VCALENDAR\n" + "X" * 1_000_001, "more than 1 MB"),
        (ics("SUMMARY:Nowhere"), "'Nowhere' has no DTSTART"),
        (ics("SUMMARY:Odd\nDTSTART:soon"), "'Odd' has no readable DTSTART"),
        (ics("SUMMARY:Odd\nDTSTART:20260101T000000Z\nDURATION:long"), "'Odd' has no readable DURATION"),
        (ics("SUMMARY:Odd\nDTSTART:20260102T000000Z\nDTEND:20260101T000000Z"), "'Odd' ends before it begins"),
        (ics("SUMMARY:Odd\nDTSTART:20260102T000000Z\nDTEND;VALUE=DATE:20260103"), "begins with a time and ends with a"),
        (ics("SUMMARY:Odd\nDTSTART;VALUE=DATE:20260102\nEXDATE:soon"), "no readable EXDATE"),
        (ics("SUMMARY:Odd\nDTSTART;VALUE=DATE:20260102\nRRULE:FREQ=NEVER"), "'Odd' repeats in a way"),
        (ics("SUMMARY:Odd\nDTSTART:20260102T000000Z\nRRULE:FREQ=HOURLY"), "takes no FREQ finer than DAILY"),
        (ics("SUMMARY:Odd\nDTSTART;VALUE=DATE:20260102\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "never fires"),
        (ics(*["DTSTART;VALUE=DATE:20260102\nRRULE:FREQ=DAILY"] * 3), "more than 10,000 days"),
        (ics(*["DTSTART;VALUE=DATE:20200102\nRRULE:FREQ=YEARLY"] * 501), "at most 500 repeated events"),
        (ics("DTSTART;VALUE=DATE:99991231\nDTEND;VALUE=DATE:99991231\nDURATION:P1D"), "beyond the year 9999"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(text: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        Calendar.from_ics(text)


def test_a_file_with_too_many_days_is_refused() -> None:
    days = [f"{date(1990, 1, 1) + timedelta(days=2 * n):%Y%m%d}" for n in range(20_001)]
    with pytest.raises(InvalidSchedule, match="at most 20,000 days"):
        Calendar.from_ics(ics(f"SUMMARY:Many\nDTSTART;VALUE=DATE:19900101\nRDATE;VALUE=DATE:{','.join(days)}"))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **options: Any) -> Any:
        if name == "icalendar":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidSchedule, match=r"pip install 'mainspring\[calendars\]'"):
        Calendar.from_ics(ics())


LINES = ics(
    "SUMMARY:One\nDTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20260103\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:20270101",
    "DTSTART;TZID=Europe/Berlin:20260110T220000\nDURATION:PT16H\nRRULE:FREQ=WEEKLY;COUNT=3",
    head=BERLIN,
).splitlines()


@settings(deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        cut = data.draw(st.integers(0, len(line)))
        damage = data.draw(st.sampled_from(("", "9", ";", ":", "=", "T", "Z", "-", '"', "\\", "é")))
        lines[place] = line[:cut] + damage + line[cut + data.draw(st.integers(0, 2)) :]
        if data.draw(st.booleans()):
            del lines[data.draw(st.integers(0, len(lines) - 1))]
    try:
        Calendar.from_ics("\n".join(lines))
    except InvalidSchedule:
        pass
