import { expect, test } from "vitest";
import { ExactNumber, parseExact } from "../../lib/json";
import { blank, choices, fieldName, kindOf, misfits, type Schema, shownText, typedValue, withValue } from "./schema";

const schema: Schema = {
  type: "object",
  properties: {
    amount: { type: "integer", minimum: 1 },
    to: { $ref: "#/$defs/Address" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    tags: { type: "array", items: { type: "string" } },
    colour: { enum: ["red", "blue"], type: "string" },
    when: { type: "string", format: "date-time" },
    odd: { type: "array", items: { type: "string" }, "x-any": true },
    tree: { $ref: "#/$defs/Tree" },
  },
  required: ["amount", "to"],
  additionalProperties: false,
  $defs: {
    Address: {
      type: "object",
      properties: { city: { type: "string", minLength: 2 }, zip: { type: "integer" } },
      required: ["city"],
    },
    Tree: { type: "object", properties: { children: { type: "array", items: { $ref: "#/$defs/Tree" } } } },
  },
};
const good = { amount: 5, to: { city: "Oslo" } };
const names = (data: unknown) => misfits(schema, data).map((one) => fieldName(one.path));

test("data that the handler takes has no misfits", () => {
  expect(names(good)).toEqual([]);
  expect(names({ ...good, amount: "5", when: 1700000000, odd: "a,b", note: null })).toEqual([]);
  expect(names({ ...good, amount: new ExactNumber("9007199254740993") })).toEqual([]);
});

test("each misfit names its place", () => {
  expect(names({ to: { city: "x", zip: "y" } })).toEqual(["data.amount", "data.to.city", "data.to.zip"]);
  expect(names({ ...good, amonut: 1 })).toEqual(["data.amonut"]);
  expect(names({ ...good, colour: "green", tags: ["a", 5] })).toEqual(["data.colour", "data.tags[1]"]);
  expect(names({ ...good, tree: { children: [{ children: 5 }] } })).toEqual(["data.tree.children[0].children"]);
  expect(names({ ...good, amount: 0 })).toEqual(["data.amount"]);
  expect(names({ ...good, note: 5 })).toEqual(["data.note"]);
});

test("a schema of another program's making refuses nothing that it does not say", () => {
  for (const odd of [{}, { type: 5 }, { anyOf: [] }, { $ref: "#/x" }, { type: "object", properties: 3 }])
    expect(misfits(odd as Schema, { a: 1 })).toEqual([]);
});

test("each part gets a control", () => {
  const kinds = Object.entries(schema["properties"] as Record<string, Schema>).map(([name, part]) => [
    name,
    kindOf(part, schema),
  ]);
  expect(Object.fromEntries(kinds)).toEqual({
    amount: "whole",
    to: "object",
    note: "text",
    tags: "lines",
    colour: "choice",
    when: "time",
    odd: "lines",
    tree: "object",
  });
  expect(choices({ enum: ["red", "blue"] }, schema)).toEqual(["red", "blue"]);
});

test("a form begins with no number, text or choice that was never given", () => {
  expect(blank(schema)).toEqual({ to: {} });
  const other = { type: "object", properties: { on: { type: "boolean" }, tags: { type: "array" } } };
  expect(blank({ ...other, required: ["on", "tags", "odd"] })).toEqual({ tags: [] });
  expect(blank({ properties: { kind: { const: "a" } }, required: ["kind"] })).toEqual({ kind: "a" });
  expect(blank({ properties: { kind: { enum: ["a", "b"] } }, required: ["kind"] })).toEqual({});
});

test("what is typed becomes a value, and large numbers keep their digits", () => {
  expect(typedValue("whole", " 12 ")).toBe(12);
  expect(typedValue("whole", "many")).toBe("many");
  expect(String(typedValue("whole", "12345678901234567890"))).toBe("12345678901234567890");
  expect(typedValue("lines", "a\nb\n")).toEqual(["a", "b"]);
  expect(shownText("lines", ["a", "b"])).toBe("a\nb");
  expect(shownText("whole", parseExact("12345678901234567890"))).toBe("12345678901234567890");
});

test("a value is changed at its place, and removed", () => {
  expect(withValue(good, ["to", "zip"], 1)).toEqual({ amount: 5, to: { city: "Oslo", zip: 1 } });
  expect(withValue(good, ["amount"], undefined)).toEqual({ to: { city: "Oslo" } });
  expect(good).toEqual({ amount: 5, to: { city: "Oslo" } });
});
