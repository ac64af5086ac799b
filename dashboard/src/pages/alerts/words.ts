// Alert rules as words.
import type { Schemas } from "../../api/client";

export const ALERTS = ["alerts"];
export type Rule = Schemas["RuleOut"];
export type Kind = Rule["kind"];

export const KINDS: [Kind, string][] = [
  ["dead_letters", "Dead letters"],
  ["schedule_missed", "A schedule missed its firing"],
  ["queue_late", "A queue is late"],
  ["no_worker", "No worker is alive"],
  ["breaker_open", "A breaker is open"],
];

export function rulePath(rule: Pick<Rule, "id">): string {
  return `/api/alerts/${encodeURIComponent(rule.id)}`;
}

/** The kind of a rule in words. */
export function kindWords(kind: Kind): string {
  return KINDS.find(([one]) => one === kind)?.[1] ?? kind;
}

/** The state of a rule's alert in a word. */
export function statusWords(rule: Pick<Rule, "enabled" | "status">): string {
  return rule.enabled ? rule.status : "disabled";
}
