// The requests of webhooks and mails: as fields of a form, as the body of a new job, and as changes of a stored one.
import { parseExact } from "../../lib/json";
import type { Detail } from "./job";

export type Webhook = { endpoint: string; method: string; headers: string; body: string };
export type Mail = { to: string; subject: string; text: string };
export type Made = { body: Record<string, unknown>; error?: string };

export const NO_WEBHOOK: Webhook = { endpoint: "", method: "POST", headers: "", body: "" };
export const NO_MAIL: Mail = { to: "", subject: "", text: "" };

/** Headers from lines such as "Name: value"; a line without a colon is an error. */
export function headersOf(text: string): { headers: Record<string, string>; error?: string } {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const colon = line.indexOf(":");
    if (colon < 1) return { headers, error: `“${line.slice(0, 40)}” has no colon; write Name: value.` };
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return { headers };
}

/** The body of a request: JSON if it is JSON, otherwise the text itself. */
export function payloadOf(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}

export function webhookBody(hook: Webhook): Made {
  const { headers, error } = headersOf(hook.headers);
  const body: Record<string, unknown> = { endpoint: hook.endpoint.trim(), method: hook.method };
  if (Object.keys(headers).length > 0) body["headers"] = headers;
  const payload = payloadOf(hook.body);
  if (payload !== undefined) body["body"] = payload;
  if (!/^https?:\/\/./.test(hook.endpoint.trim()))
    return { body, error: "The URL must begin with http:// or https://." };
  return { body, error };
}

export function mailBody(mail: Mail): Made {
  const body = { type: "email", data: { to: mail.to.trim(), subject: mail.subject, text: mail.text } };
  return { body, error: mail.to.includes("@") ? undefined : "Enter at least one address." };
}

/** The request of a stored webhook as it is shown; hidden values are the words that stand for them. */
export function webhookOf(job: Detail): Webhook {
  const { request } = job;
  const headers = Object.entries(request?.headers ?? {}).map(([name, value]) => `${name}: ${String(value)}`);
  return {
    endpoint: request?.endpoint ?? "",
    method: request?.method ?? NO_WEBHOOK.method,
    headers: headers.join("\n"),
    body: payloadText(request?.body),
  };
}

/** A body as text from which `payloadOf` makes the same body again. */
function payloadText(body: unknown): string {
  if (body === null || body === undefined) return "";
  return typeof body === "string" && payloadOf(body) === body ? body : JSON.stringify(body, null, 2);
}

/** The fields that differ from those of the stored webhook; an emptied one is removed. */
export function webhookChanges(before: Webhook, after: Webhook): Made {
  const { body: made, error } = webhookBody(after);
  const changed = (Object.keys(before) as (keyof Webhook)[]).filter((field) => before[field] !== after[field]);
  return { body: Object.fromEntries(changed.map((field) => [field, made[field] ?? null])), error };
}

export function mailOf(job: Detail): Mail {
  const data = job.data as Record<string, unknown>;
  return { to: addresses(data["to"]), subject: plain(data["subject"]), text: plain(data["text"]) };
}

/** The whole data of the stored mail with the fields that differ; the service knows the hidden values in it. */
export function mailChanges(job: Detail, after: Mail): Made {
  const before = mailOf(job);
  const given = Object.entries({ ...after, to: after.to.trim() });
  const changed = given.filter(([field, value]) => before[field as keyof Mail] !== value);
  const data = { ...(job.data as object), ...Object.fromEntries(changed) };
  return { body: changed.length ? { data } : {}, error: mailBody(after).error };
}

function addresses(value: unknown): string {
  return Array.isArray(value) ? value.map(plain).join(", ") : plain(value);
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : "";
}
