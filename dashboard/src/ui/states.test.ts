import { expect, test } from "vitest";
import { colour, glyph, shownState } from "./states";

const now = Date.parse("2026-01-01T00:00:00Z");

test("a pending job with attempts is retrying", () => {
  expect(shownState({ state: "pending", tries: 2, runAt: "2026-01-01T01:00:00Z" }, now)).toBe("retrying");
});

test("a pending job with a later run time is scheduled", () => {
  expect(shownState({ state: "pending", tries: 0, runAt: "2026-01-01T01:00:00Z" }, now)).toBe("scheduled");
  expect(shownState({ state: "pending", tries: 0, runAt: "2025-12-31T23:00:00Z" }, now)).toBe("pending");
});

test("an unknown state spoils nothing", () => {
  expect(glyph("<b>")).toBe("?");
  expect(colour("x); evil(")).toBe("var(--muted)");
});
