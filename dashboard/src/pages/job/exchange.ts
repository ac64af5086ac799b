// A webhook's request as a curl command. Hidden values and references to secrets become variables of the shell.
import { quoted } from "../../ui/commands";
import type { Schemas } from "../../api/client";

export type Request = Schemas["RequestOut"];

const HIDDEN = /\[(redacted|encrypted)[^\]]*\]/g;
const SECRET = /secret:\/\/([A-Za-z0-9_-]+)/g;

/** The request as curl, without any secret: a hidden value is `$HIDDEN`, a secret `$NAME`. */
export function requestAsCurl(request: Request): string {
  const query = Object.entries(request.query ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map(
      (one) => `${encodeURIComponent(name)}=${encodeURIComponent(String(one))}`,
    ),
  );
  const url = request.endpoint ?? "";
  const whole = query.length ? `${url}${url.includes("?") ? "&" : "?"}${query.join("&")}` : url;
  const parts = [`curl${request.method === "GET" ? "" : ` -X ${quoted(request.method)}`} ${word(whole)}`];
  for (const [name, value] of Object.entries(request.headers ?? {})) parts.push(`-H ${word(`${name}: ${value}`)}`);
  if (request.body !== null && request.body !== undefined) {
    const text = typeof request.body === "string" ? request.body : JSON.stringify(request.body);
    const typed = Object.keys(request.headers ?? {}).some((name) => name.toLowerCase() === "content-type");
    if (!typed) parts.push("-H 'Content-Type: application/json'");
    parts.push(`-d ${word(text)}`);
  }
  return parts.join(" \\\n  ");
}

/** A word of the shell, in which hidden values are variables. */
function word(text: string): string {
  const variables: string[] = [];
  const marked = text
    .replace(SECRET, (_, name: string) => mark(variables, name.toUpperCase().replace(/[^A-Z0-9]/g, "_")))
    .replace(HIDDEN, () => mark(variables, "HIDDEN"));
  if (variables.length === 0) return quoted(text);
  return `"${marked.replace(/[\\"$`]/g, "\\$&").replace(/\u0000(\d+)\u0000/g, (_, n: string) => `$${variables[Number(n)]}`)}"`;
}

function mark(variables: string[], name: string): string {
  variables.push(/^[0-9]/.test(name) ? `_${name}` : name);
  return `\u0000${variables.length - 1}\u0000`;
}
