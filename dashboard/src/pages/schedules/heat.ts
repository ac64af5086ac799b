// The calendar: buckets of an hour as a grid of days and hours in a time zone, and how strongly to colour them.
import type { Schemas } from "../../api/client";

export type Bucket = Schemas["BucketOut"];
export type Coming = Schemas["ComingOut"];
export type Change = Schemas["ClockChangeOut"];
export type Cell = { day: string; hour: number; at: string; firings: number; herd: number; schedules: number };
export type Day = { day: string; weekday: string; cells: (Cell | null)[]; changes: Change[] };

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function parts(ms: number, zone: string): { day: string; hour: number; minute: number; weekday: string } {
  const format = formatter(zone);
  const found = Object.fromEntries(format.formatToParts(ms).map((part) => [part.type, part.value]));
  return {
    day: `${found.year}-${found.month}-${found.day}`,
    hour: Number(found.hour),
    minute: Number(found.minute),
    weekday: found.weekday ?? "",
  };
}

const formatters = new Map<string, Intl.DateTimeFormat>();

function formatter(zone: string): Intl.DateTimeFormat {
  let found = formatters.get(zone);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      weekday: "short",
      hourCycle: "h23",
    });
    formatters.set(zone, found);
  }
  return found;
}

/** The beginning of the day of an instant in a zone: the first window of the calendar. */
export function dayStart(ms: number, zone: string): number {
  const { hour, minute } = parts(ms, zone);
  const rough = ms - (ms % 60_000) - hour * HOUR - minute * 60_000;
  // Clocks may have changed since midnight: look for midnight nearby.
  for (const shift of [0, -HOUR, HOUR, -HOUR / 2, HOUR / 2]) {
    const found = parts(rough + shift, zone);
    if (found.hour === 0 && found.minute === 0 && found.day === parts(ms, zone).day) return rough + shift;
  }
  return rough;
}

/** Days from the first one on, each with its 24 hours; an hour that a change of clocks takes away is null. */
export function grid(coming: Pick<Coming, "start" | "buckets" | "clockChanges">, days: number, zone: string): Day[] {
  const start = Date.parse(coming.start);
  const byDay = new Map<string, Day>();
  for (let ms = start; ms < start + (days + 1) * DAY; ms += HOUR) {
    const { day, hour, weekday } = parts(ms, zone);
    let found = byDay.get(day);
    if (!found) {
      if (byDay.size === days) break;
      found = { day, weekday, cells: Array.from({ length: 24 }, () => null), changes: [] };
      byDay.set(day, found);
    }
    found.cells[hour] ??= { day, hour, at: new Date(ms).toISOString(), firings: 0, herd: 0, schedules: 0 };
  }
  for (const bucket of coming.buckets) {
    const { day, hour } = parts(Date.parse(bucket.at), zone);
    const cell = byDay.get(day)?.cells[hour];
    if (!cell) continue;
    // An hour that happens twice has two buckets.
    cell.firings += bucket.firings;
    cell.herd += bucket.herd;
    cell.schedules = Math.max(cell.schedules, bucket.schedules);
  }
  for (const change of coming.clockChanges) byDay.get(parts(Date.parse(change.at), zone).day)?.changes.push(change);
  return [...byDay.values()];
}

export const LEVELS = 5;

/** How strong a cell is coloured, from 0 to 5: by the logarithm, since one busy hour should not hide all others. */
export function level(firings: number, most: number): number {
  if (firings <= 0) return 0;
  if (most <= 1) return 1;
  return Math.max(1, Math.ceil((Math.log(firings + 1) / Math.log(most + 1)) * LEVELS));
}

/** Whether most of a bucket fires in its first minute, and enough of it to matter. */
export function isHerd(cell: { firings: number; herd: number }): boolean {
  return cell.herd >= 5 && cell.herd * 2 >= cell.firings;
}
