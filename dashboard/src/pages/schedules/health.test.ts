import { expect, test } from "vitest";
import { type Firing, KINDS, kindOf, stripWords, whyOf } from "./health";

function firing(change: Partial<Firing>): Firing {
  const usual = { at: "2030-01-01T00:00:00Z", outcome: "on_time", reason: "", lateByMs: null, actor: null };
  return { ...usual, jobId: "s@1", jobState: "completed", ...change };
}

test("what went wrong with the job counts more than that the firing was late", () => {
  expect(kindOf(firing({ outcome: "late", jobState: "failed" }))).toBe("failed");
  expect(kindOf(firing({ outcome: "late" }))).toBe("late");
  expect(kindOf(firing({ jobState: null }))).toBe("fired");
  expect(kindOf(firing({ outcome: "skipped", jobState: null }))).toBe("skipped");
  expect(kindOf(firing({ outcome: "odd", jobState: "odd" }))).toBe("fired");
});

test("every kind has a glyph of its own", () => {
  const glyphs = Object.values(KINDS).map((one) => one.glyph);
  expect(new Set(glyphs).size).toBe(glyphs.length);
});

test("a mark says why in a sentence", () => {
  expect(whyOf(firing({ outcome: "late", lateByMs: 90_000 }))).toBe("Fired 1 min 30 s late; its job has completed.");
  const overlap = firing({ outcome: "skipped", reason: "overlap", jobId: null, jobState: null });
  expect(whyOf(overlap)).toContain("an earlier run was still going");
  expect(whyOf({ ...overlap, reason: "by hand: holidays", actor: "key:1" })).toBe(
    "Skipped: by hand: holidays. By key:1.",
  );
  expect(whyOf({ ...overlap, reason: "overlap: s@1 is going" })).toContain("leaves this one out: s@1 is going");
  const missed = firing({ outcome: "missed", reason: "the latest run stands for it" });
  expect(whyOf(missed)).toBe("Missed: no worker was running in time (the latest run stands for it).");
  expect(whyOf(firing({ jobState: null }))).toContain("no longer stored");
});

test("a strip is a sentence for those who do not see it", () => {
  const strip = [firing({}), firing({}), firing({ jobState: "failed" })];
  expect(stripWords(strip)).toBe("The last 3 firings: 2 completed, 1 failed");
  expect(stripWords([])).toBe("It has not fired yet");
});
