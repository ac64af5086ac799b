// Jobs of one name as bars, the oldest first. Pure.
import { count, plural } from "../../lib/text";
import { duration, relative } from "../../lib/time";
import { shownState } from "../../ui/states";

export const MOST = 20;
const HIGHEST = 36;
const LOWEST = 3;

type Facts = {
  id: string;
  state: string;
  runAt?: string | null;
  tries?: number;
  startedAt?: string | null;
  finishedAt?: string | null;
  /** How long the last attempt ran, in milliseconds. */
  duration?: number | null;
};
export type Bar = { id: string; state: string; took: number | null; height: number; words: string };

/** The bars of the newest jobs, with the job itself among them where it is older than all of them. */
export function barsOf(newest: readonly Facts[], own: Facts, now: number): Bar[] {
  const all = newest.some((one) => one.id === own.id) ? newest : [...newest.slice(0, MOST - 1), own];
  const took = all.map((one) => (one.finishedAt && Number.isFinite(one.duration) ? Number(one.duration) : null));
  const longest = Math.max(1, ...took.map((ms) => ms ?? 0));
  const bars = all.map((one, index): Bar => {
    const ms = took[index] ?? null;
    const state = shownState({ ...one, runAt: one.runAt ?? null }, now);
    const at = one.finishedAt ?? one.startedAt ?? one.runAt;
    const words = [state, ms === null ? "" : ` in ${duration(ms)}`, at ? `, ${relative(at, now)}` : ""].join("");
    return {
      id: one.id,
      state,
      took: ms,
      height: ms === null ? LOWEST : Math.max(LOWEST, Math.round((ms / longest) * HIGHEST)),
      words: one.id === own.id ? `This job: ${words}` : words,
    };
  });
  return bars.toReversed();
}

/** "Of the latest 20 jobs 18 have completed and 2 have failed; half of them took 350 ms or less." */
export function sameNameWords(bars: readonly Bar[]): string {
  const ended = (state: string) => bars.filter((bar) => bar.state === state).length;
  const failed = ended("failed");
  const known = bars.flatMap((bar) => (bar.took === null ? [] : [bar.took])).toSorted((one, other) => one - other);
  const middle = known[Math.floor((known.length - 1) / 2)];
  const told = [`${plural(bars.length, "job")}: ${count(ended("completed"))} completed`];
  if (failed > 0) told.push(`${count(failed)} failed`);
  const median = middle === undefined ? "" : ` Half of them took ${duration(middle)} or less.`;
  return `${told.join(", ")}.${median}`;
}
