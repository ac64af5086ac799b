// Rows that stay where they are: what was read again renews the rows that are shown, and new ones wait behind a pill.

/** Why a row that is shown was not read again: it does not match any more, or it may be on another page by now. */
export type Gone = "unmatched" | "elsewhere";
export type Row<T> = { job: T; gone: Gone | null };
export type Settled<T> = { rows: Row<T>[]; fresh: number; more: boolean };

/** The rows that are shown, renewed. A row that was not read again is `gone`; it is known not to match only where what
 * was read is `whole`: all that matches. `more`: all rows of a `full` page are new, so that there may be more than these. */
export function settle<T extends { id: string }>(
  shown: readonly T[],
  read: readonly T[],
  { full = false, whole = !full }: { full?: boolean; whole?: boolean } = {},
): Settled<T> {
  const lost: Gone = whole ? "unmatched" : "elsewhere";
  const renewed = new Map(read.map((job) => [job.id, job]));
  const known = new Set(shown.map((job) => job.id));
  const fresh = read.filter((job) => !known.has(job.id)).length;
  return {
    rows: shown.map((job) => ({ job: renewed.get(job.id) ?? job, gone: renewed.has(job.id) ? null : lost })),
    fresh,
    more: full && fresh === read.length,
  };
}

/** The row that is a step away from the current one; the first where there is none. */
export function moved(ids: readonly string[], current: string | null, step: number): string | null {
  const at = current === null ? -1 : ids.indexOf(current);
  if (at === -1) return ids[0] ?? null;
  return ids[Math.min(ids.length - 1, Math.max(0, at + step))] ?? null;
}

/** A selection with a row more or less. */
export function toggled(selected: ReadonlySet<string>, id: string): Set<string> {
  const next = new Set(selected);
  if (!next.delete(id)) next.add(id);
  return next;
}

/** The selection with all rows of the page, or without them where all are in it. */
export function toggledPage(selected: ReadonlySet<string>, ids: readonly string[]): Set<string> {
  const next = new Set(selected);
  const all = ids.length > 0 && ids.every((id) => next.has(id));
  for (const id of ids) {
    if (all) next.delete(id);
    else next.add(id);
  }
  return next;
}

/** A count that was capped, cut to a round number: there are at least so many. */
export function atLeast(count: number, capped: boolean): { count: number; capped: boolean } {
  if (!capped || count < 10) return { count, capped };
  const digit = 10 ** Math.floor(Math.log10(count));
  return { count: Math.floor(count / digit) * digit, capped };
}
