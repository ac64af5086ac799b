import { expect, test } from "vitest";
import { rate, shownName } from "./text";

test("a rate is rounded to what a reader needs", () => {
  expect([1234.5, 12.97, 9.96, 2.5, 1, 0.2, 0.001, 0].map(rate)).toEqual([
    "1,235 per minute",
    "13 per minute",
    "10 per minute",
    "2.5 per minute",
    "1 per minute",
    "12 per hour",
    "under 1 per hour",
    "none",
  ]);
  expect(rate(null)).toBe("–");
});

test("the product's own handlers have words", () => {
  expect(["mainspring:http", "mainspring:flow", "charge", ""].map(shownName)).toEqual([
    "Webhook",
    "Flow",
    "charge",
    "(no name)",
  ]);
});
