"""Reading a cron expression: from text to items, or to an error with the position and the reason.

Each field is cut into words (digits, letters, single signs) and read from left to right, once. Every
mistake raises `InvalidCron` with its position in the given text, the word found there, and the words expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Never

from mainspring.errors import InvalidCron
from mainspring.rules.cron.fields import DAY, FIELDS, MACROS, MONTH, SATURDAY, WEEKDAY, Field, Item, Kind, values

LONGEST = 256
Items = tuple[Item, ...]

_FOREIGN = re.compile(r"[^0-9A-Za-z*/,?#@() \t\r\n-]")
_FIELD = re.compile(r"[^ \t\r\n]+")
_WORD = re.compile(r"[0-9]+|[A-Z]+|[^0-9A-Z]")


def parse(expression: str) -> tuple[Items, ...]:
    """The items of the six fields, seconds first."""
    check(expression)
    text = expression.upper()
    found = [(match.group(), match.start()) for match in _FIELD.finditer(text)]
    if found and found[0][0].startswith("@"):
        return parse(_expand(expression, found))
    if len(found) == 5:
        return (Item(Kind.RANGE),), *(_read(expression, *place) for place in zip(FIELDS[1:], found, strict=True))
    if len(found) == 6:
        return tuple(_read(expression, *place) for place in zip(FIELDS, found, strict=True))
    return _refuse_number_of_fields(expression, found)


def normalise(expression: str) -> str:
    """The expression as it is compared and stored: single spaces and capitals, macros in small letters."""
    text = " ".join(expression.upper().split())
    return text.lower() if text.startswith("@") else text


def check(expression: str) -> None:
    """Refuse a value that is not text, is too long, or has characters that no expression has."""
    if not isinstance(expression, str):
        raise InvalidCron(f"A cron expression is text such as '0 9 * * *', not {expression!r}.", str(expression), 0)
    if len(expression) > LONGEST:
        raise InvalidCron(
            f"The cron expression has {len(expression)} characters; {LONGEST} are the most.", expression, LONGEST
        )
    if foreign := _FOREIGN.search(expression):
        hint = " Digits are 0 to 9 only." if foreign.group().isdigit() else ""
        refuse(expression, foreign.start(), f"found {foreign.group()!r}, which no cron expression has.{hint}")


def find_field(field: Field, expression: str) -> tuple[str, int]:
    """The text of a field, and where it begins, in a valid expression other than a macro."""
    found = list(_FIELD.finditer(expression))[FIELDS.index(field) - len(FIELDS)]
    return found.group(), found.start()


def refuse(expression: str, position: int, problem: str) -> Never:
    """Raise the error with the expression beneath, and a mark under the position."""
    shown = "".join(sign if sign.isprintable() else " " for sign in expression)
    message = f"Cron expression, position {position}: {problem}\n    {shown}\n    {' ' * position}^"
    raise InvalidCron(message, expression, position)


def _expand(expression: str, found: list[tuple[str, int]]) -> str:
    name, position = found[0]
    if name == "@EVERY":
        refuse(expression, position, 'found @every, which is not a cron expression; use Every("5m") instead.')
    if name == "@REBOOT":
        refuse(expression, position, "found @reboot, which has no time; run such work when your program starts.")
    if name not in MACROS:
        known = ", ".join(MACROS).lower()
        refuse(expression, position, f"found {name.lower()}, expected one of {known}.{_alike(name, MACROS)}")
    if len(found) > 1:
        refuse(expression, found[1][1], f"found {found[1][0]!r}, expected nothing after {name.lower()}.")
    return MACROS[name]


def _refuse_number_of_fields(expression: str, found: list[tuple[str, int]]) -> Never:
    if not found:
        refuse(expression, 0, "found nothing, expected five fields such as '0 9 * * *', or six with seconds first.")
    wanted = "expected minute, hour, day of month, month and day of week, or these with seconds before them"
    if len(found) < 5:
        refuse(expression, len(expression.rstrip()), f"found the end after {_fields(len(found))}, {wanted}.")
    hint = " There is no field for the year; use start_at and end_at." if len(found) == 7 else ""
    refuse(expression, found[6][1], f"found {_fields(len(found))}, {wanted}.{hint}")


def _fields(count: int) -> str:
    return "one field" if count == 1 else f"{count} fields"


def _alike(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), 1, 0.5)
    return f" Did you mean {close[0].lower() if close[0].startswith('@') else close[0]}?" if close else ""


def _read(expression: str, field: Field, found: tuple[str, int]) -> Items:
    return _Reader(expression, field, *found).items()


class _Reader:
    """Reads one field, word by word."""

    __slots__ = ("expression", "field", "index", "position", "word", "words")

    def __init__(self, expression: str, field: Field, text: str, position: int) -> None:
        self.expression, self.field, self.position = expression, field, position
        self.words = [*_WORD.findall(text), ""]
        self.index = 0
        self.word = self.words[0]

    def advance(self) -> str:
        """Go on to the next word, and return the one that was read."""
        word: str = self.word
        self.index += 1
        self.word = self.words[self.index]
        return word

    def fail(self, expected: str, hint: str = "", back: int = 0) -> Never:
        """Refuse the present word, or the word `back` places before it."""
        index = self.index - back
        position = self.position + sum(map(len, self.words[:index]))
        found = repr(self.words[index]) if self.words[index] else "the end of the field"
        refuse(self.expression, position, f"{self.field.name}: found {found}, expected {expected}.{hint}")

    def items(self) -> Items:
        items = [self.item()]
        while self.word == ",":
            self.advance()
            items.append(self.item())
        if self.word:
            self.fail_at_end(items[-1])
        return tuple(items)

    def item(self) -> Item:
        if self.word == "*":
            self.advance()
            return Item(Kind.STAR, self.field.low, self.field.low + self.field.size - 1, self.step())
        if self.word == "?":
            return self.any()
        if self.word == "H":
            return self.hashed()
        if self.field is DAY and self.word[:1] == "L":
            return self.last_day()
        if self.field is WEEKDAY and self.word == "L":
            self.advance()
            return Item(Kind.RANGE, SATURDAY, SATURDAY)
        return self.range()

    def any(self) -> Item:
        if self.field is not DAY and self.field is not WEEKDAY:
            self.fail(self.wanted(), " Did you mean *? A ? stands for a day only.")
        if len(self.words) > 2:
            self.fail("? alone in its field")
        self.advance()
        return Item(Kind.ANY)

    def hashed(self) -> Item:
        self.advance()
        low, high = self.field.low, self.field.hashed
        if self.word == "(":
            self.advance()
            low = self.value()
            if self.word != "-":
                self.fail("a range such as H(0-29)")
            self.advance()
            high = self.value()
            if self.word != ")":
                self.fail("a closing )")
            self.advance()
        item = Item(Kind.HASH, low, high, self.step())
        reach = len(values(self.field, item))
        if item.step > reach:
            self.fail(f"a step of at most {reach}, the number of values to choose from", back=1)
        return item

    def last_day(self) -> Item:
        if self.word == "LW":
            self.advance()
            return Item(Kind.LAST_WORKDAY)
        if self.word != "L":
            self.fail("L, L-n or LW")
        self.advance()
        if self.word != "-":
            return Item(Kind.LAST)
        self.advance()
        return Item(Kind.LAST, self.number(1, 30, "a number of days from 1 to 30"))

    def range(self) -> Item:
        if self.field is WEEKDAY and self.word.endswith("L") and self.word[:-1] in WEEKDAY.names:
            return Item(Kind.LAST_WEEKDAY, WEEKDAY.names[self.advance()[:-1]])
        low = self.value()
        if self.word == "W" and self.field is DAY:
            self.advance()
            return Item(Kind.NEAREST_WORKDAY, low)
        if self.word == "L" and self.field is WEEKDAY:
            self.advance()
            return Item(Kind.LAST_WEEKDAY, low % 7)
        if self.word == "#" and self.field is WEEKDAY:
            self.advance()
            return Item(Kind.NTH_WEEKDAY, low % 7, self.number(1, 5, "a number from 1 to 5"))
        high = self.field.high if self.word == "/" else low
        if self.word == "-":
            self.advance()
            high = self.value()
        return Item(Kind.RANGE, low, high, self.step())

    def step(self) -> int:
        if self.word != "/":
            return 1
        self.advance()
        size = self.field.size
        hint = ""
        if self.word.isdigit() and int(self.word) > size:
            hint = " For longer intervals use Every."
        return self.number(1, size, f"a step from 1 to {size}", hint)

    def number(self, low: int, high: int, expected: str, hint: str = "") -> int:
        if not self.word.isdigit() or not low <= int(self.word) <= high:
            self.fail(expected, hint)
        return int(self.advance())

    def value(self) -> int:
        """A number or a name of this field."""
        if self.word.isdigit():
            if not self.field.low <= (number := int(self.word)) <= self.field.high:
                self.fail(self.wanted(), " Did you mean 0?" if number == self.field.size != 7 else "")
            self.advance()
            return number
        if self.word not in self.field.names:
            self.fail(self.wanted(), self.hint())
        return self.field.names[self.advance()]

    def wanted(self) -> str:
        names = " or JAN-DEC" if self.field is MONTH else ""
        if self.field is WEEKDAY:
            names = " (0 and 7 are Sunday) or SUN-SAT"
        return f"{self.field.low}-{self.field.high}{names}"

    def hint(self) -> str:
        """A guess at the meaning of a word that is not a value of the field."""
        if not self.word.isalpha():
            return ""
        for other in (MONTH, WEEKDAY):
            if other is not self.field and self.word in other.names:
                return f" Names such as {self.word} belong in the field for the {other.name}."
        if self.word in ("L", "W", "LW"):
            return f" {self.word} belongs in a field for days."
        return _alike(self.word, self.field.names)

    def fail_at_end(self, item: Item) -> Never:
        """Refuse a word that follows a whole item."""
        if item.kind is Kind.STAR and item.step == 1:
            hint = f" Did you mean */{self.word}?" if self.word.isdigit() else ""
            self.fail("a comma, a step such as /5, or a space", hint)
        if self.word == "?":
            self.fail("? alone in its field")
        if self.word == "#":
            self.fail(
                "a comma or a space", " Only a weekday can have a #, such as MON#2 in the field for the day of week."
            )
        if self.word in ("L", "W"):
            self.fail("a comma or a space", " W belongs to a day of month (15W), L to a day of week (FRIL).")
        self.fail("a comma, a range such as 1-5, a step such as /5, or a space")
