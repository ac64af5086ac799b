import { expect, test } from "vitest";
import { drift, lagTone, place, type Worker } from "./words";

function worker(fields: Partial<Worker>): Worker {
  return {
    id: "w",
    host: "h",
    pid: 1,
    live: true,
    handlers: ["x"],
    versions: {},
    version: "1.0",
    release: null,
    ...fields,
  } as Worker;
}

test("workers that agree have no drift", () => {
  expect(drift([worker({}), worker({ id: "v" })])).toEqual([]);
});

test("different versions are told, of Mainspring and of handlers", () => {
  const found = drift([
    worker({}),
    worker({ version: "1.1", release: "shop 2", versions: { x: 2 } }),
    worker({ live: false, version: "0" }),
  ]);
  expect(found).toEqual([
    "Workers run different versions of Mainspring: 1.0, 1.1.",
    "Workers run different releases of the program: shop 2, without a name.",
    "The handler of x has the versions 1, 2.",
  ]);
});

test("a worker without the handler does not count", () => {
  expect(drift([worker({ handlers: ["y"] }), worker({ versions: { x: 2 } })])).toEqual([]);
});

test("a worker is named by its host and process", () => {
  expect(place(worker({}))).toBe("h:1");
  expect(place(worker({ host: "" }))).toBe("w");
});

test("a blocked loop is told", () => {
  expect([null, 10, 400, 5000].map(lagTone)).toEqual(["neutral", "neutral", "warn", "bad"]);
});
