import { expect, test } from "vitest";
import { merge } from "./search";

test("an empty value removes a parameter and leaves the others", () => {
  expect(merge({ state: "failed", name: "a" }, { state: "", queue: "mail" })).toEqual({ name: "a", queue: "mail" });
});
