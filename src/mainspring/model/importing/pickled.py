"""Reading pickled objects of other programs without running anything of theirs. Pure.

Unpickling calls whatever the bytes name. Here, a name becomes a class of records, which keep their arguments and state
and do nothing; only dates, time zones and containers become what they are. `plain` then makes values of them, or
refuses the first record that is left.
"""

from __future__ import annotations

import codecs
import datetime as dates
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mainspring.model.importing.plan import CannotImport

_LONGEST = 4 * 1024 * 1024
_MOST_VALUES = 100_000
_DEEPEST = 50


class Recorded:
    """An object of another program: the name of its class, its arguments and its state."""

    place: ClassVar[str] = ""
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Recorded:
        made = object.__new__(cls)
        made.args, made.state = args, None
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take any arguments; `__new__` has kept them."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, value: Any) -> None:
        """Take an entry of a list of another class; such a list is refused later."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take an entry of a mapping of another class."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its attributes."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:
            state = {**(state[0] or {}), **(state[1] or {})} if all(isinstance(s, dict | None) for s in state) else None
        return state if isinstance(state, Mapping) else {}


def recorded(place: str, state: Any) -> Recorded:
    """A record of an object whose class and state are known."""
    made = _class_of(place)()
    made.state = state
    return made


def _class_of(place: str) -> type[Recorded]:
    return type("Recorded", (Recorded,), {"place": place})


def unpickled(content: bytes) -> Any:
    """The content as values and records. Nothing of another program is imported or called."""
    if len(content) > _LONGEST:
        raise CannotImport(f"Its pickled state has {len(content):,} bytes; {_LONGEST:,} are the most.")
    try:
        return _Reader(io.BytesIO(content)).load()
    except CannotImport:
        raise
    except (Exception, RecursionError) as error:
        raise CannotImport(f"Its pickled state cannot be read: {type(error).__name__}: {error!s:.200}") from None


def plain(value: Any, path: str = "") -> Any:
    """The value, if it consists of plain values alone; the first that does not is named."""
    return _Plain().value(value, path, 0)


class _Plain:
    def __init__(self) -> None:
        self._count = 0

    def value(self, value: Any, path: str, depth: int) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES or depth > _DEEPEST:
            raise CannotImport("Its arguments have too many values, or are nested too deeply.")
        if isinstance(value, Mapping):
            return {key: self.value(one, f"{path}.{key}".strip("."), depth + 1) for key, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
        if isinstance(value, Recorded):
            raise CannotImport(
                f"Its argument {path or 'value'} is an object of {value.place}; pass plain values, such as its id."
            )
        return value


class _Reader(pickle.Unpickler):
    """An unpickler that finds no class and no function but those of the table."""

    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module, name))
        return known if known is not None else _class_of(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise CannotImport("Its pickled state refers to objects outside of it.")


class _Zones:
    """Stands for `zoneinfo.ZoneInfo`, whose pickle calls its method `_unpickle` with the key."""


def _zone(key: Any, *more: Any) -> Any:
    try:
        return ZoneInfo(str(key))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise CannotImport(f"Its time zone {key!r:.60} is not known here: {error}") from None


def _utc(*more: Any) -> Any:
    return dates.UTC


def _attribute(owner: Any, name: Any) -> Any:
    """Stands for `getattr`: only the method by which zones are made is found."""
    if owner is _Zones and name == "_unpickle":
        return _zone
    raise CannotImport(f"Its pickled state takes the attribute {name!r:.60} of an object, which is not done here.")


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands for `_codecs.encode`, by which old pickles hold bytes."""
    return codecs.latin_1_encode(str(text))[0]


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("datetime", "datetime"): dates.datetime,
    ("datetime", "date"): dates.date,
    ("datetime", "time"): dates.time,
    ("datetime", "timedelta"): dates.timedelta,
    ("datetime", "timezone"): dates.timezone,
    ("zoneinfo", "ZoneInfo"): _Zones,
    ("backports.zoneinfo", "ZoneInfo"): _Zones,
    ("pytz", "_p"): _zone,
    ("pytz", "_UTC"): _utc,
    ("_codecs", "encode"): _encoded,
    **{(module, "getattr"): _attribute for module in ("builtins", "__builtin__")},
    **{
        (module, kind.__name__): kind for module in ("builtins", "__builtin__") for kind in (set, frozenset, list, dict)
    },
}
