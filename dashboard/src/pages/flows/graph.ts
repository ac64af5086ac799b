// A flow as boxes and links: nodes with their states and counts, parts of a path folded into it, and what holds what.
import type { Schemas } from "../../api/client";
import { count, plural } from "../../lib/text";

export type Flow = Schemas["FlowOut"];
export type Node = Schemas["NodeOut"];
export type Counts = Record<string, number>;

/** A flow of more nodes is shown as a table and a chart. */
export const MOST_BOXES = 300;
export const LIVE: readonly string[] = ["blocked", "pending", "running"];
const BAD: readonly string[] = ["failed", "expired"];
/** The order of states in a bar: what has ended first, what has not begun last. */
const ORDER = ["completed", "failed", "expired", "cancelled", "running", "pending", "blocked"];
const ENDED = ["completed", "failed", "expired", "cancelled"];

export type Box = {
  /** The name of the node, null for the root of a flow whose handler waits for children. */
  name: string | null;
  key: string;
  title: string;
  /** The name of its job, where it differs from the title. */
  job: string | null;
  id: string | null;
  state: string | null;
  counts: Counts;
  atLeast: boolean;
  holding: string | null;
  error: string | null;
  because: string | null;
  skipped: boolean;
  map: boolean;
  startedAt: string | null;
  finishedAt: string | null;
  /** How many nodes are below it, and whether they are folded into it. */
  below: number;
  folded: boolean;
};
export type Line = {
  from: string;
  to: string;
  /** The words on it, for a link that is no plain "after its success". */
  words: string;
  /** Whether it is what the node behind it waits for now. */
  holds: boolean;
};
export type Drawn = { boxes: Box[]; lines: Line[] };

const ROOT_KEY = "/";

/** The boxes and links of a flow; nodes below a folded one are counted in it. */
export function drawn(flow: Flow, folded: ReadonlySet<string>): Drawn {
  return flow.kind === "declared" && !(flow.edges.length === 0 && flow.nodes.every((node) => node.id === null))
    ? declared(flow)
    : waits(flow, folded);
}

function declared(flow: Flow): Drawn {
  const byName = new Map(flow.nodes.map((node) => [node.name, node]));
  const lines = flow.edges.map((edge) => ({
    from: edge.before,
    to: edge.after,
    words: edge.when === "success" ? "" : edge.when === "done" ? "in any case" : "on failure",
    holds: isLive(byName.get(edge.before)) && isHeld(byName.get(edge.after)),
  }));
  return { boxes: flow.nodes.map((node) => boxOf(node, node.name)), lines };
}

function isLive(node: Node | undefined): boolean {
  return !!node && (node.state === null || LIVE.includes(node.state));
}

/** Whether a node has not begun: it waits for others. */
function isHeld(node: Node | undefined): boolean {
  return !!node && (node.state === null || (node.state === "blocked" && !node.startedAt));
}

/** The waits of a handler: a tree of paths below its root. */
function waits(flow: Flow, folded: ReadonlySet<string>): Drawn {
  const known = new Set(flow.nodes.map((node) => node.name));
  const parent = (name: string) => ancestors(name).find((one) => known.has(one));
  const root: Box = { ...rootOf(flow), below: flow.nodes.length };
  const boxes = [root];
  const lines: Line[] = [];
  for (const node of flow.nodes) {
    if (ancestors(node.name).some((one) => folded.has(one) && known.has(one))) continue;
    const below = flow.nodes.filter((one) => one.name.startsWith(`${node.name}/`));
    const closed = folded.has(node.name) && below.length > 0;
    const above = parent(node.name);
    const all = closed ? [node, ...below] : [node];
    const box = boxOf(node, above === undefined ? node.name : node.name.slice(above.length + 1));
    boxes.push({
      ...box,
      counts: added(all.map((one) => one.counts)),
      atLeast: all.some((one) => one.atLeast),
      below: below.length,
      folded: closed,
    });
    const live = all.some((one) => LIVE.some((state) => (one.counts[state] ?? 0) > 0));
    lines.push({ from: above ?? ROOT_KEY, to: node.name, words: "", holds: live });
  }
  return { boxes, lines };
}

/** The paths above a path, the nearest first. */
function ancestors(name: string): string[] {
  const parts = name.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, parts.length - 1 - index).join("/"));
}

function rootOf(flow: Flow): Box {
  return {
    name: null,
    key: ROOT_KEY,
    title: flow.name,
    job: null,
    id: flow.id,
    state: flow.state,
    counts: {},
    atLeast: false,
    holding: null,
    error: flow.error ?? null,
    because: flow.because ?? null,
    skipped: false,
    map: false,
    startedAt: flow.startedAt ?? null,
    finishedAt: flow.finishedAt ?? null,
    below: 0,
    folded: false,
  };
}

function boxOf(node: Node, title: string): Box {
  return {
    name: node.name,
    key: node.name,
    title,
    job: node.job && node.job !== title ? node.job : null,
    id: node.id,
    state: node.state,
    counts: node.counts,
    atLeast: node.atLeast,
    holding: node.holding,
    error: node.error ?? null,
    because: node.because ?? null,
    skipped: node.skipped,
    map: node.map,
    startedAt: node.startedAt ?? null,
    finishedAt: node.finishedAt ?? null,
    below: 0,
    folded: false,
  };
}

