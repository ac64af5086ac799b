// The jobs of a flow over time: where the bar of each row lies between the first start and the last end. Pure.
import type { Schemas } from "../../api/client";

export type Row = Schemas["TimelineRowOut"];
export type Bar = {
  row: Row;
  /** In per cent of the chart; null for a row that has not started. */
  x: number | null;
  width: number;
  /** In milliseconds. */
  lasted: number;
  open: boolean;
};
export type Chart = { start: number; end: number; bars: Bar[]; ticks: { percent: number; at: number }[] };

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800];
const MOST_TICKS = 7;

/** The chart of rows at an instant. A time that cannot be read counts as missing. */
export function chartOf(rows: readonly Row[], now: number): Chart {
  const starts = rows.map((row) => instant(row.start)).filter((at) => at !== null);
  const start = starts.length ? Math.min(...starts) : now;
  const ends = rows.map((row) => (instant(row.start) === null ? null : (instant(row.end) ?? now)));
  const end = Math.max(start + 1, ...ends.filter((at) => at !== null));
  const percent = (at: number) => ((at - start) / (end - start)) * 100;
  return {
    start,
    end,
    ticks: ticks(start, end).map((at) => ({ at, percent: percent(at) })),
    bars: rows.map((row) => {
      const from = instant(row.start);
      const to = Math.max(from ?? 0, instant(row.end) ?? now);
      if (from === null) return { row, x: null, width: 0, lasted: 0, open: false };
      return { row, x: percent(from), width: percent(to) - percent(from), lasted: to - from, open: !instant(row.end) };
    }),
  };
}

/** Where the words of a bar are readable: behind it, before it, or inside a bar that fills its row. */
export function placeOfWords({ x, width }: Pick<Bar, "x" | "width">): "after" | "before" | "inside" {
  if (x === null || x + width <= 82) return "after";
  return x >= 18 ? "before" : "inside";
}

function instant(text: string | null | undefined): number | null {
  const at = text ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/** Instants after the start, at round distances from it. */
function ticks(start: number, end: number): number[] {
  const seconds = (end - start) / 1000;
  const step = STEPS.find((one) => seconds / one <= MOST_TICKS) ?? Math.ceil(seconds / MOST_TICKS);
  const found: number[] = [];
  for (let at = start; at <= end; at += step * 1000) found.push(at);
  return found;
}
