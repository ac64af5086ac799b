// Pauses, limits and breakers as calls.
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";

export function pauseCall(queue: string, reason = "…"): Call {
  return {
    title: "Pause it",
    method: "POST",
    path: "/api/pauses",
    body: { queue, reason },
    python: `await scheduler.queues.pause(${pythonLiteral(queue)}, reason=${pythonLiteral(reason)})`,
  };
}

export function resumeCall(queue: string): Call {
  return {
    title: "Resume it",
    method: "POST",
    path: "/api/pauses/resume",
    body: { queue },
    python: `await scheduler.queues.resume(${pythonLiteral(queue)})`,
  };
}

type Place = { scope: "queue" | "name"; target: string };

export function setLimitCall({ scope, target }: Place, body: Record<string, unknown>): Call {
  const given = Object.entries({ [scope]: target, ...body }).filter(([, value]) => value !== "");
  return {
    title: "Set a limit",
    method: "PUT",
    path: `/api/limits/${scope}/${encodeURIComponent(target)}`,
    body,
    python: `await scheduler.limits.set(${given.map(([key, value]) => `${key}=${limitLiteral(key, value)}`).join(", ")})`,
  };
}

/** A limit with a key is an object of its own in Python. */
function limitLiteral(key: string, value: unknown): string {
  if (typeof value !== "object" || value === null) return pythonLiteral(value);
  const { limit, rate, key: by } = value as { limit?: number; rate?: string; key?: string };
  return key === "rate"
    ? `Rate(${pythonLiteral(rate)}, key=${pythonLiteral(by)})`
    : `Limit(${pythonLiteral(limit)}, key=${pythonLiteral(by)})`;
}

export function removeLimitCall({ scope, target }: Place): Call {
  return {
    title: "Remove the override",
    method: "DELETE",
    path: `/api/limits/${scope}/${encodeURIComponent(target)}`,
    python: `await scheduler.limits.remove(${scope}=${pythonLiteral(target)})`,
  };
}

type Which = { key?: Record<string, unknown>; queue?: string };

export function breakerCall(verb: "open" | "close", { scope, target }: Place, which: Which, reason = "…"): Call {
  const given = Object.entries({ [scope]: target, ...which, reason });
  return {
    title: verb === "open" ? "Open it" : "Close it",
    method: "POST",
    path: `/api/breakers/${scope}/${encodeURIComponent(target)}/${verb}`,
    body: { ...which, reason },
    python: `await scheduler.limits.${verb}_breaker(${given.map(([key, value]) => `${key}=${pythonLiteral(value)}`).join(", ")})`,
  };
}
