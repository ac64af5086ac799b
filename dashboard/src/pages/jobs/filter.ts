// The filter of the page of jobs: typed as text, kept in the address, and sent as parameters of the API.
import { serverNow } from "../../lib/time";

/** What a filter may name, in the order in which it is written. Data is beside it, by its paths. */
export const FIELDS = [
  "state",
  "name",
  "queue",
  "tag",
  "key",
  "error",
  "fingerprint",
  "worker",
  "schedule",
  "parent",
  "flow",
  "node",
  "created",
  "run",
  "finished",
] as const;
export type Field = (typeof FIELDS)[number];
export type Filter = Partial<Record<Field, string>> & { data: Record<string, string> };

export const STATES = ["pending", "running", "completed", "failed", "cancelled", "expired", "blocked"] as const;
const TIMES = ["created", "run", "finished"] as const;
const DATA = "data.";
/** Other names for fields: those of the API, in links of other pages. */
const ALIASES: Record<string, Field> = {
  dedupeKey: "key",
  dedupe: "key",
  scheduleId: "schedule",
  parentId: "parent",
  flowId: "flow",
  print: "fingerprint",
  due: "run",
  ended: "finished",
};

export const HINTS: Record<Field, string> = {
  state: "pending, running, completed, failed, cancelled, expired or blocked",
  name: "the name of the handler",
  queue: "the queue",
  tag: "one of the tags",
  key: "the dedupe key",
  error: "a part of the error's type or message",
  fingerprint: "dead letters with the same cause",
  worker: "the worker that runs it, or has run it",
  schedule: "the id of the schedule that made it",
  parent: "the id of the job that scheduled it",
  flow: "the id of the flow that it is a part of",
  node: "a node of that flow: its jobs, and those below it",
  created: ">1h in the last hour, <2026-01-31 before a day",
  run: "when it is due: <1h ago, >+10m from now",
  finished: ">15m ended in the last 15 minutes",
};

export type Read = { filter: Filter; problems: string[] };

/** Read a typed filter. What cannot be read is told, and left out. */
export function parse(text: string): Read {
  const filter: Filter = { data: {} };
  const problems: string[] = [];
  for (const { key, value } of words(text)) {
    if (key === null) add(filter, problems, "name", value);
    else add(filter, problems, key, value);
  }
  return { filter, problems };
}

function add(filter: Filter, problems: string[], key: string, value: string): void {
  if (value === "") {
    problems.push(`${key}: has no value yet.`);
    return;
  }
  if (key.startsWith(DATA)) {
    if (key === DATA) problems.push("data. needs a path, such as data.customer.id:42.");
    else filter.data = { ...filter.data, [key.slice(DATA.length)]: value };
    return;
  }
  const field = fieldOf(key);
  if (!field) {
    problems.push(`There is no filter ${key}; there are ${FIELDS.join(", ")} and data.PATH.`);
    return;
  }
  if (field === "state" && !(STATES as readonly string[]).includes(value)) {
    problems.push(`There is no state ${value}; there are ${STATES.join(", ")}.`);
    return;
  }
  if ((TIMES as readonly string[]).includes(field)) {
    if (!bound(value)) {
      problems.push(`${field}:${value} is no time: write ${field}:>1h, ${field}:<2d or ${field}:>2026-01-31.`);
      return;
    }
    const before = filter[field];
    filter[field] = before ? `${before},${value}` : value;
    return;
  }
  filter[field] = value;
}

function fieldOf(key: string): Field | undefined {
  if ((FIELDS as readonly string[]).includes(key)) return key as Field;
  return Object.hasOwn(ALIASES, key) ? ALIASES[key] : undefined;
}

type Word = { key: string | null; value: string; start: number; end: number };

/** The words of a text: `key:value`, `key:"a value"`, or a value alone, with their places. */
export function words(text: string): Word[] {
  const found: Word[] = [];
  const pattern = /([A-Za-z][\w.$-]*):("(?:[^"\\]|\\.)*"?|\S*)|("(?:[^"\\]|\\.)*"?|\S+)/g;
  for (const match of text.matchAll(pattern)) {
    const value = match[1] === undefined ? match[3] : match[2];
    found.push({
      key: match[1] ?? null,
      value: unquoted(value ?? ""),
      start: match.index,
      end: match.index + match[0].length,
    });
  }
  return found;
}

