// Queues, limits and breakers in words.
import type { Schemas } from "../../api/client";
import { count, plural } from "../../lib/text";
import { duration, estimate, spelt } from "../../lib/time";

type Queue = Pick<Schemas["QueueOut"], "due" | "waiting" | "counted" | "drainMs" | "noWorker" | "paused" | "slots">;
type Allowance = Schemas["AllowanceOut"];

/** A count of a queue; one that reaches the number up to which it was counted has a plus. */
export function upTo(value: number, counted: number): string {
  return count(value, value >= counted);
}

/** How long the backlog takes, in words. */
export function drainWords(queue: Queue): string {
  if (queue.due + queue.waiting === 0) return "–";
  if (queue.paused) return "paused";
  if (queue.noWorker) return "no worker";
  if (queue.drainMs === null) return "unknown";
  const capped = queue.due >= queue.counted || queue.waiting >= queue.counted;
  return capped ? `${estimate(queue.drainMs)} or more` : estimate(queue.drainMs);
}

type Rule = Record<string, unknown>;

function each(rule: Rule): string {
  const parts = [];
  if (rule.each_queue === true) parts.push("queue");
  if (typeof rule.key === "string") parts.push(rule.key);
  return parts.length ? ` per ${parts.join(" and ")}` : "";
}

const SECONDS: Record<string, string> = { "1": "second", "60": "minute", "3600": "hour", "86400": "day" };

/** A rate such as "100/60s" as people write it: "100 per minute". */
export function rateWords(rate: string): string {
  const found = /^(\d+)\/(\d+)s$/.exec(rate);
  if (!found) return rate;
  const [, starts, seconds] = found as unknown as [string, string, string];
  return `${count(Number(starts))} per ${SECONDS[seconds] ?? duration(Number(seconds) * 1000)}`;
}

/** The limits of a target in words. */
export function limitWords(allowance: Allowance): string {
  const parts = [];
  const { concurrency, rate } = allowance as { concurrency: Rule | null; rate: Rule | null };
  if (concurrency) parts.push(`${count(Number(concurrency.limit))} at once${each(concurrency)}`);
  if (rate) parts.push(`${rateWords(String(rate.rate))}${each(rate)}`);
  return parts.join(", ") || "none";
}

const STATES = { closed: "Closed", open: "Open", half_open: "Half open" } as const;

export function breakerState(state: keyof typeof STATES): string {
  return STATES[state];
}

/** By what rule a breaker opens, in words. */
export function ruleWords(rule: Rule | null): string {
  if (!rule) return "Operators open and close it; no rule is declared.";
  const share = Math.round(Number(rule.errors) * 100);
  const minimum = plural(Number(rule.minimum), "attempt");
  const [openFor, window] = [rule.openFor, rule.window].map((one) => spelt(String(one)));
  return `It opens for ${openFor} when ${share} % of at least ${minimum} within ${window} fail.`;
}

/** The number of gates of a limit that hold jobs back. */
export function saturated(uses: readonly Schemas["GateUseOut"][]): number {
  return uses.filter((use) => use.full || use.waiting > 0).length;
}

/** The same limits or breakers, those of the target that the address names first. */
export function targetFirst<T extends { target: string }>(all: readonly T[], target: string | undefined): T[] {
  return all.toSorted((one, other) => Number(other.target === target) - Number(one.target === target));
}

/** What jobs wait for, in a word or two. */
export function waitWords(by: string): string {
  const words: Record<string, string> = {
    limit: "a limit, a pause or its turn",
    handler: "a worker with its handler",
    overlap: "an earlier run of its schedule",
    version: "a worker with a newer handler",
    key: "a worker with its encryption key",
  };
  return words[by] ?? by;
}

export type AskedLimit = { concurrency: string; concurrencyKey: string; rate: string; rateKey: string; reason: string };

/** The body of the request; a field that is left empty stays as declared. */
export function limitBody(asked: AskedLimit): Schemas["LimitIn"] {
  const body: Schemas["LimitIn"] = { reason: asked.reason.trim() };
  const limit = Number(asked.concurrency);
  const [by, rateBy] = [asked.concurrencyKey.trim(), asked.rateKey.trim()];
  if (asked.concurrency.trim()) body.concurrency = by ? { limit, key: by, eachQueue: false } : limit;
  if (asked.rate.trim()) body.rate = rateBy ? { rate: asked.rate.trim(), key: rateBy, eachQueue: false } : asked.rate;
  return body;
}
