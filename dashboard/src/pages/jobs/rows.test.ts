import { expect, test } from "vitest";
import { DEFAULTS, readPrefs, withView } from "./prefs";
import { atLeast, moved, settle, toggled, toggledPage } from "./rows";

const job = (id: string, state = "pending") => ({ id, state });

test("new rows wait, known rows are renewed where they are, and lost ones stay", () => {
  const { rows, fresh } = settle([job("a"), job("b"), job("c")], [job("z"), job("c", "running"), job("a")]);
  expect(rows.map((row) => [row.job.id, row.job.state, row.gone])).toEqual([
    ["a", "pending", null],
    ["b", "pending", "unmatched"],
    ["c", "running", null],
  ]);
  expect(fresh).toBe(1);
});

test("a row that is missing on one of several pages may be on another: nothing says that it does not match", () => {
  const gone = (full: boolean, whole?: boolean) => settle([job("a")], [job("y")], { full, whole }).rows[0]?.gone;
  expect([gone(false), gone(true), gone(false, false)]).toEqual(["unmatched", "elsewhere", "elsewhere"]);
});

test("a full page of new rows says that there may be more", () => {
  expect(settle([job("a")], [job("y"), job("z")], { full: true })).toMatchObject({ fresh: 2, more: true });
  expect(settle([job("a")], [job("y"), job("a")], { full: true })).toMatchObject({ fresh: 1, more: false });
  expect(settle([job("a")], [job("y"), job("z")])).toMatchObject({ fresh: 2, more: false });
});

test("the current row moves within the page", () => {
  expect(moved(["a", "b"], null, 1)).toBe("a");
  expect(moved(["a", "b"], "a", 1)).toBe("b");
  expect(moved(["a", "b"], "b", 1)).toBe("b");
  expect(moved(["a", "b"], "gone", 1)).toBe("a");
  expect(moved([], null, 1)).toBeNull();
});

test("rows and pages are selected and given back", () => {
  expect([...toggled(new Set(["a"]), "b")]).toEqual(["a", "b"]);
  expect([...toggled(new Set(["a"]), "a")]).toEqual([]);
  expect([...toggledPage(new Set(["x", "a"]), ["a", "b"])]).toEqual(["x", "a", "b"]);
  expect([...toggledPage(new Set(["x", "a", "b"]), ["a", "b"])]).toEqual(["x"]);
});

test("a capped count is a round number that is not too large", () => {
  expect(atLeast(997, true)).toEqual({ count: 900, capped: true });
  expect(atLeast(1310, true)).toEqual({ count: 1000, capped: true });
  expect(atLeast(3, true)).toEqual({ count: 3, capped: true });
  expect(atLeast(997, false)).toEqual({ count: 997, capped: false });
});

test("stored preferences that do not fit spoil nothing", () => {
  for (const text of [null, "", "{", "7", "null", '{"columns":"x","views":[{"name":1}],"size":"9"}']) {
    expect(readPrefs(text)).toEqual(DEFAULTS);
  }
  expect(readPrefs('{"columns":["id","nonsense"],"density":"roomy","size":"100"}')).toMatchObject({
    columns: ["id"],
    density: "roomy",
    size: "100",
  });
  expect(withView([{ name: "a", query: { x: "1" } }], { name: "a", query: {} })).toEqual([{ name: "a", query: {} }]);
});
