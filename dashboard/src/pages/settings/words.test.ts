import { expect, test } from "vitest";
import { daysWords, keyState, listed, rangesOf, scopeWords, settingText } from "./words";

test("a scope is told in words", () => {
  expect(scopeWords({})).toBe("everything");
  expect(scopeWords({ queues: ["billing"] })).toBe("queue billing");
  expect(scopeWords({ queues: ["a", "b"], prefixes: ["x."] })).toBe("queues a, b; names beginning with x.");
});

test("a typed list has each entry once", () => {
  expect(listed(" a, b\nb ,, ")).toEqual(["a", "b"]);
  expect(listed(" , ")).toBeNull();
});

test("a key is revoked before it is expired", () => {
  const now = Date.parse("2026-06-01T00:00:00Z");
  expect(keyState({ revokedAt: "2026-01-01T00:00:00Z", expiresAt: "2026-01-01T00:00:00Z" }, now)).toBe("revoked");
  expect(keyState({ expiresAt: "2026-05-31T00:00:00Z" }, now)).toBe("expired");
  expect(keyState({ expiresAt: "2026-06-02T00:00:00Z" }, now)).toBe("in force");
});

test("the days of a calendar are told in words, and not all of many", () => {
  expect(daysWords({ days: [], ranges: [], yearly: [], weekdays: [] })).toBe("no day");
  const many = Array.from({ length: 9 }, (_, n) => `2030-01-0${n + 1}`);
  expect(daysWords({ days: many, ranges: [], yearly: ["12-25"], weekdays: ["SAT"] })).toBe(
    "SAT; every year 12-25; 2030-01-01, 2030-01-02, 2030-01-03, 2030-01-04 and 5 more",
  );
});

test("ranges are typed one to a line", () => {
  expect(rangesOf("2030-12-24 to 2031-01-01\n\n2031-05-05")).toEqual([
    ["2030-12-24", "2031-01-01"],
    ["2031-05-05", "2031-05-05"],
  ]);
});

test("a setting without a value is told apart from an empty one", () => {
  const texts = [null, "", [], 0, false, ["a"], "UTC"].map((value) => settingText(value).text);
  expect(texts).toEqual(["not set", "an empty text", "an empty list", "0", "false", '["a"]', "UTC"]);
  expect(settingText("not set").said).toBe(false);
});
