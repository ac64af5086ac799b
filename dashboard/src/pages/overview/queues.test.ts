import { describe, expect, it } from "vitest";
import { backlogOf, drainOf, isCapped, type Queue, worstFirst } from "./queues";

const queue = (name: string, more: Partial<Queue> = {}): Queue =>
  ({ name, ready: 0, waiting: 0, running: 0, counted: 1000, paused: null, ...more }) as Queue;

describe("queues", () => {
  it("have a backlog of due and waiting jobs, without those of the future", () => {
    expect(backlogOf(queue("a", { ready: 50, due: 10, waiting: 5 }))).toBe(15);
    expect(isCapped(queue("a", { due: 1000 }))).toBe(true);
    expect(isCapped(queue("a", { due: 999 }))).toBe(false);
  });

  it("say how long the backlog takes, or why that is not known", () => {
    expect(drainOf(queue("a"))).toBe("–");
    expect(drainOf(queue("a", { due: 5, drainMs: 90_000 }))).toBe("about 2 min");
    expect(drainOf(queue("a", { due: 1000, drainMs: 90_000 }))).toBe("about 2 min or more");
    expect(drainOf(queue("a", { due: 5, drainMs: null }))).toBe("unknown");
    expect(drainOf(queue("a", { due: 5, paused: {} as never }))).toBe("paused");
  });

  it("come with the worst first", () => {
    const found = worstFirst([
      queue("b"),
      queue("a"),
      queue("full", { due: 9 }),
      queue("lost", { due: 1, noWorker: true }),
    ]);
    expect(found.map((one) => one.name)).toEqual(["lost", "full", "a", "b"]);
  });
});
