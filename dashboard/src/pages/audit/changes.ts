// What a row of the audit log has changed: the values before and after, compared field by field.

export type Changed = { path: string; before?: unknown; after?: unknown };

/** More than this many differences are not listed one by one. */
export const MOST_CHANGES = 200;

/** The fields that differ between two values, by their paths; a value that is there on one side only has that side. */
export function changesBetween(before: unknown, after: unknown): Changed[] {
  const found: Changed[] = [];
  collect("", before ?? undefined, after ?? undefined, found);
  return found;
}

function collect(path: string, before: unknown, after: unknown, found: Changed[]): void {
  if (found.length >= MOST_CHANGES || same(before, after)) return;
  if ((isPlain(before) && isPlain(after)) || (path === "" && (isPlain(before) || isPlain(after)))) {
    const one = isPlain(before) ? before : {};
    const other = isPlain(after) ? after : {};
    const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
    for (const key of keys) collect(path ? `${path}.${key}` : key, own(one, key), own(other, key), found);
    return;
  }
  const change: Changed = { path };
  if (before !== undefined) change.before = before;
  if (after !== undefined) change.after = after;
  found.push(change);
}

function own(value: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function same(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

const PLAIN_FIRST = ["reason", "name", "state"];

/** The difference that tells most in one line: a value that was replaced, else a reason, a name or a state. */
export function foremost(changes: readonly Changed[]): Changed | undefined {
  const replaced = changes.find((one) => "before" in one && "after" in one);
  const named = PLAIN_FIRST.map((path) => changes.find((one) => one.path === path)).find(Boolean);
  return replaced ?? named ?? changes.find((one) => !/^_?id$/.test(one.path)) ?? changes[0];
}

/** A value in one line, cut where it is long. */
export function brief(value: unknown, longest = 60): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
