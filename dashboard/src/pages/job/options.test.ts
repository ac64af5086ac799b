import { expect, test } from "vitest";
import { ExactNumber } from "../../lib/json";
import { instantOf, localOf, NO_OPTIONS, optionErrors, optionsBody, pythonCall } from "./options";

test("only what was given becomes a field of the body", () => {
  expect(optionsBody(NO_OPTIONS)).toEqual({});
  expect(
    optionsBody({ ...NO_OPTIONS, when: "delay", delay: " 5m ", at: "2031-01-01T10:00", priority: "3", tags: "a, ,b" }),
  ).toEqual({ delay: "5m", priority: 3, tags: ["a", "b"] });
});

test("a local time becomes an instant and comes back", () => {
  const local = "2031-01-01T10:00:00";
  expect(localOf(instantOf(local))).toBe(local);
  expect(instantOf("soon")).toBeUndefined();
  expect(localOf(null)).toBe("");
});

test("errors are told while one types", () => {
  expect(optionErrors({ ...NO_OPTIONS, when: "delay", delay: "5" })).toHaveProperty("delay");
  expect(optionErrors({ ...NO_OPTIONS, when: "delay", delay: "1h30m" })).toEqual({});
  expect(optionErrors({ ...NO_OPTIONS, when: "at" })).toHaveProperty("at");
  expect(optionErrors({ ...NO_OPTIONS, priority: "11" })).toHaveProperty("priority");
});

test("the call of the library keeps all digits", () => {
  const text = pythonCall(
    "charge",
    { id: new ExactNumber("9007199254740993"), ok: true },
    { runAt: "2031-01-01T00:00:00Z" },
  );
  expect(text).toContain('{"id": 9007199254740993, "ok": True}');
  expect(text).toContain('run_at=datetime.fromisoformat("2031-01-01T00:00:00Z")');
});
