import { expect, test } from "vitest";
import { fromLocal, toLocal } from "./times";

test("an instant survives the way through a field, to the minute", () => {
  const field = toLocal("2026-03-29T10:15:42.000Z");
  expect(fromLocal(field)).toBe("2026-03-29T10:15:00.000Z");
});

test("what is no instant is empty", () => {
  expect(toLocal("yesterday")).toBe("");
  expect(toLocal(undefined)).toBe("");
  expect(fromLocal("")).toBeNull();
});
