// The destinations of an alert rule: as words, as fields of a form, and back.
import type { Schemas } from "../../api/client";
import { headersOf } from "../job/requests";
import { listed } from "../settings/words";

export type Destination = Schemas["DestinationOut"];
type Type = Destination["type"];

/** A destination as it is typed. */
export type Typed = { type: Type; to: string; url: string; headers: string; signWith: string };
export type Misfits = Partial<Record<"to" | "url" | "headers", string>>;

export const MOST = 5;
export const TYPES: [Type, string][] = [
  ["email", "Email"],
  ["chat", "Chat, such as Slack"],
  ["webhook", "Webhook"],
];
export const BLANK: Typed = { type: "email", to: "", url: "", headers: "", signWith: "" };
const HIDDEN = "[redacted]";

/** Where messages go, without secrets. */
export function destinationWords(to: Destination): string {
  if (to.type === "email") return (to.to ?? []).join(", ");
  // The usual port and the part that is hidden say nothing.
  const url = (to.url ?? "").replace(/^(https:\/\/[^/]+):443(?=\/|$)|^(http:\/\/[^/]+):80(?=\/|$)/, "$1$2");
  return `${to.type} ${url.replace(`/${HIDDEN}`, "/…")}`;
}

export function typedOf(to: Destination): Typed {
  const headers = Object.entries(to.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  return {
    type: to.type,
    to: (to.to ?? []).join(", "),
    url: to.url ?? "",
    headers: headers.join("\n"),
    signWith: (to.signWith ?? []).join(", "),
  };
}

/** The destination for a request's body; hidden values stay the words that stand for them. */
export function destinationOf(typed: Typed): Destination {
  if (typed.type === "email") return { type: typed.type, to: listed(typed.to) ?? [] };
  const to: Destination = { type: typed.type, url: typed.url.trim() };
  if (typed.type === "chat") return to;
  const { headers } = headersOf(typed.headers);
  const signWith = listed(typed.signWith);
  if (Object.keys(headers).length) to.headers = headers;
  if (signWith) to.signWith = signWith;
  return to;
}

/** What is wrong with a destination, by its field; `before` are those that are stored, as they are shown. */
export function misfitsOf(typed: Typed, before: readonly Destination[] = []): Misfits {
  if (typed.type === "email") return typed.to.includes("@") ? {} : { to: "Enter at least one address." };
  const url = typed.url.trim();
  const stored = before.some((one) => one.type === typed.type && one.url === url);
  const misfits: Misfits = {};
  if (!/^(https?|secret):\/\/./.test(url)) misfits.url = "The URL must begin with http://, https:// or secret://.";
  else if (!stored && url.includes(HIDDEN)) misfits.url = "A part of it is hidden: enter the whole URL.";
  if (typed.type === "chat") return misfits;
  const { headers, error } = headersOf(typed.headers);
  const hidden = Object.keys(headers).find((name) => headers[name] === HIDDEN);
  if (error) misfits.headers = error;
  else if (!stored && hidden) misfits.headers = `The value of ${hidden} is hidden: enter it again for another URL.`;
  return misfits;
}
