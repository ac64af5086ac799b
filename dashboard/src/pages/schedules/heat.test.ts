import { expect, test } from "vitest";
import { dayStart, grid, isHerd, level } from "./heat";

const HOUR = 3_600_000;

function buckets(start: string, hours: number) {
  return Array.from({ length: hours }, (_, index) => ({
    at: new Date(Date.parse(start) + index * HOUR).toISOString(),
    firings: 1,
    herd: 1,
    schedules: 1,
    heaviest: [],
  }));
}

test("buckets are put into days and hours of the zone", () => {
  const start = "2026-01-01T00:00:00.000Z";
  const days = grid({ start, buckets: buckets(start, 48), clockChanges: [] }, 2, "UTC");
  expect(days.map((one) => [one.day, one.weekday])).toEqual([
    ["2026-01-01", "Thu"],
    ["2026-01-02", "Fri"],
  ]);
  expect(days.flatMap((one) => one.cells).every((cell) => cell?.firings === 1)).toBe(true);
});

test("an hour that does not exist is empty, and one that happens twice has both", () => {
  const spring = new Date(dayStart(Date.parse("2026-03-29T10:00:00Z"), "Europe/Paris")).toISOString();
  const [day] = grid({ start: spring, buckets: buckets(spring, 23), clockChanges: [] }, 1, "Europe/Paris");
  expect(day?.cells.map((cell) => cell?.firings ?? null)[2]).toBeNull();
  const autumn = new Date(dayStart(Date.parse("2026-10-25T10:00:00Z"), "Europe/Paris")).toISOString();
  const [other] = grid({ start: autumn, buckets: buckets(autumn, 25), clockChanges: [] }, 1, "Europe/Paris");
  expect(other?.cells[2]?.firings).toBe(2);
});

test("a day begins at its midnight, also after clocks have changed", () => {
  expect(dayStart(Date.parse("2026-03-29T10:00:00Z"), "Europe/Paris")).toBe(Date.parse("2026-03-28T23:00:00Z"));
  expect(dayStart(Date.parse("2026-06-01T00:10:00Z"), "Asia/Kolkata")).toBe(Date.parse("2026-05-31T18:30:00Z"));
});

test("a night on which clocks change is marked on its day", () => {
  const start = "2026-03-28T23:00:00.000Z";
  const change = { at: "2026-03-29T01:00:00.000Z", zone: "Europe/Paris", byMs: HOUR, words: "", schedules: 1 };
  const [day] = grid({ start, buckets: [], clockChanges: [change] }, 1, "Europe/Paris");
  expect(day?.changes).toEqual([change]);
});

test("colours grow with the logarithm, and a herd is what fires at once", () => {
  expect([0, 1, 10, 1000].map((one) => level(one, 1000))).toEqual([0, 1, 2, 5]);
  expect(level(1, 1)).toBe(1);
  expect(isHerd({ firings: 100, herd: 60 })).toBe(true);
  expect(isHerd({ firings: 100, herd: 10 })).toBe(false);
});
