import { expect, test } from "vitest";
import { ExactNumber, parseExact } from "./json";

test("a whole number beyond 2^53 keeps its digits", () => {
  const found = parseExact('{"id": 9007199254740993, "n": 12}') as { id: ExactNumber; n: number };
  expect(found.id.toString()).toBe("9007199254740993");
  expect(found.n).toBe(12);
});

test("ordinary decimals stay numbers", () => {
  expect(parseExact("[0.1, -3.5e2, 0]")).toEqual([0.1, -350, 0]);
});

test("a decimal with too many digits keeps them", () => {
  expect(String(parseExact("0.12345678901234567890"))).toBe("0.12345678901234567890");
});
