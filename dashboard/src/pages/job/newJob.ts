// The body of a new job from what was typed, for a handler, a webhook or a mail.
import { parseExact } from "../../lib/json";

export type Webhook = { endpoint: string; method: string; headers: string; body: string };
export type Mail = { to: string; subject: string; text: string };

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

export function webhookBody(hook: Webhook): { body: Record<string, unknown>; error?: string } {
  const { headers, error } = headersOf(hook.headers);
  const body: Record<string, unknown> = { endpoint: hook.endpoint.trim(), method: hook.method };
  if (Object.keys(headers).length > 0) body["headers"] = headers;
  const payload = payloadOf(hook.body);
  if (payload !== undefined) body["body"] = payload;
  if (!/^https?:\/\/./.test(hook.endpoint.trim())) return { body, error: "The URL begins with http:// or https://." };
  return { body, error };
}

export function mailBody(mail: Mail): { body: Record<string, unknown>; error?: string } {
  const body = { type: "email", data: { to: mail.to.trim(), subject: mail.subject, text: mail.text } };
  return { body, error: mail.to.includes("@") ? undefined : "Give at least one address." };
}
