import { expect, test } from "vitest";
import type { Detail } from "./job";
import {
  headersOf,
  mailBody,
  mailChanges,
  mailOf,
  payloadOf,
  webhookBody,
  webhookChanges,
  webhookOf,
} from "./requests";

test("headers are lines with a colon", () => {
  expect(headersOf("A: b\n\nX-Url: http://x:1")).toEqual({ headers: { A: "b", "X-Url": "http://x:1" } });
  expect(headersOf("nothing").error).toContain("no colon");
});

test("a body is JSON where it can be, with all its digits", () => {
  expect(JSON.stringify(payloadOf('{"id": 9007199254740993}'))).toBe('{"id":9007199254740993}');
  expect(payloadOf("plain text")).toBe("plain text");
  expect(payloadOf("  ")).toBeUndefined();
});

test("what cannot be sent is told before it is sent", () => {
  expect(webhookBody({ endpoint: "ftp://x", method: "POST", headers: "", body: "" }).error).toContain("http");
  expect(webhookBody({ endpoint: "https://x/", method: "POST", headers: "", body: "" })).toEqual({
    body: { endpoint: "https://x/", method: "POST" },
    error: undefined,
  });
  expect(mailBody({ to: "nobody", subject: "", text: "" }).error).toBeDefined();
});

const hook = {
  name: "mainspring:http",
  request: {
    endpoint: "https://x/",
    method: "PUT",
    headers: { Authorization: "[redacted]", "X-A": "b" },
    body: { n: 1 },
  },
} as unknown as Detail;

test("only the changed fields of a webhook are sent, and an emptied one is removed", () => {
  const before = webhookOf(hook);
  expect(before.headers).toBe("Authorization: [redacted]\nX-A: b");
  expect(webhookChanges(before, before)).toEqual({ body: {}, error: undefined });
  expect(webhookChanges(before, { ...before, method: "POST", body: "" }).body).toEqual({ method: "POST", body: null });
  expect(webhookChanges(before, { ...before, headers: "Authorization: [redacted]" }).body).toEqual({
    headers: { Authorization: "[redacted]" },
  });
  expect(webhookChanges(before, { ...before, endpoint: "x" }).error).toContain("http");
});

test.each(["plain text", "5", '{"a": 1}', { a: 1 }, [1], 5])("the body %j stays the same through the form", (body) => {
  const shown = webhookOf({ request: { ...hook.request, body } } as unknown as Detail).body;
  expect(JSON.stringify(payloadOf(shown))).toBe(JSON.stringify(body));
});

test("the other fields of a mail stay, and its recipients may be a list", () => {
  const mail = { data: { to: ["a@x", "b@x"], subject: "S", html: "<p>", text: "t" } } as unknown as Detail;
  expect(mailOf(mail).to).toBe("a@x, b@x");
  expect(mailChanges(mail, mailOf(mail)).body).toEqual({});
  expect(mailChanges(mail, { ...mailOf(mail), subject: "T" }).body).toEqual({
    data: { to: ["a@x", "b@x"], subject: "T", html: "<p>", text: "t" },
  });
});
