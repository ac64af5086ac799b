// The typed client of the HTTP API: the session, its CSRF token, errors as `Problem`, and the server's clock.
import createClient, { type Middleware } from "openapi-fetch";
import { parseExact } from "../lib/json";
import { learnClock } from "../lib/time";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** The prefix that the service is mounted under, without a slash at its end. */
export const prefix = (document.querySelector<HTMLMetaElement>('meta[name="mainspring-base"]')?.content ?? "").replace(
  /\/$/,
  "",
);

/** A refused request: the cause and the cure in words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: { field?: string; detail: string }[] = [],
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** What the service says about a field. */
  about(field: string): string | undefined {
    return this.errors.find((one) => one.field === field)?.detail;
  }
}

let csrf: string | null = null;
/** Remember the token that a session sends with each change. */
export function setCsrf(token: string | null | undefined): void {
  csrf = token ?? null;
}

const session: Middleware = {
  onRequest({ request }) {
    if (csrf && request.method !== "GET") request.headers.set("X-Csrf-Token", csrf);
    return request;
  },
  onResponse({ response }) {
    learnClock(response.headers.get("date"));
    return response;
  },
};

export const api = createClient<paths>({ baseUrl: prefix, credentials: "same-origin" });
api.use(session);

type Answered<T> = { data?: T; error?: unknown; response: Response };

/** The body of an answer; a refused request, or a service that does not answer, is a `Problem`. */
export async function unwrap<T>(asking: Promise<Answered<T>>): Promise<T> {
  let answered: Answered<T>;
  try {
    answered = await asking;
  } catch {
    throw new Problem(0, "The service does not answer. It may be restarting; this page retries automatically.");
  }
  const { data, error, response } = answered;
  if (response.ok) return data as T;
  throw problemOf(response, error);
}

/** A request that is sent once. Unlike a query, nothing sends it again where the service does not answer. */
export async function sentOnce<T>(sending: Promise<T>, unanswered: string): Promise<T> {
  try {
    return await sending;
  } catch (error) {
    throw error instanceof Problem && error.status === 0 ? new Problem(0, unanswered) : error;
  }
}

/** The body of an answer with exact numbers, for data and results of jobs. */
export async function getExact<T>(path: string): Promise<T> {
  let response: Response;
  try {
    response = await fetch(prefix + path, { credentials: "same-origin", headers: { Accept: "application/json" } });
  } catch {
    throw new Problem(0, "The service does not answer. It may be restarting; this page retries automatically.");
  }
  learnClock(response.headers.get("date"));
  const text = await response.text();
  if (response.ok) return parseExact(text) as T;
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  throw problemOf(response, body);
}

function problemOf(response: Response, body: unknown): Problem {
  const told = (body ?? {}) as { detail?: string; errors?: { field?: string; detail: string }[] };
  const after = Number(response.headers.get("retry-after"));
  const detail = typeof told.detail === "string" ? told.detail : `The service answered ${response.status}.`;
  return new Problem(response.status, detail, told.errors ?? [], Number.isFinite(after) && after > 0 ? after : null);
}
