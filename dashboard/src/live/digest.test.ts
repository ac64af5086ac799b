import { expect, test } from "vitest";
import { concerns, type Digest } from "./digest";

const one: Digest = {
  at: "2026-01-01T00:00:00Z",
  jobs: 1,
  created: 0,
  ids: ["a"],
  names: ["send"],
  queues: ["mail"],
  schedules: [],
  controls: false,
  gap: false,
};

test("a digest concerns the jobs that it names", () => {
  expect(concerns(one, { id: "a" })).toBe(true);
  expect(concerns(one, { id: "b" })).toBe(false);
  expect(concerns(one, { queue: "mail" })).toBe(true);
  expect(concerns(one, { queue: "other" })).toBe(false);
  expect(concerns(one, {})).toBe(true);
});

test("a digest concerns the flow of the jobs that it names", () => {
  const below = { ...one, ids: ["x", "flow.pages.00000001"] };
  expect(concerns(below, { tree: "flow" })).toBe(true);
  expect(concerns(below, { tree: "flo" })).toBe(false);
  expect(concerns({ ...below, ids: ["flow"] }, { tree: "flow" })).toBe(true);
  expect(concerns({ ...below, jobs: 0, controls: true }, { tree: "flow" })).toBe(false);
});

test("a digest that lists nothing concerns everything", () => {
  expect(concerns({ ...one, ids: null }, { id: "b" })).toBe(true);
});

test("a gap concerns everything", () => {
  expect(concerns({ ...one, jobs: 0, gap: true }, { schedule: "x" })).toBe(true);
});

test("a control concerns pages of controls alone", () => {
  const control = { ...one, jobs: 0, ids: [], names: [], queues: [], controls: true };
  expect(concerns(control, { kind: "controls" })).toBe(true);
  expect(concerns(control, { kind: "jobs" })).toBe(false);
});
