import { expect, test } from "vitest";
import { chartOf, placeOfWords, type Row } from "./gantt";

const NOW = Date.parse("2026-01-01T00:01:40Z");
const row = (start: string | null, end: string | null): Row => ({
  node: "a",
  id: "a",
  job: "a",
  state: "running",
  jobs: 1,
  start: start && `2026-01-01T${start}Z`,
  end: end && `2026-01-01T${end}Z`,
});

test("bars lie between the first start and the last end", () => {
  const { bars } = chartOf([row("00:00:00", "00:00:50"), row("00:00:25", null), row(null, null)], NOW);
  expect(bars.map((bar) => [bar.x, bar.width, bar.lasted, bar.open])).toEqual([
    [0, 50, 50_000, false],
    [25, 75, 75_000, true],
    [null, 0, 0, false],
  ]);
});

test("the axis has a few round steps", () => {
  const { ticks } = chartOf([row("00:00:00", null)], NOW);
  expect(ticks.map((tick) => tick.percent)).toEqual([0, 15, 30, 45, 60, 75, 90]);
});

test("a chart of nothing, and of times that cannot be read, is empty", () => {
  expect(chartOf([], NOW).bars).toEqual([]);
  expect(chartOf([{ ...row(null, null), start: "soon" }], NOW).bars[0]?.x).toBeNull();
});

test("words never lie over a bar that hides them", () => {
  expect(placeOfWords({ x: null, width: 0 })).toBe("after");
  expect(placeOfWords({ x: 10, width: 60 })).toBe("after");
  expect(placeOfWords({ x: 80, width: 20 })).toBe("before");
  expect(placeOfWords({ x: 0, width: 100 })).toBe("inside");
});
