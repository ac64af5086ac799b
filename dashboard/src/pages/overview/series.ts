// The answers of the statistics as lines of charts, and numbers against last week.
import type { Schemas } from "../../api/client";
import type { Line } from "../../ui/Chart";
import { duration } from "../../lib/time";

export type Series = Schemas["StatisticsSeries"];
export type NameRow = Schemas["NameCountsOut"];
export type Counts = Schemas["CountsOut"];
type Point = Series["points"][number];

export type Charts = { at: number[]; ended: Line[]; waits: Line[]; runs: Line[] };

/** The three charts of a series, on one x-axis. */
export function chartsOf(series: Series): Charts {
  const { points } = series;
  const line = (
    label: string,
    colour: string,
    value: (point: Point) => number | null | undefined,
    more = {},
  ): Line => ({
    label,
    colour,
    values: points.map((point) => value(point) ?? null),
    ...more,
  });
  const bars = { bars: true };
  return {
    at: points.map((point) => Date.parse(point.at) / 1000),
    ended: [
      line("failed", "--failed", (point) => point.failed + point.lost, bars),
      line("retried", "--retrying", (point) => point.retried, bars),
      line("completed", "--completed", (point) => point.completed, bars),
    ],
    waits: [
      line("p50", "--p50", (point) => point.waitP50Ms),
      line("p95", "--p95", (point) => point.waitP95Ms),
      line("p99", "--p99", (point) => point.waitP99Ms),
      line("oldest waiting", "--retrying", (point) => point.oldestWaitingMs, { dashed: true }),
    ],
    runs: [
      line("p50", "--p50", (point) => point.p50Ms),
      line("p95", "--p95", (point) => point.p95Ms),
      line("p99", "--p99", (point) => point.p99Ms),
    ],
  };
}

/** Whether anything was counted in a series. */
export function isQuiet(series: Series): boolean {
  return series.total.started === 0 && ended(series.total) === 0 && series.points.every((one) => !one.oldestWaitingMs);
}

/** The attempts that have ended; a snooze is none. */
export function ended(counts: Counts): number {
  return counts.completed + counts.failed + counts.retried + counts.cancelled + counts.lost;
}

/** The attempts that did not succeed. */
export function unsuccessful(counts: Counts): number {
  return counts.failed + counts.retried + counts.lost;
}

/** The share of the attempts that did not succeed; null without attempts. */
export function failing(counts: Counts): number | null {
  const all = ended(counts);
  return all ? unsuccessful(counts) / all : null;
}

/** A share as text: "0.4 %", "12 %". */
export function share(value: number | null): string {
  if (value === null) return "–";
  const percent = value * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

export type Change = { text: string; worse: boolean | null };

/** A value against that of a week before, where larger is worse: "3.2×", "−40 %", "new", "same". */
export function change(now: number | null | undefined, before: number | null | undefined): Change {
  if (now === null || now === undefined) return { text: "–", worse: null };
  if (before === null || before === undefined) return { text: "new", worse: null };
  if (before === 0) return now === 0 ? { text: "same", worse: null } : { text: "new", worse: true };
  const ratio = now / before;
  if (Math.abs(ratio - 1) < 0.05) return { text: "same", worse: null };
  if (ratio >= 2) return { text: `${ratio < 10 ? ratio.toFixed(1) : Math.round(ratio)}×`, worse: true };
  const percent = Math.round((ratio - 1) * 100);
  return { text: `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`, worse: percent > 0 };
}

/** A duration for the axis of a chart, short enough for its place. */
export function tick(ms: number): string {
  if (ms >= 1000 && ms < 10_000) return `${Number((ms / 1000).toFixed(1))} s`;
  return duration(ms);
}

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];

/** The steps of an axis of durations in milliseconds, as clocks have them: 15 min, not the 16 min 40 s of a round number. */
export const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((many) => many * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((many) => many * MINUTE),
  ...[1, 2, 3, 6, 12].map((many) => many * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((many) => many * DAY),
];

/** A step of the statistics in words: "10m" is "10 min". */
export function stepWords(step: string): string {
  const [, number, unit] = /^(\d+)([smhdw])$/.exec(step) ?? [];
  const words: Record<string, string> = { s: "s", m: "min", h: "h", d: "d", w: "weeks" };
  if (!number || !unit) return step;
  return number === "1" ? ({ m: "minute", h: "hour", d: "day" }[unit] ?? step) : `${number} ${words[unit]}`;
}
