import { expect, test } from "vitest";
import { absolute, duration, estimate, learnClock, relative, serverNow, spelt, withLocalInstants } from "./time";

test("durations have one or two units", () => {
  expect(duration(0)).toBe("0 ms");
  expect(duration(4200)).toBe("4.2 s");
  expect(duration(200_000)).toBe("3 min 20 s");
  expect(duration(187_200_000)).toBe("2 d 4 h");
  expect(duration(undefined)).toBe("–");
});

test("an instant is told from the server's now", () => {
  expect(relative("2026-01-01T00:05:00Z", Date.parse("2026-01-01T00:00:00Z"))).toBe("in 5 min");
  expect(relative("2026-01-01T00:00:00Z", Date.parse("2026-01-01T03:00:00Z"))).toBe("3 h ago");
  expect(relative("nonsense")).toBe("–");
});

test("an instant far away is told in one unit", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  expect(relative(now - 9.5 * 60_000, now)).toBe("9 min 30 s ago");
  expect(relative(now - 10.5 * 60_000, now)).toBe("10 min ago");
  expect(relative(now + 18.2 * 3_600_000, now)).toBe("in 18 h");
});

test("an estimate is no more exact than it can be", () => {
  expect([900, 43_200, 57_000, 333_000, 742_000].map(estimate)).toEqual([
    "a few seconds",
    "about 40 s",
    "about 1 min",
    "about 6 min",
    "about 12 min",
  ]);
  expect([3_590_000, 6_000_000, 40_000_000].map(estimate)).toEqual(["about 1 h", "about 1 h 30 min", "about 11 h"]);
});

test("a duration of the service is spelt as the pages do", () => {
  expect(["1m", "1h30m", "30s", "2d", "soon", ""].map(spelt)).toEqual([
    "1 min",
    "1 h 30 min",
    "30 s",
    "2 d",
    "soon",
    "",
  ]);
});

test("the server's clock corrects a wrong one", () => {
  learnClock(new Date(Date.now() + 3_600_000).toUTCString());
  expect(Math.abs(serverNow() - Date.now() - 3_600_000)).toBeLessThan(2000);
});

test("instants in a sentence are the viewer's", () => {
  const at = "2026-11-18T10:24:35.190Z";
  expect(withLocalInstants(`It is due in 1 h, at ${at}.`)).toBe(`It is due in 1 h, at ${absolute(at)}.`);
  expect(withLocalInstants("since 2026-11-18")).toBe("since 2026-11-18");
});

test("an unreadable instant is shown as it is", () => {
  expect(absolute("yesterday-ish")).toBe("yesterday-ish");
});
