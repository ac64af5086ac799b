// Scopes, lists and days as words, and back.
import type { Schemas } from "../../api/client";

/** What a key or a secret reaches, in words. */
export function scopeWords(scope: { queues?: string[] | null; prefixes?: string[] | null }): string {
  const parts = [];
  if (scope.queues) parts.push(`${scope.queues.length === 1 ? "queue" : "queues"} ${scope.queues.join(", ")}`);
  if (scope.prefixes) parts.push(`names beginning with ${scope.prefixes.join(" or ")}`);
  return parts.length ? parts.join("; ") : "everything";
}

/** The entries of a list that is typed with commas or line breaks between them; null where there is none. */
export function listed(text: string): string[] | null {
  const found = text
    .split(/[,\n]/)
    .map((one) => one.trim())
    .filter(Boolean);
  return found.length ? [...new Set(found)] : null;
}

export type KeyState = "in force" | "revoked" | "expired";

/** Whether a key is valid now. */
export function keyState(key: Pick<Schemas["KeyFacts"], "revokedAt" | "expiresAt">, now: number): KeyState {
  if (key.revokedAt) return "revoked";
  return key.expiresAt && Date.parse(key.expiresAt) <= now ? "expired" : "in force";
}

type Days = { days: string[]; ranges: string[][]; yearly: string[]; weekdays: string[] };

/** The days of a calendar in one line. */
export function daysWords(days: Days): string {
  const parts = [];
  if (days.weekdays.length) parts.push(days.weekdays.join(", "));
  if (days.yearly.length) parts.push(`every year ${some(days.yearly)}`);
  if (days.ranges.length) parts.push(some(days.ranges.map(([first, last]) => `${first} to ${last}`)));
  if (days.days.length) parts.push(some(days.days));
  return parts.join("; ") || "no day";
}

function some(all: readonly string[], most = 4): string {
  const more = all.length - most;
  return all.slice(0, most).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Ranges that are typed one to a line, as "2030-12-24 to 2031-01-01". */
export function rangesOf(text: string): [string, string][] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const [first = "", last] = line.split(/\s+to\s+|\s*…\s*|\s+-\s+/);
      return [first.trim(), (last ?? first).trim()];
    });
}

/** The value of a setting in one line; `said` where the words stand for a value instead of spelling it. */
export function settingText(value: unknown): { text: string; said: boolean } {
  if (value === null || value === undefined) return { text: "not set", said: true };
  if (value === "") return { text: "an empty text", said: true };
  if (Array.isArray(value) && value.length === 0) return { text: "an empty list", said: true };
  return { text: typeof value === "string" ? value : JSON.stringify(value), said: false };
}
