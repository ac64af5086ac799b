import { expect, test } from "vitest";
import { diffLines } from "./diff";

test("lines that both logs have stay together", () => {
  const found = diffLines(["begin", "a", "end"], ["begin", "b", "end", "more"]);
  expect(found.map((one) => `${one.side[0]} ${one.text}`)).toEqual(["b begin", "b a", "a b", "b end", "a more"]);
  expect(found.filter((one) => one.side === "both").length).toBe(2);
});

test("long logs are compared by their ends", () => {
  const long = Array.from({ length: 5000 }, (_, n) => `line ${n}`);
  expect(diffLines(long, long).length).toBe(400);
});
