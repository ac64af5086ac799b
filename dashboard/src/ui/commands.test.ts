import { expect, test } from "vitest";
import { curl, pythonLiteral, quoted } from "./commands";

test("a quote in a value cannot end the shell's word", () => {
  expect(quoted("it's; rm -rf /")).toBe(`'it'\\''s; rm -rf /'`);
});

test("a body goes out as JSON, and the key stays in the environment", () => {
  const text = curl("http://localhost:3000", { method: "POST", path: "/api/jobs", body: { name: "a'b" } });
  expect(text).toContain("-X POST http://localhost:3000/api/jobs");
  expect(text).toContain(`-d '{"name":"a'\\''b"}'`);
  expect(text).toContain("$MAINSPRING_API_KEY");
});

test("values become Python", () => {
  expect(pythonLiteral({ a: [1, true, null, 'q"'] })).toBe('{"a": [1, True, None, "q\\""]}');
});
