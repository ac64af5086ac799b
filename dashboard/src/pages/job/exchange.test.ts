import { expect, test } from "vitest";
import { requestAsCurl } from "./exchange";

test("a request is a curl command, and no hidden value is written as its word", () => {
  const text = requestAsCurl({
    endpoint: "https://api.example.com/a",
    method: "POST",
    headers: { Authorization: "Bearer [redacted]", "X-Token": "secret://stripe-live" },
    query: { a: "b c", list: ["1", "2"] },
    body: { it: "isn't" },
  });
  expect(text.split(" \\\n  ")).toEqual([
    "curl -X POST 'https://api.example.com/a?a=b%20c&list=1&list=2'",
    '-H "Authorization: Bearer $HIDDEN"',
    '-H "X-Token: $STRIPE_LIVE"',
    "-H 'Content-Type: application/json'",
    `-d '{"it":"isn'\\''t"}'`,
  ]);
});

test("text of a hostile receiver cannot leave its word", () => {
  const text = requestAsCurl({
    endpoint: "https://x/",
    method: "GET",
    headers: { A: '[redacted] "; rm -rf $HOME `x`' },
  });
  expect(text).toBe('curl https://x/ \\\n  -H "A: $HIDDEN \\"; rm -rf \\$HOME \\`x\\`"');
});
