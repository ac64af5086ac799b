import { expect, test } from "vitest";
import { moved, placeOf, rangeOf } from "./chartKeys";

const at = [0, 60, 120, 180, 240];

test("the cursor begins at the latest step and stays on the chart", () => {
  expect(moved(at, null, "ArrowLeft", false)).toEqual({ cursor: 240, anchor: 240 });
  expect(moved(at, { cursor: 240, anchor: 240 }, "ArrowLeft", false)).toEqual({ cursor: 180, anchor: 180 });
  expect(moved(at, { cursor: 240, anchor: 240 }, "ArrowRight", false)).toEqual({ cursor: 240, anchor: 240 });
  expect(moved(at, { cursor: 240, anchor: 240 }, "Home", false)).toEqual({ cursor: 0, anchor: 0 });
  expect(moved(at, null, "End", false)).toEqual({ cursor: 240, anchor: 240 });
  expect(moved(at, { cursor: 60, anchor: 60 }, "PageUp", false)).toEqual({ cursor: 240, anchor: 240 });
});

test("Shift keeps the other end, and a move without it lets go", () => {
  const marked = moved(at, { cursor: 180, anchor: 180 }, "ArrowLeft", true);
  expect(marked).toEqual({ cursor: 120, anchor: 180 });
  expect(moved(at, marked, "ArrowLeft", false)).toEqual({ cursor: 60, anchor: 60 });
});

test("other keys move nothing, and an empty chart has no cursor", () => {
  expect(moved(at, null, "x", false)).toBeNull();
  expect(moved([], null, "ArrowLeft", false)).toBeNull();
});

test("a range has its last step whole, in either direction", () => {
  expect(rangeOf(at, { cursor: 60, anchor: 180 })).toEqual([60, 240]);
  expect(rangeOf(at, { cursor: 180, anchor: 180 })).toEqual([180, 240]);
});

test("an instant that has left the chart is at its edge", () => {
  expect(placeOf(at, -600)).toBe(0);
  expect(placeOf(at, 130)).toBe(2);
});
