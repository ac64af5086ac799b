"""Takes the pictures of the documentation: every page of the dashboard in both themes, of the demonstration's day.

`make screenshots` runs it. It starts `mainspring up` in an empty folder, waits until jobs run, and writes PNG files of
1440 x 900 pixels with a palette of 256 colours, which are a third as large as the browser's own.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, Page, async_playwright

FOLDER = Path(__file__).parents[2] / "docs" / "pictures" / "dashboard"
SIZE = {"width": 1440, "height": 900}
THEMES = ("light", "dark")
_COLOURS = 256
_PATIENCE = 180.0
# Long enough that some jobs have ended since the start, and that charts have been drawn.
_WATCHED, _SETTLED = 30.0, 1.5
_ADDRESS = re.compile(r"dashboard +(http://\S+?)/?$", re.MULTILINE)
_READ_PIXELS = """async (png) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const blob = new Blob([context.getImageData(0, 0, picture.width, picture.height).data]);
  return await new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.split(",")[1]);
    reader.readAsDataURL(blob);
  });
}"""


@contextmanager
def demonstration() -> Iterator[str]:
    """The address of a running demonstration, in an empty folder of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "output"
        with output.open("w") as written:
            command = [sys.executable, "-m", "mainspring", "up", "--port", "0"]
            up = subprocess.Popen(command, cwd=folder, stdout=written, stderr=subprocess.STDOUT)
        try:
            yield _address(up, output)
        finally:
            up.terminate()
            up.wait(60)


def _address(up: subprocess.Popen[bytes], output: Path) -> str:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and up.poll() is None:
        found = _ADDRESS.search(output.read_text())
        if found is not None and "in another terminal" in output.read_text():
            return found[1]
        time.sleep(0.2)
    raise SystemExit(f"The demonstration did not start:\n{output.read_text()}")


async def pages_of(address: str) -> dict[str, str]:
    """The paths of the pictures by their names; the job and the flow are failed ones."""
    async with aiohttp.ClientSession() as session:
        failed = await _first(session, f"{address}/api/jobs/search?state=failed&name=charge-card&limit=1")
        flow = await _first(session, f"{address}/api/flows?name=nightly-pipeline&limit=1")
    return {
        "overview": "/",
        "jobs": "/jobs",
        "job": f"/jobs/{failed['id']}",
        "new-job": "/jobs/new",
        "flows": "/flows",
        "flow": f"/flows/{flow['id']}?node=check stock",
        "schedules": "/schedules",
        "schedule": "/schedules/sync-inventory",
        "calendar": "/schedules/-/calendar",
        "edit-schedule": "/schedules/nightly-backup/edit",
        "queues": "/queues",
        "queue": "/queues/media",
        "dead-letters": "/dead-letters",
        "workers": "/workers",
        "alerts": "/alerts",
        "operations": "/operations",
        "audit": "/audit",
        "settings": "/settings",
        "keys": "/settings?tab=keys",
    }


_RULES: tuple[dict[str, Any], ...] = (
    {"name": "No worker", "kind": "no_worker", "after": "2m", "to": [{"type": "email", "to": ["ops@example.com"]}]},
    {
        "name": "Late mail",
        "kind": "queue_late",
        "queues": ["mail"],
        "after": "1h",
        "to": [{"type": "webhook", "url": "https://status.example.com/hook", "headers": {"X-Team": "shop"}}],
    },
    {
        "name": "Dead letters",
        "kind": "dead_letters",
        "within": "1d",
        "enabled": False,
        "to": [{"type": "chat", "url": "https://hooks.example.com/services/shop"}],
    },
)


async def add_rules(address: str) -> None:
    """Store a few alert rules. The one that has something to tell is silenced before it is enabled: nothing is sent."""
    path = f"{address}/api/alerts"
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        for rule in _RULES:
            async with session.post(path, json=rule) as answer:
                path_of_last = f"{path}/{(await answer.json())['data']['id']}"
        silence = {"duration": "2h", "reason": "The gateway is being moved."}
        await (await session.post(f"{path_of_last}/silence", json=silence)).read()
        await (await session.patch(path_of_last, json={"enabled": True})).read()


async def _first(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.get(url) as answer:
        found: dict[str, Any] = (await answer.json())["data"][0]
    return found


async def take_all(address: str, folder: Path) -> int:
    """Take all pictures; returns their bytes in sum."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    paths, total = await pages_of(address), 0
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        reader = await browser.new_page()
        for theme in THEMES:
            page = await _open(browser, theme)
            for name, path in paths.items():
                small = await _smaller(reader, await _take(page, address + path))
                (folder / f"{name}-{theme}.png").write_bytes(small)
                total += len(small)
                print(f"{name}-{theme}.png: {len(small) // 1000} kB", flush=True)
        await browser.close()
    return total


async def _open(browser: Browser, theme: str) -> Page:
    context = await browser.new_context(
        viewport=SIZE,  # type: ignore[arg-type]
        color_scheme=theme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    return await context.new_page()


async def _take(page: Page, url: str) -> bytes:
    await page.goto(url)
    await page.locator("h1").first.wait_for()
    await page.locator("[aria-label=Loading]").first.wait_for(state="detached")
    await asyncio.sleep(_SETTLED)
    return await page.screenshot()


async def _smaller(reader: Page, png: bytes) -> bytes:
    """The picture with a palette."""
    width, height = struct.unpack(">II", png[16:24])
    raw = base64.b64decode(await reader.evaluate(_READ_PIXELS, base64.b64encode(png).decode()))
    return with_palette(array("I", raw), width, height)


def with_palette(pixels: array[int], width: int, height: int) -> bytes:
    """A PNG of the most frequent colours; each other colour becomes the nearest of them. A pixel has its red in the
    lowest byte."""
    frequent = [colour for colour, _ in Counter(pixels).most_common()]
    palette = frequent[:_COLOURS]
    parts = [_parts(colour) for colour in palette]
    places = {colour: place for place, colour in enumerate(palette)}
    for colour in frequent[_COLOURS:]:
        places[colour] = _nearest(_parts(colour), parts)
    indices = bytes(map(places.__getitem__, pixels))
    rows = b"".join(b"\0" + indices[start : start + width] for start in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(one) for one in parts)
    chunks = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _parts(colour: int) -> tuple[int, int, int]:
    return colour & 255, colour >> 8 & 255, colour >> 16 & 255


def _nearest(colour: tuple[int, int, int], palette: list[tuple[int, int, int]]) -> int:
    red, green, blue = colour
    return min(
        range(len(palette)),
        key=lambda at: (palette[at][0] - red) ** 2 + (palette[at][1] - green) ** 2 + (palette[at][2] - blue) ** 2,
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def main() -> None:
    """Take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with demonstration() as address:
        asyncio.run(add_rules(address))
        time.sleep(_WATCHED)
        total = asyncio.run(take_all(address, FOLDER))
    print(f"{total // 1000} kB in {FOLDER}")


if __name__ == "__main__":
    main()
