// The options of a new job: from what a form has to the body of the request and to a line of Python.
import { ExactNumber } from "../../lib/json";
import { pythonLiteral } from "../../ui/commands";

export type Options = {
  when: "now" | "delay" | "at";
  delay: string;
  /** As an input of date and time has it, in the viewer's zone. */
  at: string;
  priority: string;
  queue: string;
  dedupeKey: string;
  tags: string;
};

export const NO_OPTIONS: Options = { when: "now", delay: "", at: "", priority: "", queue: "", dedupeKey: "", tags: "" };

export type OptionsBody = {
  delay?: string;
  runAt?: string;
  priority?: number;
  queue?: string;
  dedupeKey?: string;
  tags?: string[];
};

/** The options that were given, as fields of the body. */
export function optionsBody(options: Options): OptionsBody {
  const body: OptionsBody = {};
  if (options.when === "delay" && options.delay.trim()) body.delay = options.delay.trim();
  if (options.when === "at" && instantOf(options.at)) body.runAt = instantOf(options.at);
  if (options.priority) body.priority = Number(options.priority);
  if (options.queue.trim()) body.queue = options.queue.trim();
  if (options.dedupeKey.trim()) body.dedupeKey = options.dedupeKey.trim();
  const tags = tagsOf(options.tags);
  if (tags.length) body.tags = tags;
  return body;
}

export function tagsOf(text: string): string[] {
  return text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
}

/** A local date and time as an instant; undefined while it is not complete. */
export function instantOf(local: string): string | undefined {
  const ms = Date.parse(local);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}

/** An instant as an input of date and time wants it. */
export function localOf(instant: string | null | undefined): string {
  const at = instant ? new Date(instant) : null;
  if (!at || Number.isNaN(at.getTime())) return "";
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

/** What is wrong with the options so far. */
export function optionErrors(options: Options): Partial<Record<keyof Options, string>> {
  const errors: Partial<Record<keyof Options, string>> = {};
  if (options.when === "delay" && !/^\s*\d+(\.\d+)?\s*(ms|s|m|min|h|d|w)/.test(options.delay))
    errors.delay = "A number and its unit, such as 5m or 1h30m.";
  if (options.when === "at" && !instantOf(options.at)) errors.at = "A date and a time.";
  if (options.priority && !/^([1-9]|10)$/.test(options.priority)) errors.priority = "From 1, most urgent, to 10.";
  return errors;
}

const PYTHON: Record<string, string> = { runAt: "run_at", dedupeKey: "dedupe_key", dataVersion: "version" };

/** The call of the library that makes the same job. */
export function pythonCall(name: string, data: unknown, options: Record<string, unknown>): string {
  const lines = [`await scheduler.schedule(`, `    ${pythonLiteral(name)},`, `    ${literal(data)},`];
  for (const [key, value] of Object.entries(options)) {
    const text = key === "runAt" ? `datetime.fromisoformat(${pythonLiteral(value)})` : literal(value);
    lines.push(`    ${PYTHON[key] ?? key}=${text},`);
  }
  return [...lines, ")"].join("\n");
}

/** A value as Python, with all digits of its numbers. */
function literal(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value !== null && typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, one]) => `${JSON.stringify(key)}: ${literal(one)}`)
      .join(", ")}}`;
  return pythonLiteral(value);
}
