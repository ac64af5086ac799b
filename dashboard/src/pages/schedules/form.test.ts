import { expect, test } from "vitest";
import { BLANK, bodyOf, changesOf, fieldOf, formOf, type Schedule, TEMPLATES } from "./form";

const schedule = {
  id: "nightly",
  name: "report",
  data: { to: "a", password: "[redacted]" },
  rule: { kind: "cron", expression: "0 3 * * *", timezone: "Europe/Paris", gap: "after", fold: "first" },
  queue: "default",
  priority: 5,
  tags: ["a", "b"],
  startAt: null,
  endAt: null,
  jitter: "2s",
  pauseAfter: null,
  policy: { overlap: "skip", misfire: "latest", maxRuns: null },
} as unknown as Schedule;

test("a form makes the body of a request, without fields that are empty", () => {
  const form = { ...BLANK, work: "handler" as const, name: "sync", data: '{"n": 1}', tags: "a, b", timezone: "UTC" };
  expect(bodyOf(form)).toEqual({
    body: { name: "sync", data: { n: 1 }, tags: ["a", "b"], repeat: { cron: "0 9 * * MON-FRI", timezone: "UTC" } },
    faults: {},
  });
});

test("what the service could not read is told beside its field", () => {
  const { faults } = bodyOf({ ...BLANK, headers: "[1]", data: "{", maxRuns: "many", startAt: "soon", kind: "at" });
  expect(Object.keys(faults).sort()).toEqual(["at", "data", "endpoint", "headers", "maxRuns", "startAt"]);
});

test("a webhook's body may be text", () => {
  expect(bodyOf({ ...BLANK, endpoint: "https://a.b/", body: "plain {{text}}" }).body.body).toBe("plain {{text}}");
});

test("every template makes a request", () => {
  for (const { form } of TEMPLATES) expect(bodyOf({ ...BLANK, ...form }).faults).toEqual({});
});

test("a stored schedule that is not changed has no changes", () => {
  const form = formOf(schedule);
  expect(changesOf(form, form)).toEqual({ body: {}, faults: {} });
});

test("only fields that were changed are sent, and an emptied one is removed", () => {
  const before = formOf(schedule);
  const after = { ...before, cron: "0 4 * * *", jitter: "", tags: "" };
  expect(changesOf(before, after).body).toEqual({
    repeat: { cron: "0 4 * * *", timezone: "Europe/Paris" },
    jitter: null,
    tags: [],
  });
});

test("a changed interval keeps the instant that its grid is counted from", () => {
  const rule = { kind: "every", period: "15m", anchor: "2026-01-01T00:00:00Z" };
  const before = formOf({ ...schedule, rule } as unknown as Schedule);
  expect(changesOf(before, { ...before, every: "20m" }).body).toEqual({
    repeat: { every: "20m", anchor: "2026-01-01T00:00:00Z" },
  });
  expect(changesOf(before, { ...before, after: "end" }).body).toEqual({ repeat: { every: "15m", after: "end" } });
});

test("a changed RRULE keeps its start, unless its text has one", () => {
  const rule = { kind: "rrule", rule: "FREQ=DAILY;INTERVAL=3", timezone: "UTC", start: "2026-11-01T09:17:00Z" };
  const before = formOf({ ...schedule, rule } as unknown as Schedule);
  expect(changesOf(before, { ...before, calendars: "holidays" }).body).toEqual({
    repeat: { rrule: rule.rule, timezone: "UTC", start: rule.start, except: ["holidays"] },
  });
  const own = "DTSTART:20261201T080000Z\nRRULE:FREQ=DAILY";
  expect(changesOf(before, { ...before, rrule: own }).body).toEqual({ repeat: { rrule: own, timezone: "UTC" } });
});

test("an emptied limit of failures and an emptied body of a webhook are removed", () => {
  const data = { request: { url: "https://a.b/", body: { n: 1 } } };
  const before = formOf({ ...schedule, name: "mainspring:http", data, pauseAfter: 3 } as unknown as Schedule);
  expect(changesOf(before, { ...before, body: "", pauseAfter: "" }).body).toEqual({ body: null, pauseAfter: null });
});

test("a rule that the form cannot show is kept", () => {
  const odd = { ...schedule, rule: { kind: "any", rules: [] } } as unknown as Schedule;
  expect(formOf(odd).kind).toBe("kept");
  expect(changesOf(formOf(odd), { ...formOf(odd), priority: "3" }).body).toEqual({ priority: 3 });
});

test("an error of the service is shown at the field that it means", () => {
  expect(fieldOf("repeat", BLANK)).toBe("cron");
  expect(fieldOf("repeat.timezone", BLANK)).toBe("timezone");
  expect(fieldOf("repeat", BLANK, "There is no time zone 'X'.")).toBe("timezone");
  expect(fieldOf("repeat", { ...BLANK, kind: "every" })).toBe("every");
  expect(fieldOf("data.to", BLANK)).toBe("data");
  expect(fieldOf("unknown", BLANK)).toBeNull();
});
