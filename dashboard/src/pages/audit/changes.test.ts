import { expect, test } from "vitest";
import { brief, changesBetween, foremost, MOST_CHANGES } from "./changes";

test("only the fields that differ are listed, by their paths", () => {
  const before = { state: "pending", retry: { attempts: 3, delay: 5 }, tags: ["a"] };
  const after = { state: "cancelled", retry: { attempts: 3, delay: 9 }, tags: ["a"], reason: "late" };
  expect(changesBetween(before, after)).toEqual([
    { path: "state", before: "pending", after: "cancelled" },
    { path: "retry.delay", before: 5, after: 9 },
    { path: "reason", after: "late" },
  ]);
});

test("what was made or deleted has one side", () => {
  expect(changesBetween(null, { name: "ops" })).toEqual([{ path: "name", after: "ops" }]);
  expect(changesBetween({ name: "ops" }, null)).toEqual([{ path: "name", before: "ops" }]);
  expect(changesBetween(null, null)).toEqual([]);
});

test("values of other kinds are compared whole", () => {
  expect(changesBetween("a", "b")).toEqual([{ path: "", before: "a", after: "b" }]);
  expect(changesBetween({ a: [1] }, { a: { b: 1 } })).toEqual([{ path: "a", before: [1], after: { b: 1 } }]);
});

test("hostile names are fields as any other", () => {
  const after = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') as unknown;
  expect(changesBetween({}, after).map((one) => one.path)).toEqual(["__proto__", "constructor"]);
});

test("a huge difference is bounded", () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`field${n}`, n]));
  expect(changesBetween({}, many)).toHaveLength(MOST_CHANGES);
});

test("a long value is cut", () => {
  expect(brief("x".repeat(100), 10)).toBe("xxxxxxxxxx…");
  expect(brief({ a: 1 })).toBe('{"a":1}');
  expect(brief(undefined)).toBe("");
});

test("the line of a row shows the difference that tells most", () => {
  expect(foremost(changesBetween({ id: "a", state: "x" }, { id: "b1", state: "x", reason: "r" }))?.path).toBe("id");
  expect(foremost(changesBetween(null, { _id: "a", queue: "q", name: "work" }))?.path).toBe("name");
  expect(foremost(changesBetween(null, { _id: "a", queue: "q" }))?.path).toBe("queue");
  expect(foremost([])).toBeUndefined();
});
