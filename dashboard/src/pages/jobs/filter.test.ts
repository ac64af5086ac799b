import { expect, test } from "vitest";
import {
  completions,
  filterNames,
  format,
  fromParameters,
  inWords,
  isEmpty,
  parse,
  parts,
  toBody,
  toParameters,
  toQuery,
  withPart,
  without,
  words,
} from "./filter";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const TYPED =
  'state:failed name:send queue:mail tag:x error:"Card \\"Declined\\" now" created:>1h created:<10m data.customer.id:42';

test("a typed filter becomes parameters of the API", () => {
  const { filter, problems } = parse(TYPED);
  expect(problems).toEqual([]);
  expect(toQuery(filter, NOW)).toEqual({
    state: "failed",
    name: "send",
    queue: "mail",
    tag: "x",
    error: 'Card "Declined" now',
    since: "2026-03-01T11:00:00.000Z",
    until: "2026-03-01T11:50:00.000Z",
    "data.customer.id": "42",
  });
  expect(toBody(filter, NOW)["data"]).toEqual({ "customer.id": "42" });
});

test("what is typed survives the address, and is written as it was typed", () => {
  const { filter } = parse(TYPED);
  expect(fromParameters(toParameters(filter)).filter).toEqual(filter);
  expect(format(filter)).toBe(TYPED);
  expect(parse(format(filter)).filter).toEqual(filter);
});

test("hostile values are values and nothing else", () => {
  for (const value of ['"><script>alert(1)</script>', "a:b", "\\", 'x" y', "data.a:1", "=1+1", "état 🚀"]) {
    const filter = withPart({ data: {} }, "error", value);
    expect(parse(format(filter)).filter).toEqual({ error: value, data: {} });
  }
  expect(parse("constructor:y toString:z").problems).toHaveLength(2);
  expect(toQuery(parse("data.__proto__:x").filter, NOW)).toEqual({ ["data.__proto__"]: "x" });
});

test("the names of the API are understood in links", () => {
  const { filter } = fromParameters({
    scheduleId: "s",
    dedupeKey: "k",
    since: "2026-01-01T00:00:00Z",
    page: "7",
    after: "c",
  });
  expect(filter).toEqual({ schedule: "s", key: "k", created: ">2026-01-01T00:00:00Z", data: {} });
  expect(toQuery(filter, NOW)).toEqual({ scheduleId: "s", dedupeKey: "k", since: "2026-01-01T00:00:00.000Z" });
  expect(filterNames({ scheduleId: "s", "data.a": "1", after: "c", q: "x" })).toEqual(["scheduleId", "data.a", "q"]);
});

test("what cannot be read is told and left out", () => {
  const { filter, problems } = parse("state:sleeping created:yesterday nonsense:1 name: data.:1 queue:a");
  expect(filter).toEqual({ queue: "a", data: {} });
  expect(problems).toHaveLength(5);
});

test("a word alone is a name", () => {
  expect(parse("send-mail").filter.name).toBe("send-mail");
});

test("times are relative to the server's clock, behind or ahead", () => {
  expect(toQuery(parse("run:<+1h").filter, NOW)).toEqual({ runUntil: "2026-03-01T13:00:00.000Z" });
  expect(toQuery(parse("finished:>=2026-02-01").filter, NOW)).toEqual({ finishedSince: "2026-02-01T00:00:00.000Z" });
  expect(inWords("created", ">1h")).toBe("created in the last 1h");
  expect(inWords("created", "<2d")).toBe("created more than 2d ago");
  expect(inWords("run", "<+1h")).toBe("due within 1h");
  expect(inWords("name", "a")).toBe("name: a");
});

test("conditions are removed one by one", () => {
  const { filter } = parse("created:>1h created:<10m name:a data.b:1");
  expect(parts(filter)).toHaveLength(4);
  expect(without(filter, "created", ">1h").created).toBe("<10m");
  expect(without(filter, "data.b", "1").data).toEqual({});
  expect(isEmpty(without({ data: { b: "1" } }, "data.b", "1"))).toBe(true);
});

test("fields and values are completed", () => {
  const known = { names: ["send", "resend", 'sp "aced'], queues: [], tags: [], errors: [] };
  expect(completions({ key: null, value: "st" }, known).map((one) => one.text)).toEqual(["state:"]);
  expect(completions(undefined, known).length).toBeGreaterThan(10);
  expect(completions({ key: "name", value: "send" }, known).map((one) => one.text)).toEqual(["name:resend"]);
  expect(completions({ key: "name", value: "sp" }, known)[0]?.text).toBe('name:"sp \\"aced"');
  expect(words('a name:"b c').at(-1)).toMatchObject({ key: "name", value: "b c" });
});
