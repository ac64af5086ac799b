// The states of jobs as people see them: one word, one glyph and one colour each, the same on every page.

export type Shown =
  | "pending"
  | "scheduled"
  | "running"
  | "retrying"
  | "completed"
  | "failed"
  | "cancelled"
  | "expired"
  | "blocked"
  | "paused";

export const GLYPHS: Record<Shown, string> = {
  pending: "○",
  scheduled: "◷",
  running: "▶",
  retrying: "↻",
  completed: "✓",
  failed: "✕",
  cancelled: "⊘",
  expired: "⊖",
  blocked: "◫",
  paused: "‖",
};

type Facts = { state: string; runAt?: string | null; tries?: number };

/** The word for a job: a pending job with attempts is retrying, one with a later run time is scheduled. */
export function shownState(job: Facts, now: number): string {
  if (job.state !== "pending") return job.state;
  if ((job.tries ?? 0) > 0) return "retrying";
  return job.runAt && Date.parse(job.runAt) > now ? "scheduled" : "pending";
}

/** The glyph of a state; an unknown one has a question mark and spoils nothing. */
export function glyph(state: string): string {
  return GLYPHS[state as Shown] ?? "?";
}

/** The CSS colour of a state. */
export function colour(state: string): string {
  return state in GLYPHS ? `var(--${state})` : "var(--muted)";
}
