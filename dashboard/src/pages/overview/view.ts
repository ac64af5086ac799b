// What the overview shows of time: a range that moves with the clock, and a part of it that was chosen by dragging.
import type { Search } from "../../app/routes";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";

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

/** The requests behind the page, for the time and the queue that it shows. */
export function callsOf(view: View, now: number, everything: boolean): Call[] {
  const span = spanOf(view.range, now);
  const charts = view.zoomed && view.part ? view.part : span;
  const names = view.part ?? span;
  const queue: Record<string, string> = view.queue === undefined ? {} : { queue: view.queue };
  const python = (verb: string, { start, end }: Span, rest: Record<string, string>) =>
    [
      `await scheduler.monitor.${verb}(`,
      `    datetime.fromisoformat(${pythonLiteral(start)}),`,
      `    datetime.fromisoformat(${pythonLiteral(end)}),`,
      ...Object.entries(rest).map(([key, value]) => `    ${key}=${pythonLiteral(value)},`),
      ")",
    ].join("\n");
  const path = (of: string, given: Record<string, string>) => `${of}?${new URLSearchParams(given).toString()}`;
  const ordered = (order: string): Record<string, string> => ({ order, ...queue });
  return [
    { title: "Problems and next firings", path: "/api/overview", python: "await scheduler.monitor.overview()" },
    {
      title: "The charts",
      path: path("/api/stats", { ...charts, ...queue }),
      python: python("statistics", charts, queue),
    },
    ...["failing", "slowest"].map((order) => ({
      title: `The ${order === "failing" ? "most failing" : order} names against last week`,
      path: path("/api/stats/names", { ...names, ...ordered(order) }),
      python: python("name_statistics", names, ordered(order)),
    })),
    { title: "Queues", path: "/api/queues", python: "await scheduler.queues.all()" },
    ...(everything ? [{ title: "Workers", path: "/api/workers", python: "await scheduler.workers.all()" }] : []),
  ];
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
