// Where the nodes of a graph are drawn: in layers from left to right, each node behind all that it waits for. Pure.

export type Link = { from: string; to: string };
export type Point = { x: number; y: number };
export type Laid = {
  width: number;
  height: number;
  /** The upper left corners of the nodes by name. */
  places: Map<string, Point & { layer: number }>;
  /** The points that a link runs through, from the right side of one node to the left side of the other. */
  routes: { from: string; to: string; points: Point[] }[];
};

export const NODE = { width: 196, height: 58 };
const GAP = { x: 64, y: 18 };
/** A link over several layers keeps free lanes in them, up to this many; with more, it is drawn straight. */
const MOST_LANES = 2000;
const SWEEPS = 8;

/** A node, or the place in a layer that a long link runs through. */
type Item = { name: string | null; layer: number; left: Item[]; right: Item[]; y: number };

/** Lay out a graph. Links of unknown nodes are left out; a cycle, which no flow has, is cut somewhere. */
export function layOut(names: readonly string[], links: readonly Link[]): Laid {
  const known = new Set(names);
  const wanted = links.filter((link) => link.from !== link.to && known.has(link.from) && known.has(link.to));
  const layer = layersOf(names, wanted);
  const drawn = wanted.filter((link) => (layer.get(link.from) ?? 0) < (layer.get(link.to) ?? 0));
  const items = new Map<string, Item>();
  const layers: Item[][] = [];
  const put = (name: string | null, at: number): Item => {
    const item: Item = { name, layer: at, left: [], right: [], y: 0 };
    (layers[at] ??= []).push(item);
    return item;
  };
  for (const name of names) items.set(name, put(name, layer.get(name) ?? 0));
  const chains = drawn.map((link) => ({ link, lanes: [] as Item[] }));
  let lanes = 0;
  for (const chain of chains) {
    let before = items.get(chain.link.from) as Item;
    const last = items.get(chain.link.to) as Item;
    lanes += last.layer - before.layer - 1;
    for (let at = before.layer + 1; at < last.layer && lanes <= MOST_LANES; at += 1) {
      const lane = put(null, at);
      join(before, lane);
      chain.lanes.push(lane);
      before = lane;
    }
    join(before, last);
  }
  order(layers);
  settle(layers);
  const all = layers.flat();
  const top = Math.min(0, ...all.map((item) => item.y));
  for (const item of all) item.y -= top;
  const places = new Map<string, Point & { layer: number }>();
  for (const [name, item] of items) places.set(name, { x: column(item), y: item.y, layer: item.layer });
  return {
    width: Math.max(1, layers.length) * (NODE.width + GAP.x) - GAP.x,
    height: Math.max(NODE.height, ...all.map((item) => item.y + NODE.height)),
    places,
    routes: chains.map(({ link, lanes: via }) => ({
      ...link,
      points: route(items.get(link.from) as Item, via, items.get(link.to) as Item),
    })),
  };
}

