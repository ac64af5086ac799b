import { describe, expect, it } from "vitest";
import { callOf, countsOf, type Cure, lookOf, placeOf, type Problem, type Target, wordOf } from "./problems";

const target = (kind: Target["kind"], id: string, more: Partial<Target> = {}): Target =>
  ({ kind, id, scope: null, key: null, queue: null, name: null, ...more }) as Target;
const cure = (verb: Cure["verb"], of: Target): Cure => ({ verb, target: of, command: null });

describe("the link of a problem", () => {
  it("leads to the filtered view that proves it", () => {
    expect(placeOf({ kind: "failing", target: target("name", "charge") })).toEqual({
      to: "/jobs",
      search: { name: "charge", state: "failed" },
    });
    expect(placeOf({ kind: "late", target: target("queue", "a/b") })).toEqual({
      to: "/queues/$queue",
      params: { queue: "a/b" },
    });
    expect(placeOf({ kind: "schedule", target: target("schedule", "nightly") }).to).toBe("/schedules/$id");
    expect(placeOf({ kind: "versions", target: target("workers", "") }).to).toBe("/workers");
    expect(placeOf({ kind: "limited", target: target("limit", "mail", { scope: "queue" }) }).params).toEqual({
      queue: "mail",
    });
    expect(placeOf({ kind: "limited", target: target("limit", "charge", { scope: "name" }) }).search).toEqual({
      tab: "limits",
      target: "charge",
    });
    expect(placeOf({ kind: "broken", target: target("breaker", "charge", { scope: "name" }) })).toEqual({
      to: "/queues",
      search: { tab: "breakers", target: "charge" },
    });
    expect(placeOf({ kind: "failing", target: target("error", "4f2a") })).toEqual({
      to: "/dead-letters",
      search: { group: "4f2a" },
    });
  });
});

describe("the request of a cure", () => {
  it("resumes a queue, a name with a key, and a schedule", () => {
    expect(callOf(cure("resume", target("queue", "mail", { scope: "queue" })))).toMatchObject({
      path: "/api/pauses/resume",
      body: { queue: "mail" },
      python: 'await scheduler.queues.resume("mail")',
    });
    expect(callOf(cure("resume", target("name", "charge", { scope: "name", key: { tenant: "acme" } })))).toMatchObject({
      body: { name: "charge", key: { tenant: "acme" } },
      python: 'await scheduler.limits.resume("charge", key={"tenant": "acme"})',
    });
    expect(callOf(cure("resume", target("schedule", "a/b"))).path).toBe("/api/schedules/a%2Fb/resume");
  });

  it("closes the breaker of just its key and queue", () => {
    const of = target("breaker", "charge", { scope: "name", key: { bank: "x" }, queue: "slow" });
    expect(callOf(cure("close_breaker", of), "mended")).toMatchObject({
      path: "/api/breakers/name/charge/close",
      body: { key: { bank: "x" }, queue: "slow", reason: "mended" },
    });
  });

  it("retries the dead letters of one fingerprint, never of all", () => {
    expect(callOf(cure("retry_dead_letters", target("error", "abc"))).body).toEqual({ filter: { fingerprint: "abc" } });
  });

  it("has no button where a terminal or another page is needed", () => {
    expect(wordOf(cure("start_worker", target("workers", "")))).toBeNull();
    expect(wordOf(cure("set_limit", target("limit", "x")))).toBeNull();
  });
});

describe("the heading", () => {
  it("counts problems by severity, and an unknown severity spoils nothing", () => {
    const of = (severity: string) => ({ severity }) as Problem;
    expect(countsOf([of("critical"), of("warning"), of("warning")])).toBe("1 critical, 2 warnings");
    expect(countsOf([])).toBe("");
    expect(lookOf("strange").word).toBe("strange");
  });
});
