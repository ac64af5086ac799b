import { expect, test } from "vitest";
import { barsOf, MOST, sameNameWords } from "./sameName";

const now = Date.parse("2026-01-01T00:10:00Z");
const job = (id: string, state: string, seconds: number | null) => ({
  id,
  state,
  finishedAt: seconds === null ? null : "2026-01-01T00:00:04Z",
  duration: seconds === null ? null : seconds * 1000,
});

test("the oldest job comes first, and the longest is the highest", () => {
  const own = job("own", "failed", 4);
  const bars = barsOf([job("new", "pending", null), own, job("old", "completed", 8)], own, now);
  expect(bars.map((bar) => bar.id)).toEqual(["old", "own", "new"]);
  expect(bars.map((bar) => bar.height)).toEqual([36, 18, 3]);
  expect(bars[1]?.words).toBe("This job: failed in 4.0 s, 9 min 56 s ago");
  expect(sameNameWords(bars)).toBe("3 jobs: 1 completed, 1 failed. Half of them took 4.0 s or less.");
});

test("a job that is older than the newest is shown among them", () => {
  const newest = Array.from({ length: MOST }, (_, n) => job(`n${n}`, "completed", 1));
  const bars = barsOf(newest, job("own", "completed", 1), now);
  expect(bars).toHaveLength(MOST);
  expect(bars[0]?.id).toBe("own");
});

test("times that cannot be read spoil nothing", () => {
  const own = { id: "own", state: "completed", finishedAt: "nonsense", duration: "long" as never };
  expect(barsOf([own], own, now)[0]).toMatchObject({ height: 3, words: "This job: completed, –" });
});
