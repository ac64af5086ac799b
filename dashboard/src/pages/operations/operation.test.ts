import { expect, test } from "vitest";
import { ended, outcome, percent, sentence, verbsFor } from "./operation";

const progress = { examined: 5, changed: 3, skipped: 1, refused: 1, reasons: [] };
const plain = { verb: "retry", count: 10, capped: false, priority: null, queue: null, state: "running" } as const;

test("an operation is told in a sentence, with its number", () => {
  expect(sentence(plain)).toBe("Retrying 10 jobs");
  expect(sentence({ ...plain, count: 1 })).toBe("Retrying 1 job");
  expect(sentence({ ...plain, count: 2000, capped: true })).toBe("Retrying 2,000+ jobs");
  expect(sentence({ ...plain, verb: "move", queue: "slow" })).toBe("Moving 10 jobs to queue slow");
  expect(sentence({ ...plain, verb: "set_priority", priority: 1 })).toBe("Changing the priority of 10 jobs to 1");
  expect(sentence({ ...plain, verb: "run" })).toBe("Making due: 10 jobs");
});

test("an operation that is over is told in the past", () => {
  expect(sentence({ ...plain, state: "completed" })).toBe("Retried 10 jobs");
  expect(sentence({ ...plain, verb: "move", queue: "slow", state: "completed" })).toBe("Moved 10 jobs to queue slow");
  expect(sentence({ ...plain, state: "cancelled" })).toBe("Retry 10 jobs");
});

test("what became of the jobs is told", () => {
  expect(outcome({ verb: "delete", progress, state: "running" })).toBe("3 deleted, 1 skipped, 1 refused");
  const none = { ...progress, changed: 0, skipped: 0, refused: 0 };
  expect(outcome({ verb: "delete", progress: none, state: "cancelled" })).toBe("no job was changed");
});

test("how far it is, is told only where it is known", () => {
  expect(percent({ count: 10, capped: false, progress, state: "running" })).toBe(50);
  expect(percent({ count: 10, capped: true, progress, state: "running" })).toBeNull();
  expect(percent({ count: 0, capped: false, progress, state: "completed" })).toBe(100);
  expect([ended({ state: "waiting" }), ended({ state: "failed" })]).toEqual([false, true]);
});

test("only verbs that do something to the selected states are offered", () => {
  expect(verbsFor(["failed"])).toEqual(["retry", "delete"]);
  expect(verbsFor(["running"])).toEqual(["cancel"]);
  expect(verbsFor([])).toEqual([]);
});
