// The form of a schedule: its fields as text, the request that they make, and the changes against a stored schedule.
import type { Schemas } from "../../api/client";

export type Schedule = Schemas["ScheduleOut"];
export type RuleKind = "cron" | "every" | "rrule" | "at" | "kept";
export type Work = "webhook" | "handler" | "kept";

export type Form = {
  id: string;
  work: Work;
  name: string;
  data: string;
  endpoint: string;
  method: string;
  headers: string;
  body: string;
  kind: RuleKind;
  cron: string;
  every: string;
  after: string;
  /** The instant that the grid of an interval is counted from. No field shows it; a stored one is kept. */
  anchor: string;
  rrule: string;
  /** The DTSTART of an RRULE beside its text. No field shows it; a stored one is kept. */
  dtstart: string;
  at: string;
  timezone: string;
  calendars: string;
  queue: string;
  priority: string;
  tags: string;
  startAt: string;
  endAt: string;
  maxRuns: string;
  jitter: string;
  overlap: string;
  misfire: string;
  pauseAfter: string;
};

export const BLANK: Form = {
  id: "",
  work: "webhook",
  name: "",
  data: "",
  endpoint: "",
  method: "POST",
  headers: "",
  body: "",
  kind: "cron",
  cron: "0 9 * * MON-FRI",
  every: "5m",
  after: "start",
  anchor: "",
  rrule: "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0",
  dtstart: "",
  at: "",
  timezone: "",
  calendars: "",
  queue: "",
  priority: "",
  tags: "",
  startAt: "",
  endAt: "",
  maxRuns: "",
  jitter: "",
  overlap: "",
  misfire: "",
  pauseAfter: "",
};

/** Ready-made schedules to begin with. */
export const TEMPLATES: readonly { title: string; form: Partial<Form> }[] = [
  {
    title: "Call a URL on workdays at nine",
    form: {
      work: "webhook",
      kind: "cron",
      cron: "0 9 * * MON-FRI",
      endpoint: "https://api.example.com/hook",
      body: '{"event": "daily", "at": "{{timestamp}}"}',
    },
  },
  {
    title: "Run a handler every five minutes",
    form: { work: "handler", kind: "every", every: "5m", name: "sync-orders", data: "{}", overlap: "skip" },
  },
  {
    title: "A nightly clean-up, spread by the id",
    form: { work: "handler", kind: "cron", cron: "H H(1-4) * * *", name: "clean-up", data: "{}" },
  },
  {
    title: "The last Friday of the month",
    form: { work: "handler", kind: "rrule", rrule: BLANK.rrule, name: "monthly-report", data: "{}" },
  },
];

export type Faults = Partial<Record<keyof Form, string>>;
type Body = Record<string, unknown>;

/** The request that a form makes, and what is wrong with fields that the service never gets to see. */
export function bodyOf(form: Form): { body: Body; faults: Faults } {
  const faults: Faults = {};
  const json = (field: "data" | "headers" | "body", objects: boolean) => {
    const text = form[field].trim();
    if (text === "") return undefined;
    try {
      const value: unknown = JSON.parse(text);
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      if (!objects || isObject) return value;
      faults[field] = 'This must be an object, such as {"key": "value"}.';
    } catch (error) {
      faults[field] = `This is not valid JSON: ${error instanceof Error ? error.message : "it cannot be read"}.`;
    }
    return undefined;
  };
  const whole = (field: "priority" | "maxRuns" | "pauseAfter") => {
    const text = form[field].trim();
    if (text === "") return undefined;
    if (/^\d{1,10}$/.test(text)) return Number(text);
    faults[field] = "This must be a whole number.";
    return undefined;
  };
  const instant = (field: "startAt" | "endAt") => {
    const text = form[field].trim();
    if (text === "") return undefined;
    const ms = Date.parse(text);
    if (!Number.isNaN(ms)) return new Date(ms).toISOString();
    faults[field] = "This must be an instant, such as 2030-01-01T09:00:00Z.";
    return undefined;
  };
  const words = (text: string) =>
    text
      .split(/[,\n]/)
      .map((one) => one.trim())
      .filter(Boolean);
  const body: Body = { id: form.id.trim() || undefined, ...ruleOf(form, words, faults) };
  if (form.work === "webhook") {
    body.endpoint = form.endpoint.trim() || undefined;
    body.method = form.method || undefined;
    body.headers = json("headers", true);
    body.body = bodyText(form.body);
    if (!body.endpoint) faults.endpoint = "The URL to call is missing.";
  } else if (form.work === "handler") {
    body.name = form.name.trim() || undefined;
    if (!body.name) faults.name = "The name of a handler is missing.";
  }
  body.data = json("data", true);
  const tags = words(form.tags);
  Object.assign(body, {
    queue: form.queue.trim() || undefined,
    priority: whole("priority"),
    tags: tags.length ? tags : undefined,
    startAt: instant("startAt"),
    endAt: instant("endAt"),
    maxRuns: whole("maxRuns"),
    jitter: form.jitter.trim() || undefined,
    overlap: form.overlap || undefined,
    misfire: form.misfire || undefined,
    pauseAfter: whole("pauseAfter"),
  });
  return { body: pruned(body), faults };
}

