// Alert rules as words.
import type { Schemas } from "../../api/client";

export const ALERTS = ["alerts"];
export type Rule = Schemas["RuleOut"];
export type Destination = Schemas["DestinationOut"];
export type Kind = Rule["kind"];

export const KINDS: [Kind, string][] = [
  ["dead_letters", "Dead letters"],
  ["schedule_missed", "A schedule missed its firing"],
  ["queue_late", "A queue is late"],
  ["no_worker", "No worker is alive"],
  ["breaker_open", "A breaker is open"],
];

/** The kind of a rule in words. */
export function kindWords(kind: Kind): string {
  return KINDS.find(([one]) => one === kind)?.[1] ?? kind;
}

/** Where messages go, without secrets. */
export function destinationWords(to: Destination): string {
  return to.type === "email" ? (to.to ?? []).join(", ") : `${to.type} ${to.url ?? ""}`;
}

/** The state of a rule's alert in a word. */
export function statusWords(rule: Pick<Rule, "enabled" | "status" | "silence">): string {
  if (!rule.enabled) return "disabled";
  return rule.silence ? `${rule.status}, silenced` : rule.status;
}

/** The destinations after a line of each was typed; lines that are as they were shown keep what is hidden. */
export function destinationsOf(text: string, before: readonly Destination[] = []): Destination[] {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  return lines.map((line) => before.find((one) => destinationWords(one) === line) ?? destinationOf(line));
}

function destinationOf(line: string): Destination {
  const [first = "", rest] = line.split(/\s+/, 2);
  if (rest && (first === "chat" || first === "webhook")) return { type: first, url: rest };
  return { type: "email", to: line.split(",").map((one) => one.trim()) };
}
