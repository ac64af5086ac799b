// A range on a chart by the keyboard: a cursor that moves by steps, and a mark that Shift extends.

/** The instant under the cursor, and the other end of what is marked; both in seconds, equal where nothing is marked. */
export type Marked = { cursor: number; anchor: number };

const STEPS: Record<string, number> = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

/** What is marked after a key; null for a key that moves nothing. Without a cursor, it begins at the latest instant. */
export function moved(at: readonly number[], marked: Marked | null, key: string, shift: boolean): Marked | null {
  const by = STEPS[key];
  const last = at.length - 1;
  if (by === undefined || last < 0) return null;
  const from = marked ? placeOf(at, marked.cursor) : by < 0 && Number.isFinite(by) ? last + 1 : last;
  const cursor = at[Math.max(0, Math.min(last, from + by))] ?? 0;
  return { cursor, anchor: shift && marked ? marked.anchor : cursor };
}

/** The index of the instant that is nearest; instants move out of a chart while time goes on. */
export function placeOf(at: readonly number[], instant: number): number {
  let best = 0;
  for (const [index, one] of at.entries())
    if (Math.abs(one - instant) < Math.abs((at[best] ?? 0) - instant)) best = index;
  return best;
}

/** The marked part, with the whole last step: its start and end in seconds. */
export function rangeOf(at: readonly number[], { cursor, anchor }: Marked): [number, number] {
  const step = at.length > 1 ? (at[1] ?? 0) - (at[0] ?? 0) : 60;
  return [Math.min(cursor, anchor), Math.max(cursor, anchor) + step];
}
