import { expect, test } from "vitest";
import { statusWords } from "./words";

test("the status names what holds messages back", () => {
  expect(statusWords({ enabled: true, status: "firing", silence: null })).toBe("firing");
  expect(statusWords({ enabled: false, status: "ok", silence: null })).toBe("disabled");
  const silence = { until: "2030-01-01T00:00:00Z", reason: "", actor: null, at: "2030-01-01T00:00:00Z" };
  expect(statusWords({ enabled: true, status: "firing", silence })).toBe("firing, silenced");
});
