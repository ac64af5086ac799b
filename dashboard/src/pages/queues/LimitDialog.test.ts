import { expect, test } from "vitest";
import { limitBody } from "./LimitDialog";

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
