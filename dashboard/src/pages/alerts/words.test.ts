import { expect, test } from "vitest";
import { statusWords } from "./words";

test("a rule that is switched off has no other status", () => {
  expect(statusWords({ enabled: true, status: "firing" })).toBe("firing");
  expect(statusWords({ enabled: false, status: "ok" })).toBe("disabled");
});
