// What the overview shows of time: a range that moves with the clock, and a part of it that was chosen by dragging.
import type { Search } from "../../app/routes";

export const RANGES = ["15m", "1h", "6h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

const MINUTE = 60_000;
const LENGTHS: Record<Range, number> = {
  "15m": 15 * MINUTE,
  "1h": 60 * MINUTE,
  "6h": 6 * 60 * MINUTE,
  "24h": 24 * 60 * MINUTE,
  "7d": 7 * 24 * 60 * MINUTE,
  "30d": 30 * 24 * 60 * MINUTE,
};

export type Span = { start: string; end: string };
export type View = {
  range: Range;
  queue: string | undefined;
  /** The part that was chosen by dragging; null where there is none, or the address has no valid one. */
  part: Span | null;
  /** Whether the charts show that part alone. */
  zoomed: boolean;
};

/** What an address shows; anything invalid in it counts as missing. */
export function readView(search: Search): View {
  const range = RANGES.find((one) => one === search["range"]) ?? "1h";
  const part = readPart(search["from"], search["to"]);
  return { range, queue: search["queue"] || undefined, part, zoomed: part !== null && search["zoom"] === "1" };
}

function readPart(from: string | undefined, to: string | undefined): Span | null {
  const [start, end] = [Date.parse(from ?? ""), Date.parse(to ?? "")];
  if (Number.isNaN(start) || Number.isNaN(end) || end <= start) return null;
  return { start: new Date(start).toISOString(), end: new Date(end).toISOString() };
}

/** The instants of a range that ends now. */
export function spanOf(range: Range, now: number): Span {
  return { start: new Date(now - LENGTHS[range]).toISOString(), end: new Date(now).toISOString() };
}

/** A dragged part as search parameters, in whole minutes, since counts are kept by the minute. */
export function partOf(start: number, end: number): { from: string; to: string } {
  const first = Math.floor((start * 1000) / MINUTE) * MINUTE;
  const last = Math.max(Math.ceil((end * 1000) / MINUTE) * MINUTE, first + MINUTE);
  return { from: new Date(first).toISOString(), to: new Date(last).toISOString() };
}

/** How often the charts of a range are read again, in milliseconds: about a tenth of their step. */
export function refreshOf(range: Range): number {
  return LENGTHS[range] <= LENGTHS["1h"] ? 10_000 : 60_000;
}
