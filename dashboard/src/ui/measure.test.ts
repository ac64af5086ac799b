import { expect, test } from "vitest";
import { measure } from "./measure";

test("values are counted with their children, and hidden ones apart", () => {
  expect(measure({ a: [1, "[redacted]"], b: null })).toMatchObject({ nodes: 5, hidden: 1 });
});

test("a value of great depth needs no stack", () => {
  let deep: unknown = 1;
  for (let n = 0; n < 100_000; n += 1) deep = [deep];
  expect(measure(deep).nodes).toBe(100_001);
});
