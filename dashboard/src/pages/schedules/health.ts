// The firings of a schedule as marks of a strip: one colour and glyph each, and a sentence that says why.
import type { Schemas } from "../../api/client";
import { duration } from "../../lib/time";

export type Firing = Schemas["RecentFiringOut"];
export type Kind =
  | "completed"
  | "late"
  | "running"
  | "waiting"
  | "retrying"
  | "failed"
  | "skipped"
  | "missed"
  | "due"
  | "ended"
  | "fired";

export const KINDS: Record<Kind, { glyph: string; colour: string; word: string }> = {
  completed: { glyph: "✓", colour: "var(--completed)", word: "completed" },
  late: { glyph: "◔", colour: "var(--retrying)", word: "late" },
  running: { glyph: "▶", colour: "var(--running)", word: "running" },
  waiting: { glyph: "○", colour: "var(--pending)", word: "waiting" },
  retrying: { glyph: "↻", colour: "var(--retrying)", word: "retrying" },
  failed: { glyph: "✕", colour: "var(--failed)", word: "failed" },
  skipped: { glyph: "‖", colour: "var(--paused)", word: "skipped" },
  missed: { glyph: "!", colour: "var(--failed)", word: "missed" },
  due: { glyph: "◷", colour: "var(--scheduled)", word: "due" },
  ended: { glyph: "⊘", colour: "var(--cancelled)", word: "ended early" },
  fired: { glyph: "·", colour: "var(--completed)", word: "fired" },
};

/** The kind of a mark. What went wrong with the job counts more than that the firing was late. */
export function kindOf(firing: Pick<Firing, "outcome" | "jobState">): Kind {
  const { outcome, jobState } = firing;
  if (outcome === "skipped" || outcome === "missed") return outcome;
  if (outcome === "due") return "due";
  if (jobState === "failed") return "failed";
  if (jobState === "retrying" || jobState === "running") return jobState;
  if (jobState === "cancelled" || jobState === "expired") return "ended";
  if (jobState === "pending" || jobState === "blocked") return "waiting";
  if (outcome === "late") return "late";
  return jobState === "completed" ? "completed" : "fired";
}

const OUTCOMES: Record<string, string> = {
  on_time: "Fired on time",
  backfilled: "Made up for by a backfill",
  triggered: "Triggered by hand",
  due: "Due, and no worker has decided it yet: is a worker running?",
  expected: "Expected",
  missed: "Missed: no worker was running in time",
};

const JOBS: Record<string, string> = {
  completed: "its job has completed",
  failed: "its job has failed",
  running: "its job is running",
  retrying: "its job has failed and is being retried",
  pending: "its job waits for a worker",
  blocked: "its job waits for other jobs",
  cancelled: "its job was cancelled",
  expired: "its job was not started in time",
};

/** Why a firing has this mark, in a sentence. */
export function whyOf(firing: Firing): string {
  let text = OUTCOMES[firing.outcome] ?? firing.outcome;
  if (firing.outcome === "late") text = `Fired ${duration(firing.lateByMs)} late`;
  if (firing.outcome === "skipped") text = `Skipped: ${skipReason(firing.reason)}`;
  else if (firing.reason) text += ` (${firing.reason})`;
  if (firing.jobId && firing.outcome !== "missed")
    text += `; ${firing.jobState ? (JOBS[firing.jobState] ?? firing.jobState) : "its job is no longer stored"}`;
  if (firing.actor) text += `. By ${firing.actor}`;
  return `${text}.`;
}

const SKIPS: Record<string, string> = {
  overlap: "an earlier run was still going, and the overlap policy leaves this one out",
  paused: "the schedule was paused",
  misfire: "the misfire policy leaves it out",
  expired: "it was older than the start deadline",
  "by hand": "by hand",
};

function skipReason(reason: string): string {
  if (reason.startsWith("calendar")) return `its day is in the ${reason}`;
  const [kind = "", ...rest] = reason.split(": ");
  const words = SKIPS[kind] ?? kind;
  return [words, ...rest].filter(Boolean).join(": ") || "no reason was noted";
}

/** A strip in a sentence, for those who do not see it. */
export function stripWords(firings: readonly Firing[]): string {
  const counts = new Map<string, number>();
  for (const one of firings) {
    const { word } = KINDS[kindOf(one)];
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const parts = [...counts].map(([word, number]) => `${number} ${word}`);
  return firings.length ? `The last ${firings.length} firings: ${parts.join(", ")}` : "It has not fired yet";
}
