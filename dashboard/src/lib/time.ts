// Times as text. Ages are counted from the server's clock, so that a wrong clock of the viewer shows no negative wait.

let offset = 0;

/** Learn the server's clock from the Date header of an answer, which has whole seconds. */
export function learnClock(date: string | null, now = Date.now()): void {
  const server = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(server)) return;
  const seen = server + 500 - now;
  // The header is cut to the second: only a larger difference says something.
  if (Math.abs(seen - offset) > 1000) offset = seen;
}

/** The server's time in milliseconds. */
export function serverNow(): number {
  return Date.now() + offset;
}

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** A duration such as "250 ms", "4.2 s", "3 min 20 s" or "2 d 4 h"; two units as long as there are fewer than `upTo`. */
export function duration(ms: number | null | undefined, upTo = 20): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 0) return `-${duration(-ms, upTo)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  for (const [index, [size, unit]] of UNITS.entries()) {
    if (ms < size) continue;
    const next = UNITS[index + 1];
    const whole = Math.floor(ms / size);
    const rest = next ? Math.floor((ms % size) / next[0]) : 0;
    return rest && next && whole < upTo ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
  }
  return `${Math.round(ms)} ms`;
}

/** A duration that the service wrote, such as "10m" or "1h30m", as the pages write it: "10 min", "1 h 30 min". */
export function spelt(text: string): string {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d|w))+$/.test(text)) return text;
  return text
    .replace(/([\d.]+)(ms|s|m|h|d|w)/g, (_, value: string, unit: string) => `${value} ${unit === "m" ? "min" : unit} `)
    .trim();
}

/** A duration that is only foreseen, as exact as it can be known: "about 40 s", "about 6 min", "about 2 h". */
export function estimate(ms: number): string {
  if (ms < 10_000) return "a few seconds";
  const step = ms < 55_000 ? 10_000 : ms < 3_570_000 ? 60_000 : ms < 36_000_000 ? 1_800_000 : 3_600_000;
  return `about ${duration(Math.max(step, Math.round(ms / step) * step))}`;
}

/** An instant relative to now: "in 5 min", "3 h ago", "now". From ten of a unit on, the smaller unit is left out. */
export function relative(at: string | number, now = serverNow()): string {
  const ms = (typeof at === "number" ? at : Date.parse(at)) - now;
  if (Number.isNaN(ms)) return "–";
  if (Math.abs(ms) < 1500) return "now";
  const text = duration(Math.round(Math.abs(ms) / 1000) * 1000, 10).replace(/\.0 s$/, " s");
  return ms > 0 ? `in ${text}` : `${text} ago`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string | undefined, seconds: boolean): Intl.DateTimeFormat {
  const key = `${zone}${seconds}`;
  let found = formats.get(key);
  if (!found) {
    const options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: seconds ? "medium" : "short" };
    try {
      found = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone });
    } catch {
      found = new Intl.DateTimeFormat("en-GB", options); // an unknown zone spoils nothing
    }
    formats.set(key, found);
  }
  return found;
}

/** An instant as date and time in the viewer's zone, or in another one. */
export function absolute(at: string | number, zone?: string, seconds = true): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : format(zone, seconds).format(date);
}

/** A sentence of the service with its instants in the viewer's zone. */
export function withLocalInstants(text: string): string {
  return text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)/g, (instant) => absolute(instant));
}

/** The viewer's time zone. */
export const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
