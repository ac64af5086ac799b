// Problems as the overview shows them: where each sentence leads, and what each cure asks the service for.
import type { Schemas } from "../../api/client";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";

export type Problem = Schemas["ProblemOut"];
export type Target = Schemas["ProblemTargetOut"];
export type Cure = Schemas["CureOut"];
export type Place = { to: string; params?: Record<string, string>; search?: Record<string, string> };

/** The view that proves a problem. */
export function placeOf(problem: Pick<Problem, "kind" | "target">): Place {
  const { target, kind } = problem;
  switch (target.kind) {
    case "queue":
      return { to: "/queues/$queue", params: { queue: target.id } };
    case "schedule":
      return { to: "/schedules/$id", params: { id: target.id } };
    case "job":
      return { to: "/jobs/$id", params: { id: target.id } };
    case "workers":
      return { to: "/workers" };
    case "error":
      return { to: "/dead-letters", search: { group: target.id } };
    case "limit":
      if (target.scope === "queue") return { to: "/queues/$queue", params: { queue: target.id } };
      return { to: "/queues", search: { tab: "limits", target: target.id } };
    case "breaker":
      return { to: "/queues", search: { tab: "breakers", target: target.id } };
    default:
      return { to: "/jobs", search: { name: target.id, ...(kind === "failing" ? { state: "failed" } : {}) } };
  }
}

/** The word on the button of a cure; null for a cure that this page only names. */
export function wordOf(cure: Cure): string | null {
  switch (cure.verb) {
    case "resume":
      return "Resume";
    case "close_breaker":
      return "Close the breaker";
    case "retry_dead_letters":
      return "Retry its dead letters";
    default:
      return null;
  }
}

/** What a cure will do, in a sentence. */
export function sentenceOf(cure: Cure): string {
  const { target } = cure;
  switch (cure.verb) {
    case "resume":
      return `Workers start jobs of the ${wordsOf(target)} again.`;
    case "close_breaker":
      return `The breaker of the ${wordsOf(target)} closes: its jobs start again, and it counts attempts from zero.`;
    default:
      return `The dead letters of ${target.name ?? "this error"} with the same error run again; workers carry this out in the background.`;
  }
}

function wordsOf(target: Target): string {
  if (target.kind === "schedule") return `schedule ${target.id}`;
  const [key, value] = Object.entries(target.key ?? {})[0] ?? [];
  const whole = `${target.scope === "queue" || target.kind === "queue" ? "queue" : "job"} ${target.id}`;
  return key === undefined ? whole : `${whole} with ${key} ${String(value)}`;
}

/** The request behind a cure, to send and to show. */
export function callOf(cure: Cure, reason = ""): Call {
  const { target } = cure;
  const told = reason ? { reason } : {};
  if (cure.verb === "close_breaker") {
    const scope = target.scope ?? "name";
    const body = {
      ...(target.key ? { key: target.key } : {}),
      ...(target.queue ? { queue: target.queue } : {}),
      ...told,
    };
    return {
      method: "POST",
      path: `/api/breakers/${scope}/${encodeURIComponent(target.id)}/close`,
      body,
      python: `await scheduler.limits.close_breaker(${scope}=${pythonLiteral(target.id)}${keyword("queue", target.queue)}${keyword("key", target.key)})`,
    };
  }
  if (cure.verb === "retry_dead_letters") {
    const filter = { fingerprint: target.id };
    return {
      method: "POST",
      path: "/api/dead-letters/retry",
      body: { filter, ...told },
      python: `await scheduler.dead_letters.retry(fingerprint=${pythonLiteral(target.id)})`,
    };
  }
  if (target.kind === "schedule")
    return {
      method: "POST",
      path: `/api/schedules/${encodeURIComponent(target.id)}/resume`,
      python: `await scheduler.schedules.resume(${pythonLiteral(target.id)})`,
    };
  const scope = target.scope === "name" ? "name" : "queue";
  return {
    method: "POST",
    path: "/api/pauses/resume",
    body: { [scope]: target.id, ...(target.key ? { key: target.key } : {}) },
    python: `await scheduler.${scope === "name" ? "limits" : "queues"}.resume(${pythonLiteral(target.id)}${keyword("key", target.key)})`,
  };
}

function keyword(name: string, value: unknown): string {
  return value === null || value === undefined ? "" : `, ${name}=${pythonLiteral(value)}`;
}

export const LOOKS: Record<string, { glyph: string; word: string; tone: string }> = {
  critical: { glyph: "▲", word: "Critical", tone: "bad" },
  warning: { glyph: "●", word: "Warning", tone: "warn" },
  notice: { glyph: "○", word: "Notice", tone: "calm" },
};

/** How a severity looks; an unknown one looks like a notice. */
export function lookOf(severity: string) {
  return LOOKS[severity] ?? { glyph: "○", word: severity, tone: "calm" };
}

/** "1 critical, 3 warnings": the problems by severity, the worst first. */
export function countsOf(problems: readonly Problem[]): string {
  const words: [string, string, string][] = [
    ["critical", "critical", "critical"],
    ["warning", "warning", "warnings"],
    ["notice", "notice", "notices"],
  ];
  return words
    .map(([severity, one, many]) => {
      const found = problems.filter((problem) => problem.severity === severity).length;
      return found ? `${found} ${found === 1 ? one : many}` : "";
    })
    .filter(Boolean)
    .join(", ");
}
