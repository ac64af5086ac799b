import { describe, expect, it } from "vitest";
import { change, chartsOf, failing, isQuiet, type Series, share, STEPS, stepWords, tick } from "./series";

const counts = {
  started: 0,
  completed: 0,
  failed: 0,
  retried: 0,
  cancelled: 0,
  snoozed: 0,
  lost: 0,
};
const point = (at: string, more = {}) => ({ at, ...counts, ...more });
const series = (points: object[], total = {}) =>
  ({ step: "1m", points, total: { ...counts, ...total }, deploys: [] }) as unknown as Series;

describe("charts of a series", () => {
  it("has one x-axis for all of them, in seconds", () => {
    const charts = chartsOf(series([point("2030-01-01T10:00:00Z"), point("2030-01-01T10:01:00Z")]));
    expect(charts.at).toEqual([1893492000, 1893492060]);
    for (const line of [...charts.ended, ...charts.waits, ...charts.runs]) expect(line.values).toHaveLength(2);
  });

  it("counts a lost attempt as a failure, and a wait that is not known as a gap", () => {
    const charts = chartsOf(series([point("2030-01-01T10:00:00Z", { failed: 2, lost: 1, waitP95Ms: 40 })]));
    expect(charts.ended[0]).toMatchObject({ label: "failed", values: [3] });
    expect(charts.waits.map((line) => line.values[0])).toEqual([null, 40, null, null]);
  });

  it("is quiet where nothing started, ended or waited", () => {
    expect(isQuiet(series([point("2030-01-01T10:00:00Z")]))).toBe(true);
    expect(isQuiet(series([point("2030-01-01T10:00:00Z", { oldestWaitingMs: 5 })]))).toBe(false);
    expect(isQuiet(series([], { completed: 1 }))).toBe(false);
  });
});

describe("against last week", () => {
  it("says how much more or less, and whether that is worse", () => {
    expect(change(320, 100)).toEqual({ text: "3.2×", worse: true });
    expect(change(130, 100)).toEqual({ text: "+30 %", worse: true });
    expect(change(60, 100)).toEqual({ text: "−40 %", worse: false });
    expect(change(101, 100)).toEqual({ text: "same", worse: null });
    expect(change(5, null)).toEqual({ text: "new", worse: null });
    expect(change(0.5, 0)).toEqual({ text: "new", worse: true });
    expect(change(null, 3).text).toBe("–");
  });

  it("tells shares without false precision", () => {
    expect(share(0.004)).toBe("0.4 %");
    expect(share(0.12)).toBe("12 %");
    expect(share(0)).toBe("0 %");
    expect(share(failing(counts as never))).toBe("–");
  });
});

describe("words", () => {
  it("has an axis of durations with one unit at each step", () => {
    expect(STEPS.map(tick).filter((text) => text.split(" ").length !== 2)).toEqual([]);
    expect(STEPS.every((step, place) => place === 0 || step > (STEPS[place - 1] ?? 0))).toBe(true);
  });

  it("has steps and ticks as people write them", () => {
    expect(["1m", "10m", "1h", "6h", "1d", "odd"].map(stepWords)).toEqual([
      "minute",
      "10 min",
      "hour",
      "6 h",
      "day",
      "odd",
    ]);
    expect([0, 250, 1500, 2000, 90_000].map(tick)).toEqual(["0 ms", "250 ms", "1.5 s", "2 s", "1 min 30 s"]);
  });
});
