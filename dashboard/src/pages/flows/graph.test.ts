import { expect, test } from "vitest";
import {
  boxState,
  canRetry,
  countWords,
  drawn,
  endedWords,
  type Flow,
  heldBy,
  type Node,
  retryWords,
  segments,
} from "./graph";

const node = (name: string, more: Partial<Node> = {}): Node => ({
  name,
  job: name,
  id: `f.${name}`,
  state: "completed",
  when: "success",
  after: [],
  map: false,
  skipped: false,
  counts: {},
  atLeast: false,
  holding: null,
  ...more,
});
const wait = (name: string, counts: Record<string, number>) => node(name, { job: null, id: null, state: null, counts });
const flow = (more: Partial<Flow>): Flow => ({
  id: "f",
  name: "nightly",
  kind: "declared",
  state: "blocked",
  queue: "default",
  createdAt: "2026-01-01T00:00:00Z",
  cancelRequested: false,
  aborted: false,
  data: {},
  counts: {},
  nodes: [],
  edges: [],
  complete: true,
  ...more,
});

test("the link from a live node to one that has not begun is what holds it back", () => {
  const nodes = [
    node("extract"),
    node("transform", { state: "blocked", after: ["extract"], startedAt: "2026-01-01T00:00:00Z" }),
    node("load", { state: "blocked", after: ["transform", "extract"] }),
    node("alarm", { state: "blocked", after: ["load"], when: "failure" }),
  ];
  const edges = [
    { before: "extract", after: "transform", when: "success" as const },
    { before: "transform", after: "load", when: "success" as const },
    { before: "extract", after: "load", when: "success" as const },
    { before: "load", after: "alarm", when: "failure" as const },
  ];
  const { lines } = drawn(flow({ nodes, edges }), new Set());
  expect(lines.map((line) => [line.from, line.to, line.holds, line.words])).toEqual([
    ["extract", "transform", false, ""],
    ["transform", "load", true, ""],
    ["extract", "load", false, ""],
    ["load", "alarm", true, "on failure"],
  ]);
});

test("the waits of a handler hang below its root, and fold", () => {
  const nodes = [
    wait("pages", { completed: 2, running: 1 }),
    wait("pages/fetch", { completed: 4 }),
    wait("pages/fetch/a/b", { failed: 1 }),
    wait("report", { completed: 1 }),
  ];
  const one = flow({ kind: "dynamic", nodes });
  const whole = drawn(one, new Set());
  expect(whole.lines.map((line) => [line.from, line.to, line.holds])).toEqual([
    ["/", "pages", true],
    ["pages", "pages/fetch", false],
    ["pages/fetch", "pages/fetch/a/b", false],
    ["/", "report", false],
  ]);
  expect(whole.boxes.map((box) => [box.title, box.below])).toEqual([
    ["nightly", 4],
    ["pages", 2],
    ["fetch", 1],
    ["a/b", 0],
    ["report", 0],
  ]);
  const folded = drawn(one, new Set(["pages"]));
  expect(folded.boxes.map((box) => box.name)).toEqual([null, "pages", "report"]);
  expect(folded.boxes[1]?.counts).toEqual({ completed: 6, running: 1, failed: 1 });
});

test("a box without a job of its own has the state that matters most", () => {
  expect(boxState(node("a", { state: "cancelled", skipped: true }))).toBe("skipped");
  expect(boxState(wait("a", { completed: 3, failed: 1 }))).toBe("failed");
  expect(boxState(wait("a", { completed: 3, running: 1, failed: 1 }))).toBe("running");
  expect(boxState(wait("a", {}))).toBe("not stored yet");
});

test("counts become a bar and words", () => {
  expect(segments({ blocked: 1, completed: 3, unheard: 0 })).toEqual([
    { state: "completed", value: 3, percent: 75 },
    { state: "blocked", value: 1, percent: 25 },
  ]);
  expect(countWords({ running: 2000, completed: 1 }, true)).toBe("1+ completed, 2,000+ running");
  expect(countWords({})).toBe("no jobs");
  expect(endedWords({ completed: 3, failed: 1, pending: 4 })).toBe("4 of 8 ended");
});

test("a flow says what it waits for", () => {
  const nodes = [
    node("extract"),
    node("transform", {
      state: "blocked",
      after: ["extract"],
      counts: { running: 3, pending: 9, completed: 28, failed: 2 },
    }),
    node("load", { state: "blocked", after: ["transform"] }),
  ];
  expect(heldBy(flow({ nodes }))).toBe("It waits for transform (12 of 42 left, 2 failed).");
  expect(heldBy(flow({ nodes, cancelRequested: true }))).toBe("It is being cancelled.");
  expect(heldBy(flow({ state: "failed", error: "ValueError: no", nodes }))).toBe("ValueError: no");
  expect(heldBy(flow({ kind: "dynamic", nodes: [] }))).toBeNull();
  const asking = node("approve", { state: "blocked", holding: "It waits for the signal 'approved'." });
  expect(heldBy(flow({ nodes: [asking] }))).toBe("It waits for approve (waits for the signal 'approved').");
  const many = ["a", "b", "c", "d"].map((name) => node(name, { state: "pending" }));
  expect(heldBy(flow({ nodes: many }))).toBe("It waits for a (pending); b (pending) and 2 more nodes.");
});

test("a flow is retried once something in it has failed", () => {
  expect(canRetry(flow({ state: "failed" }))).toBe(true);
  expect(canRetry(flow({ state: "blocked", counts: { failed: 1 } }))).toBe(true);
  expect(canRetry(flow({ state: "blocked", counts: { running: 1 } }))).toBe(false);
  expect(canRetry(flow({ state: "completed", counts: { failed: 1 } }))).toBe(false);
  expect(retryWords({ failed: 2, expired: 1 })).toBe("3 jobs that failed or expired run again");
});
