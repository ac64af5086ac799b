// Queues as the overview reads them.
import type { Schemas } from "../../api/client";
import { estimate } from "../../lib/time";

export type Queue = Schemas["QueueOut"] & {
  due?: number;
  oldestDueAt?: string | null;
  utilisation?: number | null;
  noWorker?: boolean;
  drainMs?: number | null;
  activity?: { ended: number[]; failed: number[] };
};

/** The jobs that would run now if there were room. */
export function backlogOf(queue: Queue): number {
  return (queue.due ?? queue.ready) + queue.waiting;
}

/** Whether the backlog is larger than it was counted. */
export function isCapped(queue: Queue): boolean {
  return (queue.due ?? queue.ready) >= queue.counted || queue.waiting >= queue.counted;
}

/** How long the backlog takes, as text. */
export function drainOf(queue: Queue): string {
  if (backlogOf(queue) === 0) return "–";
  if (queue.paused) return "paused";
  if (queue.drainMs === null || queue.drainMs === undefined) return "unknown";
  return isCapped(queue) ? `${estimate(queue.drainMs)} or more` : estimate(queue.drainMs);
}

/** Queues without a worker first, then by backlog, then by name. */
export function worstFirst(queues: readonly Queue[]): Queue[] {
  const rank = (queue: Queue) => (queue.noWorker ? 1 : 0);
  return queues.toSorted(
    (one, other) => rank(other) - rank(one) || backlogOf(other) - backlogOf(one) || one.name.localeCompare(other.name),
  );
}
