import { expect, test } from "vitest";
import { filterOf, trendWords } from "./words";

test("the filter is what the address has, without empty fields and others", () => {
  expect(filterOf({ name: " send ", queue: "", group: "abc", text: "time out" })).toEqual({
    name: "send",
    text: "time out",
  });
});

test("a trend is told in words", () => {
  expect(trendWords([1, 0, 3])).toBe("4 failed in the last 3 hours, 3 of them in this one");
  expect(trendWords([])).toBe("0 failed in the last 0 hours, 0 of them in this one");
});
