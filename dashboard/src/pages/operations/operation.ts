// Operations in words: what each verb does, which states it works on, and how far it is.
import type { Schemas } from "../../api/client";
import { count, plural } from "../../lib/text";

export type Operation = Schemas["OperationOut"];
export type Verb = Operation["verb"];
export type Meant = { filter: Record<string, unknown> } | { ids: string[] };

type Words = {
  label: string;
  plan: string;
  doing: string;
  did: string;
  done: string;
  danger: boolean;
  states: readonly string[];
};

export const VERBS: Record<Verb, Words> = {
  retry: {
    label: "Retry",
    plan: "Retry",
    doing: "Retrying",
    did: "Retried",
    done: "retried",
    danger: false,
    states: ["failed", "cancelled", "completed"],
  },
  run: {
    label: "Run now",
    plan: "Make due",
    doing: "Making due",
    did: "Made due",
    done: "made due",
    danger: false,
    states: ["pending"],
  },
  cancel: {
    label: "Cancel",
    plan: "Cancel",
    doing: "Cancelling",
    did: "Cancelled",
    done: "cancelled",
    danger: true,
    states: ["pending", "running", "blocked"],
  },
  set_priority: {
    label: "Change priority",
    plan: "Change the priority of",
    doing: "Changing the priority of",
    did: "Changed the priority of",
    done: "changed",
    danger: false,
    states: ["pending", "blocked"],
  },
  move: {
    label: "Move to a queue",
    plan: "Move",
    doing: "Moving",
    did: "Moved",
    done: "moved",
    danger: false,
    states: ["pending", "blocked"],
  },
  delete: {
    label: "Delete",
    plan: "Delete",
    doing: "Deleting",
    did: "Deleted",
    done: "deleted",
    danger: true,
    states: ["pending", "blocked", "completed", "failed", "cancelled", "expired"],
  },
};

type Told = Pick<Operation, "verb" | "count" | "capped" | "priority" | "queue" | "state">;

/** What an operation does, has done, or was to do before it was stopped, in one sentence. */
export function sentence(operation: Told): string {
  const jobs = plural(operation.count, "job", "jobs", operation.capped);
  const words = VERBS[operation.verb];
  const form = operation.state === "completed" ? "did" : ended(operation) ? "plan" : "doing";
  const verb = words?.[form] ?? operation.verb;
  if (operation.verb === "set_priority") return `${verb} ${jobs} to ${operation.priority}`;
  if (operation.verb === "move") return `${verb} ${jobs} to queue ${operation.queue}`;
  return `${verb}${operation.verb === "run" ? ":" : ""} ${jobs}`;
}

/** Whether there is nothing more to come of it. */
export function ended(operation: Pick<Operation, "state">): boolean {
  return !["waiting", "running"].includes(operation.state);
}

/** What became of the jobs so far. */
export function outcome(operation: Pick<Operation, "verb" | "progress" | "state">): string {
  const { changed, skipped, refused } = operation.progress;
  if (operation.state === "cancelled" && changed + skipped + refused === 0) return "no job was changed";
  const found = [`${count(changed)} ${VERBS[operation.verb]?.done ?? "changed"}`];
  if (skipped) found.push(`${count(skipped)} skipped`);
  if (refused) found.push(`${count(refused)} refused`);
  return found.join(", ");
}

/** How far it is, in percent of the jobs that were meant; null where only "at least so many" is known. */
export function percent(operation: Pick<Operation, "count" | "capped" | "progress" | "state">): number | null {
  if (operation.state === "completed") return 100;
  if (operation.capped || operation.count === 0) return null;
  return Math.min(100, (100 * operation.progress.examined) / operation.count);
}

/** The verbs that do something to at least one of these states. */
export function verbsFor(states: Iterable<string>): Verb[] {
  const there = new Set(states);
  return (Object.keys(VERBS) as Verb[]).filter((verb) => VERBS[verb].states.some((state) => there.has(state)));
}
