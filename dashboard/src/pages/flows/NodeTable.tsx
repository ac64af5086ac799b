// The nodes of a flow as a table: the text of the graph, and the only way to read a large one.
import { Link } from "@tanstack/react-router";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { type Column, Table } from "../../ui/Table";
import { Duration, Time } from "../../ui/Time";
import { CountBar } from "./CountBar";
import { type Box, boxState, drawn, type Flow, total, waitWords } from "./graph";

type Props = { boxes: readonly Box[]; flow: Flow; selected: string | null; onSelect: (key: string | null) => void };

export function NodeTable({ boxes, flow, selected, onSelect }: Props) {
  const { lines } = drawn(flow, new Set());
  const after = new Map<string, string[]>();
  for (const line of lines) after.set(line.to, [...(after.get(line.to) ?? []), line.from]);
  const columns: Column<Box>[] = [
    { key: "state", title: "State", cell: (box) => <BoxBadge box={box} /> },
    {
      key: "node",
      title: "Node",
      cell: (box) => (
        <Button small look="quiet" className="node-name" onClick={() => onSelect(box.key)}>
          {box.name ?? box.title}
        </Button>
      ),
    },
    {
      key: "jobs",
      title: "Jobs below it",
      cell: (box) => (total(box.counts) ? <CountBar counts={box.counts} atLeast={box.atLeast} words /> : ""),
    },
    {
      key: "after",
      title: "After",
      cell: (box) => (
        <span className="flows-held">{(after.get(box.key) ?? []).filter((one) => one !== "/").join(", ")}</span>
      ),
      minor: true,
    },
    {
      key: "waits",
      title: "What it waits for",
      cell: (box) => <span className="flows-held">{waitWords(box, lines) || box.error || ""}</span>,
      minor: true,
    },
    {
      key: "started",
      title: "Started",
      cell: (box) => (box.startedAt ? <Time at={box.startedAt} /> : ""),
      minor: true,
    },
    { key: "lasted", title: "Duration", cell: (box) => <Lasted box={box} />, align: "right", minor: true },
    {
      key: "job",
      title: "Job",
      cell: (box) =>
        box.id && box.state !== null ? (
          <Link to="/jobs/$id" params={{ id: box.id }} aria-label={`The job of ${box.title}`}>
            job
          </Link>
        ) : (
          ""
        ),
      minor: true,
    },
  ];
  return <Table caption="Nodes" columns={columns} rows={boxes} id={(box) => box.key} current={selected} />;
}

export function BoxBadge({ box }: { box: Box }) {
  const state = boxState(box);
  if (state === "not stored yet") return <span className="muted">not stored yet</span>;
  return state === "skipped" ? <span className="muted">⊘ skipped</span> : <StateBadge state={state} />;
}

function Lasted({ box }: { box: Box }) {
  if (!box.startedAt) return null;
  if (!box.finishedAt) return <Duration since={box.startedAt} />;
  return <Duration ms={Date.parse(box.finishedAt) - Date.parse(box.startedAt)} />;
}