/** The layer of each node: one more than the highest of those before it. */
export function layersOf(names: readonly string[], links: readonly Link[]): Map<string, number> {
  const after = new Map<string, string[]>();
  const missing = new Map<string, number>(names.map((name) => [name, 0]));
  for (const { from, to } of links) {
    after.set(from, [...(after.get(from) ?? []), to]);
    missing.set(to, (missing.get(to) ?? 0) + 1);
  }
  const layer = new Map<string, number>();
  const ready = names.filter((name) => missing.get(name) === 0);
  for (const name of ready) layer.set(name, layer.get(name) ?? 0);
  for (let at = 0; at < ready.length; at += 1) {
    const name = ready[at] as string;
    for (const next of after.get(name) ?? []) {
      layer.set(next, Math.max(layer.get(next) ?? 0, (layer.get(name) ?? 0) + 1));
      const left = (missing.get(next) ?? 0) - 1;
      missing.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
  for (const name of names) if (!layer.has(name)) layer.set(name, 0);
  return layer;
}

function join(left: Item, right: Item): void {
  left.right.push(right);
  right.left.push(left);
}

/** Order each layer by the places of the neighbours, forwards and backwards, so that few links cross. */
function order(layers: Item[][]): void {
  const number = (row: Item[]) => {
    for (const [index, item] of row.entries()) item.y = index;
  };
  for (const row of layers) number(row);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forwards = sweep % 2 === 0;
    for (const row of forwards ? layers : layers.toReversed()) {
      const wish = new Map(row.map((item) => [item, middleOf(forwards ? item.left : item.right) ?? item.y]));
      row.sort((one, other) => (wish.get(one) ?? 0) - (wish.get(other) ?? 0));
      number(row);
    }
  }
}

/** The mean place of items; undefined if there are none. */
function middleOf(items: readonly Item[]): number | undefined {
  return items.length === 0 ? undefined : items.reduce((sum, item) => sum + item.y, 0) / items.length;
}

/** Move each node towards the middle of its neighbours, without changing the order in its layer. */
function settle(layers: Item[][]): void {
  const step = NODE.height + GAP.y;
  for (const row of layers) for (const [index, item] of row.entries()) item.y = index * step;
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forwards = sweep % 2 === 0;
    for (const row of forwards ? layers : layers.toReversed()) {
      const wishes = row.map((item) => middleOf(forwards ? item.left : item.right) ?? item.y);
      for (const [index, y] of apart(wishes, step).entries()) (row[index] as Item).y = y;
    }
  }
}

/** Places as near as possible to the wished ones, in their order, each at least `step` behind the one before. */
export function apart(wishes: readonly number[], step: number): number[] {
  const blocks: { sum: number; size: number }[] = [];
  for (const [index, wish] of wishes.entries()) {
    blocks.push({ sum: wish - index * step, size: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1] as { sum: number; size: number };
      const before = blocks[blocks.length - 2] as { sum: number; size: number };
      if (before.sum / before.size <= last.sum / last.size) break;
      blocks.pop();
      before.sum += last.sum;
      before.size += last.size;
    }
  }
  return blocks
    .flatMap((block) => Array<number>(block.size).fill(block.sum / block.size))
    .map((y, at) => y + at * step);
}

function column(item: Item): number {
  return item.layer * (NODE.width + GAP.x);
}

function route(from: Item, via: readonly Item[], to: Item): Point[] {
  const middle = (item: Item) => item.y + NODE.height / 2;
  const lanes = via.flatMap((item) => [
    { x: column(item), y: middle(item) },
    { x: column(item) + NODE.width, y: middle(item) },
  ]);
  return [{ x: column(from) + NODE.width, y: middle(from) }, ...lanes, { x: column(to), y: middle(to) }];
}

/** The points as a path of SVG: curves between layers, straight through them. */
export function pathOf(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let at = first;
  let path = `M${first.x} ${first.y}`;
  for (const point of rest) {
    const half = (at.x + point.x) / 2;
    path += at.y === point.y ? `H${point.x}` : `C${half} ${at.y} ${half} ${point.y} ${point.x} ${point.y}`;
    at = point;
  }
  return path;
}

type Placed = ReadonlyMap<string, Point & { layer: number }>;

/** The node that an arrow key leads to: the next one above or below in the layer, or the nearest of the next layer. */
export function neighbour(places: Placed, name: string, key: string): string | null {
  const from = places.get(name);
  if (!from) return null;
  const step = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const sideways = key === "ArrowRight" || key === "ArrowLeft";
  const reached = [...places].filter(([, to]) =>
    sideways ? to.layer === from.layer + step : to.layer === from.layer && (to.y - from.y) * step > 0,
  );
  const nearest = reached.toSorted(([, one], [, other]) => Math.abs(one.y - from.y) - Math.abs(other.y - from.y));
  return nearest[0]?.[0] ?? null;
}
