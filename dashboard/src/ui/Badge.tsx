import type { ReactNode } from "react";
import { serverNow } from "../lib/time";
import { colour, glyph, shownState } from "./states";
import "./Badge.css";

type Tone = "neutral" | "good" | "warn" | "bad" | "info";

/** A short word about something, in a tone. */
export function Badge({ tone = "neutral", children, title }: { tone?: Tone; children: ReactNode; title?: string }) {
  return (
    <span className={`badge badge-${tone}`} title={title}>
      {children}
    </span>
  );
}

/** The state of a job: its glyph and its word, in its colour. */
export function StateBadge({
  job,
  state,
  word,
  quiet,
}: {
  job?: { state: string; runAt?: string | null; tries?: number };
  state?: string;
  /** In place of the state's own word, where the look is the same. */
  word?: string;
  /** Without its colour: it may be out of date. */
  quiet?: boolean;
}) {
  const shown = state ?? (job ? shownState(job, serverNow()) : "unknown");
  return (
    <span className="state" style={{ color: quiet ? "var(--muted)" : colour(shown) }}>
      <span className="state-glyph" aria-hidden="true">
        {glyph(shown)}
      </span>
      {word ?? shown}
    </span>
  );
}
