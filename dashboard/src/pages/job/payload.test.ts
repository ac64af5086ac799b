import { expect, test } from "vitest";
import { readPayload } from "./payload";

test("a payload is JSON, and nothing is null", () => {
  expect(readPayload(' {"ok": true} ')).toEqual({ value: { ok: true } });
  expect(readPayload("  ")).toEqual({ value: null });
  expect(readPayload("yes").error).toMatch(/not JSON/);
});
