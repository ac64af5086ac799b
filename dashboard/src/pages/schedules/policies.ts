// The policies of a schedule in words.
import type { Schemas } from "../../api/client";
import { spelt } from "../../lib/time";

type Policy = Schemas["PolicyOut"];

export const OVERLAPS: readonly [string, string][] = [
  ["allow", "Allow: runs may overlap"],
  ["skip", "Skip: no new run while one is going"],
  ["queue_one", "Queue one: at most one run waits for the running one"],
  ["queue_all", "Queue all: runs follow one after the other"],
  ["cancel_running", "Cancel the running one and start a new run"],
];

export const MISFIRES: readonly [string, string][] = [
  ["latest", "Latest: one run for all that were missed"],
  ["skip", "Skip: none of them"],
  ["all", "All: one run each, up to a limit"],
];

export function overlapWords(policy: Policy): string {
  return OVERLAPS.find(([value]) => value === policy.overlap)?.[1] ?? policy.overlap;
}

export function misfireWords(policy: Policy): string {
  const kept =
    policy.misfire === "all"
      ? `the last ${policy.misfireLimit} missed firings get a run each`
      : policy.misfire === "latest"
        ? "missed firings get one run together"
        : "missed firings get no run";
  const deadline = policy.startDeadline ? `; none older than ${spelt(policy.startDeadline)}` : "";
  return `A firing is missed ${spelt(policy.misfireGrace)} after its time: ${kept}${deadline}`;
}
