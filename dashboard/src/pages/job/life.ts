// The life of a job as bars: widths that keep short runs visible beside long waits, and the words for each span.
import type { Schemas } from "../../api/client";

export type Span = Schemas["TimelineSpanOut"];
export type Bar = {
  span: Span;
  /** In per cent of the drawing. */
  x: number;
  width: number;
  /** In milliseconds. */
  lasted: number;
  /** The time is drawn much shorter than it was. */
  compressed: boolean;
};

/** The bars of a life. A bar's width grows with the logarithm of its time, so that a wait of days hides no run. */
export function bars(spans: readonly Span[], now: number): Bar[] {
  const timed = spans.map((span) => ({ span, lasted: lasted(span, now) }));
  const weights = timed.map((one) => 1 + Math.log10(1 + one.lasted / 100));
  const whole = weights.reduce((sum, one) => sum + one, 0);
  const scales = timed.map((one, index) => one.lasted / (weights[index] ?? 1)).filter((one) => one > 0);
  const finest = Math.min(...scales);
  let x = 0;
  return timed.map(({ span, lasted: took }, index) => {
    const width = ((weights[index] ?? 1) / Math.max(1, whole)) * 100;
    const bar = { span, x, width, lasted: took, compressed: took > 5000 && took / (weights[index] ?? 1) > 10 * finest };
    x += width;
    return bar;
  });
}

/** How long a span lasted, or lasts so far; an unreadable time lasts nothing. */
export function lasted(span: Span, now: number): number {
  const start = Date.parse(span.start);
  const end = span.end ? Date.parse(span.end) : Math.max(now, start);
  const took = end - start;
  return Number.isFinite(took) ? Math.max(0, took) : 0;
}

const WORDS: Record<string, string> = {
  scheduled: "Waited for its time",
  waiting: "Waited to be started",
  retry_wait: "Waited for the next attempt",
  snoozed: "Snoozed",
  between_rounds: "Had ended, until it was run again",
  blocked: "Blocked",
  unknown: "Not kept",
};
const NOW: Record<string, string> = {
  scheduled: "Waits for its time",
  waiting: "Waits to be started",
  retry_wait: "Waits for the next attempt",
  snoozed: "Snoozes",
  blocked: "Is blocked",
};

/** The words for a span. `open`: it still lasts at the server's time. */
export function words(span: Span, open: boolean): string {
  if (span.kind === "running") {
    const which = span.attempt ? `Attempt ${span.attempt}` : "A run";
    return span.outcome
      ? `${which}: ${span.outcome === "lost" ? "its worker was lost" : span.outcome}`
      : `${which} runs`;
  }
  const ended = span.outcome ? `, then ${span.outcome}` : "";
  return `${(open ? NOW[span.kind] : undefined) ?? WORDS[span.kind] ?? span.kind}${ended}`;
}

/** Whether a span lasts at an instant. */
export function isOpen(span: Span, now: number): boolean {
  return !span.end || Date.parse(span.end) > now;
}

/** The colour token of a span. */
export function tint(span: Span): string {
  if (span.kind !== "running") {
    const waits: Record<string, string> = {
      retry_wait: "--retrying",
      scheduled: "--scheduled",
      snoozed: "--scheduled",
    };
    return waits[span.kind] ?? (span.kind === "blocked" ? "--blocked" : "--pending");
  }
  const ends: Record<string, string> = {
    completed: "--completed",
    failed: "--failed",
    lost: "--failed",
    retried: "--retrying",
    cancelled: "--cancelled",
    snoozed: "--scheduled",
  };
  return ends[span.outcome ?? ""] ?? "--running";
}
