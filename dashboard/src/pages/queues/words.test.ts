import { expect, test } from "vitest";
import { drainWords, limitBody, limitWords, rateWords, ruleWords, targetFirst, upTo } from "./words";

const queue = { due: 40, waiting: 0, counted: 100, drainMs: 90_000, noWorker: false, paused: null, slots: 4 };

test("a capped count has a plus", () => {
  expect(upTo(99, 100)).toBe("99");
  expect(upTo(1000, 1000)).toBe("1,000+");
});

test("the time to drain is a bound where the backlog was not counted to its end", () => {
  expect(drainWords(queue)).toBe("about 2 min");
  expect(drainWords({ ...queue, due: 100 })).toBe("about 2 min or more");
});

test("a queue says why its time to drain is unknown", () => {
  expect(drainWords({ ...queue, due: 0 })).toBe("–");
  expect(drainWords({ ...queue, drainMs: null })).toBe("unknown");
  expect(drainWords({ ...queue, noWorker: true })).toBe("no worker");
});

test("limits are told as people say them", () => {
  expect(rateWords("100/60s")).toBe("100 per minute");
  expect(rateWords("5/90s")).toBe("5 per 1 min 30 s");
  expect(rateWords("<b>")).toBe("<b>");
  const rate = { rate: "1000/3600s", key: null, burst: 1000, weight: 1 };
  expect(limitWords({ concurrency: { limit: 5, key: "tenant" }, rate })).toBe("5 at once per tenant, 1,000 per hour");
  expect(limitWords({ concurrency: null, rate: null })).toBe("none");
});

test("the target of a problem comes first, and the others keep their order", () => {
  const all = ["a", "b", "c"].map((target) => ({ target }));
  expect(targetFirst(all, "c").map((one) => one.target)).toEqual(["c", "a", "b"]);
  expect(targetFirst(all, undefined).map((one) => one.target)).toEqual(["a", "b", "c"]);
});

test("the rule of a breaker is a sentence", () => {
  const rule = { errors: 0.5, window: "1m", minimum: 10, openFor: "30s" };
  expect(ruleWords(rule)).toBe("It opens for 30 s when 50 % of at least 10 attempts within 1 min fail.");
});

const nothing = { concurrency: "", concurrencyKey: "", rate: "", rateKey: "", reason: "" };

test("an empty field stays as declared", () => {
  expect(limitBody({ ...nothing, concurrency: "5", reason: " busy " })).toEqual({ concurrency: 5, reason: "busy" });
  expect(limitBody({ ...nothing, rate: "10/s" })).toEqual({ rate: "10/s", reason: "" });
});

test("a key makes a limit for each of its values", () => {
  const asked = { ...nothing, concurrency: "2", concurrencyKey: "tenant", rate: "1/m", rateKey: "host" };
  expect(limitBody(asked)).toEqual({
    concurrency: { limit: 2, key: "tenant", eachQueue: false },
    rate: { rate: "1/m", key: "host", eachQueue: false },
    reason: "",
  });
});
