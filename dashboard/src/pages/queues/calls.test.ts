import { expect, test } from "vitest";
import { breakerCall, removeLimitCall, setLimitCall } from "./calls";

test("a limit with a key is an object in Python, and what is not given is left out", () => {
  const place = { scope: "name" as const, target: "charge" };
  const call = setLimitCall(place, { reason: "", concurrency: { limit: 5, key: "tenant", eachQueue: false } });
  expect(call.python).toBe('await scheduler.limits.set(name="charge", concurrency=Limit(5, key="tenant"))');
  expect(setLimitCall(place, { reason: "a sale", rate: "10/minute" }).python).toBe(
    'await scheduler.limits.set(name="charge", reason="a sale", rate="10/minute")',
  );
  expect(removeLimitCall({ scope: "queue", target: "a/b" }).path).toBe("/api/limits/queue/a%2Fb");
});

test("the breaker of one value names it", () => {
  const call = breakerCall("close", { scope: "name", target: "charge" }, { key: { bank: "x" } }, "it works");
  expect(call.path).toBe("/api/breakers/name/charge/close");
  expect(call.body).toEqual({ key: { bank: "x" }, reason: "it works" });
  expect(call.python).toBe('await scheduler.limits.close_breaker(name="charge", key={"bank": "x"}, reason="it works")');
});
