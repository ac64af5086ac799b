import { expect, test } from "vitest";
import { headersOf, mailBody, payloadOf, webhookBody } from "./newJob";

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
