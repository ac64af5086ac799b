import { expect, test } from "vitest";
import { bars, isOpen, lasted, type Span, tint, words } from "./life";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const span = (kind: string, start: number, end: number | null, more: object = {}) =>
  ({ kind, start: at(start), end: end === null ? null : at(end), ...more }) as Span;

test("bars fill the drawing, and a short run stays visible beside a wait of days", () => {
  const found = bars([span("scheduled", 0, 259_200), span("running", 259_200, 259_201)], 0);
  expect(found.reduce((sum, bar) => sum + bar.width, 0)).toBeCloseTo(100);
  expect(found[1]?.width).toBeGreaterThan(10);
  expect(found[0]?.compressed).toBe(true);
  expect(found[1]?.compressed).toBe(false);
});

test("an open span lasts until the server's now, and never less than nothing", () => {
  expect(lasted(span("waiting", 10, null), Date.parse(at(25)))).toBe(15_000);
  expect(lasted(span("waiting", 10, null), Date.parse(at(5)))).toBe(0);
  expect(lasted({ kind: "waiting", start: "nonsense" } as Span, 0)).toBe(0);
});

test("a span is told in words", () => {
  expect(words(span("running", 0, 1, { attempt: 2, outcome: "lost" }), false)).toBe("Attempt 2: its worker was lost");
  expect(words(span("running", 0, null, { attempt: 1 }), true)).toBe("Attempt 1 runs");
  expect(words(span("scheduled", 0, 60), true)).toBe("Waits for its time");
  expect(words(span("waiting", 0, 60, { outcome: "cancelled" }), false)).toBe("Waited to be started, then cancelled");
  expect(words(span("from_the_future", 0, 1), false)).toBe("from_the_future");
});

test("a due time to come is open, a past one is not", () => {
  expect(isOpen(span("scheduled", 0, 60), Date.parse(at(30)))).toBe(true);
  expect(isOpen(span("scheduled", 0, 60), Date.parse(at(90)))).toBe(false);
});

test("colour is for the outcome of a run", () => {
  expect(tint(span("running", 0, 1, { outcome: "failed" }))).toBe("--failed");
  expect(tint(span("running", 0, null))).toBe("--running");
  expect(tint(span("waiting", 0, 1))).toBe("--pending");
});
