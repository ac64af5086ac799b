// The verbs of a schedule as calls.
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { schedulePath } from "./queries";

export type CalledVerb = "pause" | "resume" | "trigger" | "skip" | "delete";

const TITLES: Record<CalledVerb, string> = {
  pause: "Pause it",
  resume: "Resume it",
  trigger: "Trigger it",
  skip: "Skip the next firing",
  delete: "Delete it",
};

/** The request behind a verb, and the same in Python. */
export function callOf(id: string, verb: CalledVerb, reason = "…"): Call {
  const [name, why] = [pythonLiteral(id), pythonLiteral(reason)];
  const python: Record<CalledVerb, string> = {
    pause: `await scheduler.schedules.pause(${name}, ${why})`,
    resume: `await scheduler.schedules.resume(${name})`,
    trigger: `job = await scheduler.schedules.trigger(${name}, reason=${why})`,
    skip: `await scheduler.schedules.skip_next(${name}, ${why})`,
    delete: `await scheduler.schedules.delete(${name})`,
  };
  const call = { title: TITLES[verb], python: python[verb] };
  if (verb === "delete") return { ...call, method: "DELETE", path: schedulePath(id) };
  const body = verb === "resume" ? {} : { body: { reason } };
  return { ...call, method: "POST", path: schedulePath(id, `/${verb}`), ...body };
}
