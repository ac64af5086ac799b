// Workers in words: what differs between them, and how they do.
import type { Schemas } from "../../api/client";

export type Worker = Schemas["WorkerOut"];

/** What live workers do not agree on: the release of the program, the version of Mainspring, or of a handler. It is normal during a deploy. */
export function drift(workers: readonly Worker[]): string[] {
  const live = workers.filter((worker) => worker.live);
  const found: string[] = [];
  const versions = [...new Set(live.map((worker) => worker.version ?? "unknown"))].sort();
  if (versions.length > 1) found.push(`Workers run different versions of Mainspring: ${versions.join(", ")}.`);
  const releases = [...new Set(live.map((worker) => worker.release ?? "without a name"))].sort();
  if (releases.length > 1) found.push(`Workers run different releases of the program: ${releases.join(", ")}.`);
  const names = new Set(live.flatMap((worker) => Object.keys(worker.versions)));
  for (const name of [...names].sort()) {
    const having = live.filter((worker) => worker.handlers === null || worker.handlers.includes(name));
    const seen = [...new Set(having.map((worker) => worker.versions[name] ?? 1))].sort((one, other) => one - other);
    if (seen.length > 1) found.push(`The handler of ${name} has the versions ${seen.join(", ")}.`);
  }
  return found;
}

/** A worker's host and process, which people know it by. */
export function place(worker: Pick<Worker, "host" | "pid" | "id">): string {
  return worker.host ? `${worker.host}:${worker.pid}` : worker.id;
}

/** Whether the delay of an event loop is worth a warning: heartbeats and cancellations wait for it. */
export function lagTone(ms: number | null | undefined): "neutral" | "warn" | "bad" {
  if (ms === null || ms === undefined || ms < 250) return "neutral";
  return ms < 2000 ? "warn" : "bad";
}
