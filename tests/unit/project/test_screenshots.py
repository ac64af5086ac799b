"""The pictures of the documentation are written with a palette."""

from __future__ import annotations

import struct
import zlib
from array import array

from dashboard.screenshots import with_palette


def chunks(png: bytes) -> dict[bytes, bytes]:
    """The chunks of a PNG by their kinds, with their checksums compared."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    found, place = {}, 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length]) == (zlib.crc32(kind + content),)
        found[kind] = content
        place += 12 + length
    return found


def colours(png: bytes, width: int) -> list[bytes]:
    """The pixels of a picture, row by row."""
    found = chunks(png)
    palette, rows = found[b"PLTE"], zlib.decompress(found[b"IDAT"])
    indices = [one for start in range(0, len(rows), width + 1) for one in rows[start + 1 : start + 1 + width]]
    return [palette[3 * one : 3 * one + 3] for one in indices]


def test_a_picture_of_few_colours_keeps_each() -> None:
    red, blue = 0xFF0000FF, 0xFFFF0000
    png = with_palette(array("I", [red, blue, blue, red, red, blue]), 3, 2)
    assert struct.unpack(">IIBB", chunks(png)[b"IHDR"][:10]) == (3, 2, 8, 3)
    assert colours(png, 3) == [b"\xff\0\0", b"\0\0\xff", b"\0\0\xff", b"\xff\0\0", b"\xff\0\0", b"\0\0\xff"]


def test_a_rare_colour_becomes_the_nearest_of_the_frequent_ones() -> None:
    frequent = [0xFF000000 | 4 * grey for grey in range(64)] + [0xFF000000 | grey << 8 for grey in range(1, 193)]
    png = with_palette(array("I", [*frequent * 2, 0xFF000000 | 41]), 513, 1)
    shown = colours(png, 513)
    assert len(set(shown)) == 256 and shown[-1] == b"\x28\0\0"