function ruleOf(form: Form, words: (text: string) => string[], faults: Faults): Body {
  if (form.kind === "kept") return {};
  const calendars = words(form.calendars);
  const except = calendars.length ? { except: calendars } : {};
  const zone = form.timezone.trim() || undefined;
  switch (form.kind) {
    case "cron":
      return { repeat: pruned({ cron: form.cron.trim(), timezone: zone, ...except }) };
    case "rrule": {
      const start = /DTSTART/i.test(form.rrule) ? undefined : form.dtstart || undefined;
      return { repeat: pruned({ rrule: form.rrule.trim(), timezone: zone, start, ...except }) };
    }
    case "every": {
      const counted = form.after === "end" ? { after: "end" } : { anchor: form.anchor || undefined };
      return { repeat: pruned({ every: form.every.trim(), ...counted, ...except }) };
    }
    default: {
      const instants = words(form.at);
      if (!instants.length) faults.at = "Give at least one instant, such as 2030-01-01T09:00:00Z.";
      return { repeat: { at: instants, ...except } };
    }
  }
}

/** The body of a webhook: JSON if it reads as JSON, otherwise text as it is. */
function bodyText(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function pruned(body: Body): Body {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

// -- the form of a stored schedule -------------------------------------------------------------------------------

/** The form of a stored schedule. A rule or request that the form cannot show is kept as it is. */
export function formOf(schedule: Schedule): Form {
  const data = schedule.data as Record<string, unknown>;
  const webhook = schedule.name === "mainspring:http";
  const request = (webhook ? (data.request ?? {}) : {}) as Record<string, unknown>;
  return {
    ...BLANK,
    id: schedule.id,
    work: webhook ? "webhook" : schedule.name.startsWith("mainspring:") ? "kept" : "handler",
    name: webhook ? "" : schedule.name,
    data: shown(webhook ? data.data : data),
    endpoint: typeof request.url === "string" ? request.url : "",
    method: typeof request.method === "string" ? request.method : "POST",
    headers: shown(request.headers),
    body: typeof request.body === "string" ? request.body : shown(request.body),
    ...ruleForm(schedule.rule as Record<string, unknown>),
    queue: schedule.queue,
    priority: String(schedule.priority),
    tags: schedule.tags.join(", "),
    startAt: schedule.startAt ?? "",
    endAt: schedule.endAt ?? "",
    maxRuns: schedule.policy.maxRuns === null ? "" : String(schedule.policy.maxRuns),
    jitter: schedule.jitter === "0s" ? "" : (schedule.jitter ?? ""),
    overlap: schedule.policy.overlap,
    misfire: schedule.policy.misfire,
    pauseAfter: schedule.pauseAfter === null ? "" : String(schedule.pauseAfter),
  };
}

function shown(value: unknown): string {
  return value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
}

function ruleForm(rule: Record<string, unknown>): Partial<Form> {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  const plain = rule.gap === undefined || (rule.gap === "after" && rule.fold === "first");
  if (rule.kind === "cron" && plain && rule.seed === undefined)
    return { kind: "cron", cron: text(rule.expression), timezone: text(rule.timezone) };
  if (rule.kind === "every")
    return { kind: "every", every: text(rule.period), after: text(rule.after) || "start", anchor: text(rule.anchor) };
  if (rule.kind === "rrule" && plain)
    return { kind: "rrule", rrule: text(rule.rule), timezone: text(rule.timezone), dtstart: text(rule.start) };
  if (rule.kind === "at" && Array.isArray(rule.instants)) return { kind: "at", at: rule.instants.join("\n") };
  return { kind: "kept" };
}

const REMOVABLE = ["startAt", "endAt", "maxRuns", "jitter", "pauseAfter", "body"] as const;
const RULE: readonly (keyof Form)[] = ["kind", "cron", "every", "after", "rrule", "at", "timezone", "calendars"];

/** The fields that differ from the stored schedule, as the body of a change; the others stay as they are. */
export function changesOf(before: Form, after: Form): { body: Body; faults: Faults } {
  const made = bodyOf(after);
  const changed = (field: keyof Form) => before[field] !== after[field];
  const body: Body = {};
  for (const [key, value] of Object.entries(made.body)) {
    if (key === "id") continue;
    if (key === "repeat" ? RULE.some(changed) : changed(key as keyof Form)) body[key] = value;
  }
  for (const key of REMOVABLE) if (changed(key) && after[key].trim() === "") body[key] = null;
  if (changed("tags") && after.tags.trim() === "") body.tags = [];
  if (changed("data") && after.data.trim() === "") body.data = {};
  if (changed("headers") && after.headers.trim() === "") body.headers = {};
  return { body, faults: made.faults };
}

/** The form's field that the service means by a field of the request. */
export function fieldOf(field: string | null | undefined, form: Form, detail = ""): keyof Form | null {
  if (!field) return null;
  if (field === "schedule" || field === "repeat" || field === "every" || field.startsWith("repeat.")) {
    if (field.endsWith("timezone") || /time ?zone/i.test(detail)) return "timezone";
    if (field.endsWith("except") || /calendar/i.test(detail)) return "calendars";
    return form.kind === "kept" ? null : form.kind;
  }
  const first = field.split(".")[0] ?? field;
  return first in form ? (first as keyof Form) : null;
}
