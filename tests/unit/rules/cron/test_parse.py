"""What an expression may look like, and how one that is wrong is refused: where, why, and what was expected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.errors import ConfigurationError, InvalidCron, InvalidSchedule
from mainspring.rules.cron import Cron
from mainspring.rules.cron.pattern import compile_pattern

START = datetime(2024, 1, 1, tzinfo=UTC)


def refusal(expression: Any) -> InvalidCron:
    with pytest.raises(InvalidCron) as caught:
        Cron(expression)
    return caught.value


def fires(expression: str, part: str, length: timedelta) -> set[int]:
    """The minutes, seconds or months at which an expression fires within a time."""
    return {getattr(at, part) for at in Cron(expression).between(START, START + length)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", set(range(60))),
        ("7", {7}),
        ("07", {7}),
        ("1,2,59", {1, 2, 59}),
        ("10-13", {10, 11, 12, 13}),
        ("58-2", {58, 59, 0, 1, 2}),
        ("*/15", {0, 15, 30, 45}),
        ("5/15", {5, 20, 35, 50}),
        ("10-50/10", {10, 20, 30, 40, 50}),
        ("50-10/5", {50, 55, 0, 5, 10}),
        ("*/60", {0}),
        ("5-5", {5}),
        ("5-4", set(range(60))),
        ("1,*/30,50-52", {0, 1, 30, 50, 51, 52}),
    ],
)
def test_a_field_stands_for_these_values(text: str, expected: set[int]) -> None:
    assert fires(f"{text} * * * *", "minute", timedelta(hours=1)) == expected
    assert fires(f"{text} * * * * *", "second", timedelta(minutes=1)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("JAN", {1}),
        ("jan-mar", {1, 2, 3}),
        ("December", {12}),
        ("NOV-FEB", {11, 12, 1, 2}),
        ("NOV-FEB/2", {11, 1}),
        ("*/5", {1, 6, 11}),
        ("OCT/2", {10, 12}),
        ("5,MAY", {5}),
    ],
)
def test_a_month_may_be_named(text: str, expected: set[int]) -> None:
    assert fires(f"0 0 * {text} *", "month", timedelta(days=366)) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0", "7"),
        ("SUN", "0"),
        ("sunday", "0"),
        ("FRI-MON", "0,1,5,6"),
        ("5-7", "FRI,SAT,SUN"),
        ("0-7", "*"),
        ("7-2", "SUN,MON,TUE"),
        ("6-0", "SAT,SUN"),
        ("5/2", "FRI,SUN"),
        ("L", "SAT"),
        ("Thu-thursday", "4"),
        ("?", "*"),
        ("*/2", "0,2,4,6"),
        ("*/7", "0"),
        ("7L", "SUNL"),
        ("0#1", "sun#1"),
    ],
)
def test_a_weekday_can_be_written_in_several_ways(text: str, same: str) -> None:
    first, second = (compile_pattern(f"0 0 ? * {weekday}", "").days for weekday in (text, same))
    for year in range(2000, 2028):
        assert first.mask(year) == second.mask(year)


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        (" @Daily\n", "0 0 * * *"),
    ],
)
def test_a_macro_stands_for_an_expression(macro: str, expression: str) -> None:
    assert compile_pattern(macro, "").items == compile_pattern(expression, "").items
    assert Cron(macro).expression == macro.strip().lower()


def test_spaces_and_tabs_and_line_ends_around_an_expression_do_not_matter() -> None:
    assert Cron(" \t0   9 *\t* mon-fri \r\n") == Cron("0 9 * * MON-FRI")


@pytest.mark.parametrize(
    ("expression", "position", "message"),
    [
        ("0 24 * * *", 2, r"position 2: hour: found '24', expected 0-23\. Did you mean 0\?"),
        ("60 * * * *", 0, r"minute: found '60', expected 0-59\. Did you mean 0\?"),
        ("* 60 * * * *", 2, "minute: found '60'"),
        ("99 0 0 * * *", 0, "second: found '99', expected 0-59"),
        ("0 0 0 * *", 4, "day of month: found '0', expected 1-31"),
        ("0 0 32 * *", 4, "day of month: found '32', expected 1-31"),
        ("0 0 * 13 *", 6, "month: found '13', expected 1-12 or JAN-DEC"),
        ("0 0 * 0 *", 6, "month: found '0'"),
        ("0 0 * * 8", 8, "day of week: found '8', expected 0-7 .0 and 7 are Sunday. or SUN-SAT"),
        ("  0 0 * * 8", 10, "day of week: found '8'"),
        ("0 9 * * MOM", 8, r"found 'MOM', .* Did you mean MON\?"),
        ("0 9 * JANU *", 6, r"found 'JANU', .* Did you mean JAN"),
        ("0 9 MON * *", 4, "Names such as MON belong in the field for the day of week"),
        ("0 9 * * FEB", 8, "Names such as FEB belong in the field for the month"),
        ("1-60 * * * *", 2, "minute: found '60', expected 0-59"),
        ("5- * * * *", 2, "minute: found the end of the field, expected 0-59"),
        ("1-2-3 * * * *", 3, "found '-', expected a comma, a range such as 1-5"),
        ("1,,2 * * * *", 2, "found ',', expected 0-59"),
        (",1 * * * *", 0, "found ',', expected 0-59"),
        ("1, * * * *", 2, "found the end of the field, expected 0-59"),
        ("*/0 * * * *", 2, "found '0', expected a step from 1 to 60"),
        ("*/ * * * *", 2, "found the end of the field, expected a step from 1 to 60"),
        ("*/-2 * * * *", 2, "found '-', expected a step"),
        ("*/90 * * * *", 2, r"found '90', expected a step from 1 to 60\. For longer intervals use Every"),
        ("0 */25 * * *", 4, r"found '25', expected a step from 1 to 24\. For longer intervals use Every"),
        ("1/2/3 * * * *", 3, "found '/', expected a comma"),
        ("*5 * * * *", 1, r"found '5', .* Did you mean \*/5\?"),
        ("** * * * *", 1, r"found '\*', expected a comma, a step"),
        ("-1 * * * *", 0, "found '-', expected 0-59"),
        ("? * * * *", 0, r"found '\?', expected 0-59\. Did you mean \*\?"),
        ("0 0 ?,1 * *", 4, r"found '\?', expected \? alone in its field"),
        ("0 0 1,? * *", 6, r"found '\?', expected \? alone in its field"),
        ("0 0 1? * *", 5, r"found '\?', expected \? alone in its field"),
        ("0 L * * *", 2, "L belongs in a field for days"),
        ("0 0 * LW *", 6, "LW belongs in a field for days"),
        ("0 0 LX * *", 4, "found 'LX', expected L, L-n or LW"),
        ("0 0 L-31 * *", 6, "found '31', expected a number of days from 1 to 30"),
        ("0 0 L-0 * *", 6, "found '0', expected a number of days from 1 to 30"),
        ("0 0 L- * *", 6, "found the end of the field, expected a number of days"),
        ("0 0 L/2 * *", 5, "found '/', expected a comma"),
        ("0 0 32W * *", 4, "found '32', expected 1-31"),
        ("0 0 W * *", 4, "found 'W', expected 1-31"),
        ("0 0 1-5W * *", 7, "found 'W', expected a comma or a space. W belongs to a day of month"),
        ("0 0 5L * *", 5, "found 'L', expected a comma or a space"),
        ("0 0 1#2 * *", 5, "Only a weekday can have a #"),
        ("0 0 * * 1#0", 10, "found '0', expected a number from 1 to 5"),
        ("0 0 * * 1#6", 10, "found '6', expected a number from 1 to 5"),
        ("0 0 * * MON#", 12, "found the end of the field, expected a number from 1 to 5"),
        ("0 0 * * 1#2/3", 11, "found '/', expected"),
        ("0 0 * * 1-5#2", 11, "found '#', expected"),
        ("0 0 * * 1L2", 10, "found '2', expected"),
        ("H(5 * * * *", 3, r"found the end of the field, expected a range such as H\(0-29\)"),
        ("H(5-9 * * * *", 5, r"found the end of the field, expected a closing \)"),
        ("H(5-99) * * * *", 4, "found '99', expected 0-59"),
        ("H(0-5)/10 * * * *", 7, "found '10', expected a step of at most 6"),
        ("H5 * * * *", 1, "found '5', expected"),
        ("* * * *", 7, "found the end after 4 fields, expected minute, hour, day of month, month and day of week"),
        ("*", 1, "found the end after one field"),
        ("* * * * * * *", 12, "found 7 fields, .* There is no field for the year; use start_at and end_at"),
        ("* * * * * * * *", 12, "found 8 fields"),
        ("", 0, "found nothing, expected five fields"),
        (" \t ", 0, "found nothing, expected five fields"),
        ("@dayly", 0, r"found @dayly, expected one of @yearly.* Did you mean @daily\?"),
        ("@", 0, "found @, expected one of"),
        ("@daily 5", 7, "found '5', expected nothing after @daily"),
        ("@every 5m", 0, r"found @every, which is not a cron expression; use Every\(\"5m\"\) instead"),
        ("@reboot", 0, "found @reboot, which has no time"),
        ("0 9 * * @daily", 8, "found '@', expected 0-7"),
        ("0 9 * * *;", 9, "found ';', which no cron expression has"),
        ("0\x009 * * * *", 1, r"found '\\x00', which no cron expression has"),
        ("0 9\x0b* * *", 3, "which no cron expression has"),
        ("0 9 * * MON–FRI", 11, "found '–', which no cron expression has"),
    ],
)
def test_what_is_wrong_is_refused_at_its_position(expression: str, position: int, message: str) -> None:
    error = refusal(expression)
    assert error.position == position
    assert error.expression == expression
    with pytest.raises(InvalidCron, match=message):
        raise error


@pytest.mark.parametrize("digit", "٣३７²₅①½")
def test_only_ascii_digits_are_digits(digit: str) -> None:
    assert refusal(f"{digit} * * * *").position == 0
    assert refusal(f"1{digit} * * * *").position == 1
    assert "which no cron expression has" in str(refusal(f"*/{digit} * * * *"))


@pytest.mark.parametrize("letters", ["frı", "ſun", "MON".replace("O", "О"), "ＭＯＮ"])
def test_letters_that_only_look_right_are_refused(letters: str) -> None:
    assert "which no cron expression has" in str(refusal(f"0 9 * * {letters}"))


def test_the_message_points_at_the_position() -> None:
    lines = str(refusal("0 24 * * *")).splitlines()
    assert lines[1:] == ["    0 24 * * *", "      ^"]
    assert str(refusal("0\t24 * * *")).splitlines()[1:] == ["    0 24 * * *", "      ^"]


def test_an_expression_of_256_characters_is_the_longest() -> None:
    longest = "0 0 * * *" + " " * 247
    assert Cron(longest) == Cron("0 0 * * *")
    error = refusal(longest + " ")
    assert (error.position, str(error)) == (256, "The cron expression has 257 characters; 256 are the most.")
    assert len(str(refusal("1" * 100_000))) < 100


@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["* * * * *"], True])
def test_what_is_no_text_is_refused(value: Any) -> None:
    assert "A cron expression is text such as" in str(refusal(value))


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 30-31 FEB ?",
        "0 0 31W 4 *",
        "0 0 L-30 4 *",
        "0 0 L-29 2 *",
        "0 0 31 4 */2",
        "15 0 0 31 11 *",
    ],
)
def test_what_can_never_fire_is_refused_where_the_day_stands(expression: str) -> None:
    error = refusal(expression)
    fields = expression.split()
    assert "no year has such a day, so that it would never fire" in str(error)
    assert expression[error.position :].startswith(fields[len(fields) - 3])


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 29 2 *",
        "0 0 31 2,3 *",
        "0 0 30 2 1",
        "0 0 30 2 5L",
        "0 0 L-28 2 *",
        "0 0 * 2 MON#5",
        "0 0 29W 2 *",
        "0 0 31W 2-3 *",
    ],
)
def test_what_fires_at_some_time_is_not_refused(expression: str) -> None:
    Cron(expression)


@pytest.mark.parametrize(
    "expression", ["0 0 H(28-31) 2 *", "0 0 H(30-31) 2 *", "0 0 30 H *", "0 0 31 H(FEB-APR) *", "0 0 H(29-31)/2 2 *"]
)
def test_an_h_that_might_choose_a_day_that_no_year_has_is_refused_for_every_schedule(expression: str) -> None:
    for seed in ("a", "b", "c", "d", "e", "f"):
        with pytest.raises(InvalidCron, match="H may choose a day that no year has"):
            Cron(expression, seed=seed)


@pytest.mark.parametrize(
    "expression", ["0 0 H 2 *", "0 0 H H *", "0 0 H(1-29) 2 *", "0 0 30 H(3-12) *", "0 0 H(30-31) 2 MON"]
)
def test_an_h_that_fires_whatever_it_chooses_is_fine(expression: str) -> None:
    for seed in range(50):
        Cron(expression, seed=str(seed))


def test_the_error_is_one_of_configuration() -> None:
    assert isinstance(refusal(""), InvalidSchedule)
    assert isinstance(refusal(""), ConfigurationError)
    assert isinstance(refusal(""), ValueError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gap": "before"}, "gap must be one of 'after', 'skip', not 'before'"),
        ({"fold": "second"}, "fold must be one of 'first', 'last', 'both', not 'second'"),
        ({"fold": None}, "fold must be one of"),
        ({"seed": 5}, "seed must be text, such as the id of a schedule, not 5"),
        ({"timezone": None}, "timezone must be an IANA name such as 'Europe/Berlin', or a ZoneInfo, not None"),
        ({"timezone": "Europe/Berln"}, "There is no time zone 'Europe/Berln'. Did you mean 'Europe/Berlin'"),
        ({"timezone": "europe/berlin"}, "There is no time zone 'europe/berlin'. Did you mean 'Europe/Berlin'"),
        ({"timezone": "berlin"}, r"Did you mean 'Europe/Berlin'\?"),
        ({"timezone": "New York"}, r"Did you mean 'America/New_York'\?"),
        ({"timezone": ""}, "There is no time zone ''. Use an IANA name such as 'Europe/Berlin'"),
        ({"timezone": "Europe"}, "There is no time zone 'Europe'"),
        ({"timezone": "../zoneinfo/UTC"}, "There is no time zone"),
        ({"timezone": "/etc/localtime"}, "There is no time zone"),
        ({"timezone": "localtime"}, "There is no time zone 'localtime'"),
        ({"timezone": "UTC\0"}, "There is no time zone"),
        ({"timezone": "leapseconds"}, "There is no time zone"),
        ({"timezone": "Ü" * 300}, "There is no time zone"),
    ],
)
def test_what_else_is_wrong_is_refused_by_its_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        Cron("0 9 * * *", **arguments)