function unquoted(text: string): string {
  if (!text.startsWith('"')) return text;
  return text.replace(/^"|(?<!\\)"$/g, "").replace(/\\(["\\])/g, "$1");
}

function quoted(text: string): string {
  return /[\s"]/.test(text) || text === "" ? `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : text;
}

/** A filter as text, the way one would type it. */
export function format(filter: Filter): string {
  return parts(filter)
    .map(({ key, value }) => `${key}:${quoted(value)}`)
    .join(" ");
}

/** The conditions of a filter one by one; a field of time may have two. */
export function parts(filter: Filter): { key: string; value: string }[] {
  const found: { key: string; value: string }[] = [];
  for (const field of FIELDS) {
    const value = filter[field];
    if (value === undefined) continue;
    const several = (TIMES as readonly string[]).includes(field) ? value.split(",") : [value];
    for (const one of several) found.push({ key: field, value: one });
  }
  for (const [path, value] of Object.entries(filter.data)) found.push({ key: `${DATA}${path}`, value });
  return found;
}

/** The filter without one of its conditions. */
export function without(filter: Filter, key: string, value: string): Filter {
  const left: Filter = { data: {} };
  for (const one of parts(filter)) {
    if (one.key !== key || one.value !== value) add(left, [], one.key, one.value);
  }
  return left;
}

/** The filter with a condition more; one of the same field is replaced. */
export function withPart(filter: Filter, key: string, value: string): Filter {
  const changed: Filter = { ...filter, data: { ...filter.data } };
  const field = fieldOf(key);
  if (field) delete changed[field];
  add(changed, [], key, value);
  return changed;
}

// -- the address ------------------------------------------------------------------------------------------------------

type Parameters = Record<string, string | undefined>;

/** The filter in an address. Names of the API are understood as well, and a text in `q`. */
export function fromParameters(search: Parameters): Read {
  const filter: Filter = { data: {} };
  const problems: string[] = [];
  if (search["q"]) {
    const read = parse(search["q"]);
    Object.assign(filter, read.filter);
    problems.push(...read.problems);
  }
  for (const [name, value] of Object.entries(search)) {
    if (!value) continue;
    const instants = Object.hasOwn(INSTANTS, name) ? INSTANTS[name] : undefined;
    if (instants) add(filter, problems, instants[0], `${instants[1]}${value}`);
    else if (name.startsWith(DATA) || fieldOf(name)) {
      const field = fieldOf(name);
      const several = field && (TIMES as readonly string[]).includes(field) ? value.split(",") : [value];
      for (const one of several) add(filter, problems, name, one);
    }
  }
  return { filter, problems };
}

const INSTANTS: Record<string, [Field, string]> = {
  since: ["created", ">"],
  until: ["created", "<"],
  runSince: ["run", ">"],
  runUntil: ["run", "<"],
  finishedSince: ["finished", ">"],
  finishedUntil: ["finished", "<"],
};

/** The parameters of the address that are about the filter, so that the old ones can be removed. */
export function filterNames(search: Parameters): string[] {
  return Object.keys(search).filter(
    (name) => name === "q" || name.startsWith(DATA) || Object.hasOwn(INSTANTS, name) || fieldOf(name),
  );
}

/** A filter as parameters of the address. */
export function toParameters(filter: Filter): Record<string, string> {
  const found: Record<string, string> = {};
  for (const field of FIELDS) if (filter[field] !== undefined) found[field] = filter[field];
  for (const [path, value] of Object.entries(filter.data)) found[`${DATA}${path}`] = value;
  return found;
}

// -- the API ----------------------------------------------------------------------------------------------------------

const NAMES: Partial<Record<Field, string>> = {
  key: "dedupeKey",
  schedule: "scheduleId",
  parent: "parentId",
  flow: "flowId",
};
const BOUNDS: Record<string, [string, string]> = {
  created: ["since", "until"],
  run: ["runSince", "runUntil"],
  finished: ["finishedSince", "finishedUntil"],
};

/** A filter as the API takes it in a query; times that are relative are counted from `now`. */
export function toQuery(filter: Filter, now = serverNow()): Record<string, string> {
  const query = conditions(filter, now);
  for (const [path, value] of Object.entries(filter.data)) query[`${DATA}${path}`] = value;
  return query;
}

/** A filter as the API takes it in the body of an operation. */
export function toBody(filter: Filter, now = serverNow()): Record<string, unknown> {
  const body: Record<string, unknown> = conditions(filter, now);
  if (Object.keys(filter.data).length > 0) body["data"] = { ...filter.data };
  return body;
}

function conditions(filter: Filter, now: number): Record<string, string> {
  const found: Record<string, string> = {};
  for (const field of FIELDS) {
    const value = filter[field];
    if (value === undefined) continue;
    const bounds = BOUNDS[field];
    if (!bounds) {
      found[NAMES[field] ?? field] = value;
      continue;
    }
    for (const one of value.split(",")) {
      const read = bound(one);
      if (!read) continue;
      const at = read.at ?? Math.floor((now + (read.offset ?? 0)) / 1000) * 1000;
      found[bounds[read.after ? 0 : 1]] = new Date(at).toISOString();
    }
  }
  return found;
}

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** A bound of a time: after or before an instant, or a duration that lies back, or ahead with a plus. */
function bound(text: string): { after: boolean; at?: number; offset?: number } | null {
  const match = /^([<>])=?(.+)$/.exec(text);
  if (!match) return null;
  const after = match[1] === ">";
  const value = match[2] ?? "";
  const span = /^(\+?)(\d{1,6})(s|m|h|d|w)$/.exec(value);
  if (span) {
    const length = Number(span[2]) * (UNITS[span[3] ?? "s"] ?? 0);
    return { after, offset: span[1] ? length : -length };
  }
  const at = /^\d{4}-\d\d-\d\d/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : { after, at };
}

/** A condition in words. */
export function inWords(key: string, value: string): string {
  const time = BOUNDS[key] && bound(value);
  if (!time) return `${key}: ${value}`;
  const verb = key === "run" ? "due" : key;
  const rest = value.replace(/^[<>]=?/, "");
  if (time.at !== undefined) return `${verb} ${time.after ? "after" : "before"} ${rest}`;
  if (rest.startsWith("+")) return `${verb} ${time.after ? "later than" : "within"} ${rest.slice(1)}`;
  return time.after ? `${verb} in the last ${rest}` : `${verb} more than ${rest} ago`;
}

/** Whether a filter has no condition. */
export function isEmpty(filter: Filter): boolean {
  return parts(filter).length === 0;
}

// -- completion -------------------------------------------------------------------------------------------------------

export type Known = { names: string[]; queues: string[]; tags: string[]; errors: string[] };
export type Completion = { text: string; hint: string; whole: boolean };

/** What may follow at the end of the word that is being typed: names of fields, or values of the field. */
export function completions(word: { key: string | null; value: string } | undefined, known: Known): Completion[] {
  if (!word || word.key === null) {
    const typed = (word?.value ?? "").toLowerCase();
    const fields = FIELDS.filter((one) => one.startsWith(typed)).map((one) => ({
      text: `${one}:`,
      hint: HINTS[one],
      whole: false,
    }));
    const data = DATA.startsWith(typed)
      ? [{ text: DATA, hint: "a field of the data: data.customer.id:42", whole: false }]
      : [];
    return [...fields, ...data];
  }
  const values = valuesOf(fieldOf(word.key), known);
  const typed = word.value.toLowerCase();
  const rank = (one: string) => (one.toLowerCase().startsWith(typed) ? 0 : one.toLowerCase().includes(typed) ? 1 : 2);
  return values
    .filter((one) => rank(one) < 2 && one !== word.value)
    .toSorted((one, other) => rank(one) - rank(other))
    .slice(0, 12)
    .map((one) => ({ text: `${word.key}:${quoted(one)}`, hint: "", whole: true }));
}

/** The values that a field may have, as far as they are known. */
export function valuesOf(field: Field | undefined, known: Known): readonly string[] {
  switch (field) {
    case "state":
      return STATES;
    case "name":
      return known.names;
    case "queue":
      return known.queues;
    case "tag":
      return known.tags;
    case "error":
      return known.errors;
    case "created":
    case "finished":
      return [">15m", ">1h", ">24h", ">7d", "<24h", "<7d"];
    case "run":
      return [">1h", "<1h", ">+1h", "<+1h", "<+24h"];
    default:
      return [];
  }
}
