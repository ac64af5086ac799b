import { expect, test } from "vitest";
import { matching } from "./places";

const places = ["Overview", "Jobs", "Dead letters", "Failed jobs"].map((title) => ({ title }));

test("places that begin with the text come first", () => {
  expect(matching(places, "jo").map((one) => one.title)).toEqual(["Jobs", "Failed jobs"]);
});

test("letters in their order are enough", () => {
  expect(matching(places, "dlt").map((one) => one.title)).toEqual(["Dead letters"]);
});

test("everything matches nothing typed", () => {
  expect(matching(places, "")).toHaveLength(4);
});
