// One flow: what it waits for, its nodes as a graph, a table or a chart, and what can be done with it.
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useLive } from "../../live/live";
import { Badge, StateBadge } from "../../ui/Badge";
import { Tabs } from "../../ui/Field";
import { JsonTree } from "../../ui/JsonTree";
import { Loaded, Panel } from "../../ui/Panel";
import { Duration, Time } from "../../ui/Time";
import { jobKey, useExplanation } from "../job/job";
import { CountBar } from "./CountBar";
import { FlowActions } from "./FlowActions";
import { flowKey, useFlow } from "./flows";
import { Gantt } from "./Gantt";
import { Graph } from "./Graph";
import { countWords, drawn, type Flow, heldBy, LIVE, MOST_BOXES, startFolded } from "./graph";
import { NodePanel } from "./NodePanel";
import { NodeTable } from "./NodeTable";
import { Signals } from "./Signals";
import "./flows.css";

type View = "graph" | "table" | "time";

export default function FlowPage() {
  const { id = "" } = useParams({ strict: false }) as { id?: string };
  const query = useFlow(id);
  useLive({ tree: id, kind: "jobs" }, [flowKey(id), jobKey(id)]);
  return (
    <>
      {!query.data && <PageHead title="Flow" name={`Flow ${id}`} />}
      <Loaded query={query} rows={12}>
        {(flow) => <Whole key={flow.id} flow={flow} />}
      </Loaded>
    </>
  );
}

function Whole({ flow }: { flow: Flow }) {
  return (
    <>
      <PageHead
        name={`${flow.name} · flow`}
        title={
          <span className="row">
            <StateBadge state={flow.state} />
            <span className="wrap">{flow.name || "(no name)"}</span>
          </span>
        }
      >
        <FlowActions flow={flow} />
      </PageHead>
      <div className="stack">
        <Story flow={flow} />
        <Signals flow={flow} />
        <Nodes flow={flow} />
        {Object.keys(flow.data).length > 0 && (
          <Panel title="Data">
            <JsonTree value={flow.data} name="data" />
          </Panel>
        )}
      </div>
    </>
  );
}

/** The one sentence that matters, and how far the flow is. */
function Story({ flow }: { flow: Flow }) {
  const live = LIVE.includes(flow.state);
  const told = heldBy(flow);
  const explained = useExplanation(flow.id, live && (told === null || flow.kind !== "declared"));
  const sentence = (flow.kind === "declared" && told) || explained.data?.text || told;
  const atLeast = !flow.complete || flow.nodes.some((node) => node.atLeast);
  return (
    <div className={`flow-story flow-story-${flow.state}`} role="status" aria-label="What matters">
      <p className="wrap flow-sentence">
        {flow.state === "completed" ? "The whole flow has completed." : sentence || "It waits to be started."}
        {flow.aborted && " The process that stored its jobs died before the last one."}
      </p>
      <div className="row">
        <CountBar counts={flow.counts} atLeast={atLeast} />
        <span className="wrap">{countWords(flow.counts, atLeast)}</span>
        {flow.cancelRequested && live && <Badge tone="warn">being cancelled</Badge>}
      </div>
      {flow.state === "cancelled" && (
        <p className="wrap">A flow that was cancelled cannot be retried. Start a new flow to run its work again.</p>
      )}
      <p className="muted">
        Created <Time at={flow.createdAt} />
        {flow.finishedAt ? (
          <>
            , ended <Time at={flow.finishedAt} /> after{" "}
            <Duration ms={Date.parse(flow.finishedAt) - Date.parse(flow.createdAt)} />
          </>
        ) : (
          <>
            , going on for <Duration since={flow.createdAt} />
          </>
        )}
        . Open{" "}
        <Link to="/jobs/$id" params={{ id: flow.id }}>
          its root job
        </Link>{" "}
        or{" "}
        <Link to="/jobs" search={{ flow: flow.id }}>
          all its jobs
        </Link>
        .
        {flow.because && (
          <>
            {" "}
            It was decided by{" "}
            <Link to="/jobs/$id" params={{ id: flow.because }}>
              the end of another job
            </Link>
            .
          </>
        )}
      </p>
    </div>
  );
}

function Nodes({ flow }: { flow: Flow }) {
  const [search, setSearch] = useParameters();
  const [chosen, setFolded] = useState<ReadonlySet<string> | null>(null);
  const folded = chosen ?? startFolded(flow);
  const shown = useMemo(() => drawn(flow, folded), [flow, folded]);
  const whole = useMemo(() => drawn(flow, new Set()), [flow]);
  const large = shown.boxes.length > MOST_BOXES;
  const asked = search["view"] as View | undefined;
  const view: View = asked === "table" || asked === "time" ? asked : large ? "table" : "graph";
  const selected = whole.boxes.find((box) => box.key === search["node"]) ?? null;
  const select = (key: string | null) => setSearch({ node: key }, { replace: true });
  const fold = (name: string) => {
    const next = new Set(folded);
    if (!next.delete(name)) next.add(name);
    setFolded(next);
  };
  const views: [View, React.ReactNode][] = [
    ["table", "Table"],
    ["time", "Over time"],
  ];
  if (!large) views.unshift(["graph", "Graph"]);
  return (
    <div className={selected ? "flow-nodes flow-nodes-two" : "flow-nodes"}>
      <Panel
        flush
        title="Nodes"
        actions={
          <Tabs
            label="View"
            value={view}
            options={views}
            onChange={(next) => setSearch({ view: next === (large ? "table" : "graph") ? null : next })}
          />
        }
      >
        {large && view === "table" && (
          <p className="flow-note muted">
            A graph of {whole.boxes.length.toLocaleString("en-GB")} nodes would be unreadable, so they are listed as a
            table.
          </p>
        )}
        {whole.boxes.length === 0 ? (
          <p className="flow-note muted">It has no nodes that your key may see.</p>
        ) : view === "graph" ? (
          <Graph shown={shown} selected={selected?.key ?? null} onSelect={select} onFold={fold} />
        ) : view === "table" ? (
          <NodeTable boxes={whole.boxes} flow={flow} selected={selected?.key ?? null} onSelect={select} />
        ) : (
          <Gantt flow={flow} />
        )}
        {!flow.complete && (
          <p className="flow-note muted" role="status">
            Not all jobs were counted: numbers with a plus are lower bounds.
          </p>
        )}
      </Panel>
      {selected && <NodePanel flow={flow} box={selected} lines={whole.lines} onClose={() => select(null)} />}
    </div>
  );
}
