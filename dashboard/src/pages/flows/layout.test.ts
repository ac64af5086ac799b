import { expect, test } from "vitest";
import { apart, layersOf, layOut, neighbour, NODE, pathOf } from "./layout";

const link = (text: string) => {
  const [from = "", to = ""] = text.split(">");
  return { from, to };
};

test("a node is behind all that it waits for", () => {
  const links = ["a>b", "b>d", "a>c", "c>d", "a>d"].map(link);
  expect([...layersOf(["d", "c", "b", "a"], links)].toSorted()).toEqual([
    ["a", 0],
    ["b", 1],
    ["c", 1],
    ["d", 2],
  ]);
});

test("no two nodes overlap, and links run from left to right", () => {
  const names = Array.from({ length: 120 }, (_, index) => `n${index}`);
  const links = names.slice(1).map((name, index) => ({ from: `n${Math.floor(index / 3)}`, to: name }));
  const { places, routes, width, height } = layOut(names, [...links, { from: "n0", to: "n119" }]);
  const boxes = [...places.values()];
  for (const [index, one] of boxes.entries())
    for (const other of boxes.slice(index + 1))
      expect(one.x !== other.x || Math.abs(one.y - other.y) >= NODE.height).toBe(true);
  for (const route of routes) {
    const xs = route.points.map((point) => point.x);
    expect(xs).toEqual(xs.toSorted((one, other) => one - other));
  }
  expect(Math.min(...boxes.map((box) => box.y))).toBeGreaterThanOrEqual(0);
  expect(Math.max(...boxes.map((box) => box.y + NODE.height))).toBeLessThanOrEqual(height);
  expect(Math.max(...boxes.map((box) => box.x + NODE.width))).toBe(width);
});

test("a long link runs through no node between its ends", () => {
  const { places, routes } = layOut(["a", "b", "c"], ["a>b", "b>c", "a>c"].map(link));
  const long = routes.find((route) => route.from === "a" && route.to === "c");
  const lane = long?.points[1];
  const between = places.get("b");
  expect(long?.points).toHaveLength(4);
  expect(Math.abs((lane?.y ?? 0) - ((between?.y ?? 0) + NODE.height / 2))).toBeGreaterThanOrEqual(NODE.height);
});

test("links that would cross are put in order", () => {
  const { places } = layOut(["a", "b", "x", "y"], ["a>y", "b>x"].map(link));
  expect((places.get("a")?.y ?? 0) < (places.get("b")?.y ?? 0)).toBe(
    (places.get("y")?.y ?? 0) < (places.get("x")?.y ?? 0),
  );
});

test("a cycle, a link to itself and a link of nothing break no layout", () => {
  const { places, routes } = layOut(["a", "b", "c"], ["a>b", "b>a", "c>c", "c>nothing"].map(link));
  expect(places.size).toBe(3);
  expect(routes).toEqual([]);
  expect(layOut([], []).width).toBeGreaterThan(0);
});

test("places keep their distance and stay near the wished ones", () => {
  expect(apart([0, 0, 100], 10)).toEqual([-5, 5, 100]);
  expect(apart([30, 10], 10)).toEqual([15, 25]);
});

test("three hundred nodes with many links are laid out at once", () => {
  const names = Array.from({ length: 300 }, (_, index) => `${index}`);
  const links = names.flatMap((to, index) =>
    [1, 7, 40, 90].filter((back) => index >= back).map((back) => ({ from: `${index - back}`, to })),
  );
  const before = performance.now();
  expect(layOut(names, links).places.size).toBe(300);
  expect(performance.now() - before).toBeLessThan(2000);
});

test("a path has a curve between layers and a line within", () => {
  expect(
    pathOf([
      { x: 0, y: 0 },
      { x: 10, y: 4 },
      { x: 20, y: 4 },
    ]),
  ).toBe("M0 0C5 0 5 4 10 4H20");
  expect(pathOf([])).toBe("");
});

test("arrow keys lead from node to node", () => {
  const { places } = layOut(["a", "b", "c", "d"], ["a>b", "a>c", "b>d", "c>d"].map(link));
  const [above, below] = (places.get("b")?.y ?? 0) < (places.get("c")?.y ?? 0) ? ["b", "c"] : ["c", "b"];
  expect(neighbour(places, above, "ArrowDown")).toBe(below);
  expect(neighbour(places, below, "ArrowUp")).toBe(above);
  expect(neighbour(places, above, "ArrowUp")).toBeNull();
  expect(["b", "c"]).toContain(neighbour(places, "a", "ArrowRight"));
  expect(neighbour(places, "d", "ArrowRight")).toBeNull();
  expect(neighbour(places, "nothing", "ArrowLeft")).toBeNull();
});
