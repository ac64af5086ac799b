import { expect, test } from "vitest";
import { absolute, duration, learnClock, relative, serverNow } from "./time";

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

test("the server's clock corrects a wrong one", () => {
  learnClock(new Date(Date.now() + 3_600_000).toUTCString());
  expect(Math.abs(serverNow() - Date.now() - 3_600_000)).toBeLessThan(2000);
});

test("an unreadable instant is shown as it is", () => {
  expect(absolute("yesterday-ish")).toBe("yesterday-ish");
});