/** The word for a box: its state, or the state that matters most among its jobs. */
export function boxState(box: Pick<Box, "state" | "counts" | "skipped">): string {
  if (box.skipped) return "skipped";
  if (box.state !== null) return box.state;
  const found = ["running", "pending", "blocked", "failed", "expired", "cancelled", "completed"];
  return found.find((state) => (box.counts[state] ?? 0) > 0) ?? "not stored yet";
}

export function added(all: readonly Counts[]): Counts {
  const sum: Counts = {};
  for (const counts of all) for (const [state, value] of Object.entries(counts)) sum[state] = (sum[state] ?? 0) + value;
  return sum;
}

export function total(counts: Counts): number {
  return Object.values(counts).reduce((sum, value) => sum + value, 0);
}

export type Segment = { state: string; value: number; percent: number };

/** The parts of a bar, in the order in which jobs go through states backwards. */
export function segments(counts: Counts): Segment[] {
  const whole = total(counts);
  const states = [...ORDER, ...Object.keys(counts).filter((state) => !ORDER.includes(state))];
  return states
    .map((state) => ({ state, value: counts[state] ?? 0, percent: whole ? ((counts[state] ?? 0) / whole) * 100 : 0 }))
    .filter((one) => one.value > 0);
}

/** "8 completed, 2 failed, 3 running". */
export function countWords(counts: Counts, atLeast = false): string {
  const found = segments(counts);
  if (found.length === 0) return "no jobs";
  return found.map((one) => `${count(one.value, atLeast)} ${one.state}`).join(", ");
}

/** "12 of 40 ended". */
export function endedWords(counts: Counts, atLeast = false): string {
  const ended = ENDED.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return `${count(ended)} of ${count(total(counts), atLeast)} ended`;
}

type Ended = { state: string; error?: string | null; cancelRequested?: boolean };

/** What a flow waits for, or how it ended, in one line; null if its counts do not tell. */
export function heldBy(flow: Ended & { nodes: readonly Node[] }): string | null {
  if (flow.state === "completed") return "";
  if (!LIVE.includes(flow.state)) return flow.error ?? "";
  if (flow.cancelRequested) return "It is being cancelled.";
  const going = flow.nodes.filter((node) => isGoing(node, flow.nodes));
  if (going.length === 0) return null;
  const told = going.slice(0, 2).map((node) => `${node.name}${leftOf(node)}`);
  const more = going.length > 2 ? ` and ${plural(going.length - 2, "more node", "more nodes")}` : "";
  return `It waits for ${told.join("; ")}${more}.`;
}

/** Whether a node is what a flow waits for: it goes on, and waits for no other node that does. */
function isGoing(node: Node, nodes: readonly Node[]): boolean {
  if (node.state === null) return node.id === null && LIVE.some((state) => (node.counts[state] ?? 0) > 0);
  return LIVE.includes(node.state) && !nodes.some((one) => node.after.includes(one.name) && isLive(one));
}

function leftOf(node: Node): string {
  const left = LIVE.reduce((sum, state) => sum + (node.counts[state] ?? 0), 0);
  const bad = BAD.reduce((sum, state) => sum + (node.counts[state] ?? 0), 0);
  const told = left ? [`${count(left, node.atLeast)} of ${count(total(node.counts), node.atLeast)} left`] : [];
  if (!left && node.state) told.push(node.holding?.match(/^It (waits for .*)\.$/)?.[1] ?? node.state);
  if (bad) told.push(`${count(bad)} failed`);
  return told.length ? ` (${told.join(", ")})` : "";
}

/** Whether the failed jobs of a flow can be run again: it has failed, or goes on with failed jobs. */
export function canRetry(flow: Flow): boolean {
  if (flow.state === "failed") return true;
  return LIVE.includes(flow.state) && BAD.some((state) => (flow.counts[state] ?? 0) > 0);
}

/** The numbers of jobs that a retry runs again, in words. */
export function retryWords(counts: Counts): string {
  const bad = BAD.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return bad === 0 ? "The flow itself runs again" : `${plural(bad, "job")} that failed or expired run again`;
}

const ROOMY = 40;

/** The nodes that are folded when a page opens: none of a small flow, and all but the first level of a large one. */
export function startFolded(flow: Flow): ReadonlySet<string> {
  if (flow.nodes.length <= ROOMY) return NOTHING;
  return new Set(flow.nodes.filter((node) => !node.name.includes("/")).map((node) => node.name));
}

const NOTHING: ReadonlySet<string> = new Set();

/** What a box waits for, in words, by the links that hold it back; "" if it does not wait. */
export function waitWords(box: Box, lines: readonly Line[]): string {
  if (box.holding) return box.holding;
  if (box.name === null || box.state !== null) return "";
  const left = LIVE.reduce((sum, state) => sum + (box.counts[state] ?? 0), 0);
  const holds = left > 0 && lines.some((line) => line.to === box.key && line.holds);
  return holds ? `It holds back what is before it: ${count(left, box.atLeast)} of its jobs are left.` : "";
}
