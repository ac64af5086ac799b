// The flows, the newest first: how far each is, and what holds it back.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { PageHead } from "../../app/PageHead";
import { prefix } from "../../api/client";
import { useParameters } from "../../app/search";
import { useLive } from "../../live/live";
import { Badge, StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { curl, pythonLiteral } from "../../ui/commands";
import { Tabs, TextField } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { colour, glyph } from "../../ui/states";
import { type Column, Table } from "../../ui/Table";
import { Duration, Time } from "../../ui/Time";
import { useExplanation } from "../job/job";
import { CountBar } from "./CountBar";
import { LIST_KEY, type Listed, type ListFilter, useFlows, useRow } from "./flows";
import { heldBy, LIVE } from "./graph";
import "./flows.css";

const STATES = ["blocked", "running", "pending", "failed", "completed", "cancelled", "expired"] as const;

const COLUMNS: Column<Listed>[] = [
  { key: "state", title: "State", cell: (flow) => <StateBadge state={flow.state} /> },
  { key: "name", title: "Flow", cell: (flow) => <Name flow={flow} />, width: "22%" },
  { key: "progress", title: "Jobs", cell: (flow) => <Progress flow={flow} />, width: "190px" },
  { key: "held", title: "What holds it back", cell: (flow) => <Held flow={flow} />, minor: true },
  { key: "created", title: "Created", cell: (flow) => <Created flow={flow} />, minor: true },
  { key: "duration", title: "Duration", cell: (flow) => <Lasted flow={flow} />, align: "right", minor: true },
];

export default function FlowsPage() {
  const [search, setSearch] = useParameters();
  const filter: ListFilter = { state: known(search["state"]), name: search["name"] };
  const query = useFlows(filter);
  useLive({ kind: "jobs" }, [LIST_KEY]);
  const filtered = filter.state !== undefined || filter.name !== undefined;
  return (
    <div className="stack flows">
      <PageHead title="Flows">
        <CallButton calls={{ path: listPath(filter), python: listPython(filter) }} />
      </PageHead>
      <NameFilter key={filter.name ?? ""} name={filter.name} onChange={(name) => setSearch({ name })} />
      <Tabs
        label="States"
        value={filter.state ?? "all"}
        options={[
          ["all", "All"],
          ...STATES.map((state): [string, React.ReactNode] => [state, <Tab key={state} state={state} />]),
        ]}
        onChange={(state) => setSearch({ state: state === "all" ? null : state })}
      />
      <Panel flush>
        <Loaded query={query} rows={6}>
          {(data) => (
            <Table
              caption="Flows"
              columns={COLUMNS}
              rows={data.pages.flatMap((page) => page.data)}
              id={(flow) => flow.id}
              empty={
                query.hasNextPage ? (
                  <Empty title="Nothing found so far">
                    One page searches only a part of the flows. Search further.
                  </Empty>
                ) : filtered ? (
                  <Empty title="No flow matches">
                    <Button onClick={() => setSearch({ state: null, name: null })}>Show all flows</Button>
                  </Empty>
                ) : (
                  <NoFlow />
                )
              }
            />
          )}
        </Loaded>
      </Panel>
      {query.hasNextPage && (
        <div className="row">
          <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Earlier flows
          </Button>
        </div>
      )}
    </div>
  );
}

function known(state: string | undefined): string | undefined {
  return (STATES as readonly string[]).includes(state ?? "") ? state : undefined;
}

function Tab({ state }: { state: string }) {
  return (
    <>
      <span aria-hidden="true" style={{ color: colour(state) }}>
        {glyph(state)}
      </span>{" "}
      {state}
    </>
  );
}

function NameFilter({ name, onChange }: { name: string | undefined; onChange: (name: string | null) => void }) {
  const [text, setText] = useState(name ?? "");
  return (
    <form
      className="row"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(text.trim() || null);
      }}
    >
      <TextField
        label="Name of the flow"
        hideLabel
        placeholder="Name of the flow, such as nightly"
        className="flows-name"
        value={text}
        maxLength={200}
        onChange={(event) => setText(event.target.value)}
      />
      <Button type="submit">Find</Button>
      {name && (
        <Button look="quiet" onClick={() => onChange(null)}>
          All names
        </Button>
      )}
    </form>
  );
}

function Name({ flow }: { flow: Listed }) {
  return (
    <span className="row">
      <Link to="/flows/$id" params={{ id: flow.id }} className="wrap">
        {flow.name || "(no name)"}
      </Link>
      {flow.kind === "batch" && <Badge title="Many jobs that are stored as one unit">batch</Badge>}
      {flow.kind === "dynamic" && (
        <Badge title="A job whose handler waits for jobs that it creates">made at run time</Badge>
      )}
      {flow.cancelRequested && LIVE.includes(flow.state) && <Badge tone="warn">being cancelled</Badge>}
    </span>
  );
}

function Progress({ flow }: { flow: Listed }) {
  const row = useRow(flow);
  if (!row.data) return <span className="muted">{row.error ? "cannot be read" : "…"}</span>;
  const atLeast = !row.data.complete || row.data.nodes.some((node) => node.atLeast);
  return <CountBar counts={row.data.counts} atLeast={atLeast} words />;
}

function Held({ flow }: { flow: Listed }) {
  const row = useRow(flow);
  const told = row.data ? heldBy(row.data) : "";
  const explained = useExplanation(flow.id, row.data !== undefined && told === null);
  return <span className="flows-held">{told ?? explained.data?.text ?? ""}</span>;
}

function Created({ flow }: { flow: Listed }) {
  return (
    <span className="flows-time">
      <Time at={flow.createdAt} />
    </span>
  );
}

/** From its creation on: its root runs several times, and its start is that of the last run. */
function Lasted({ flow }: { flow: Listed }) {
  return (
    <span className="flows-time">
      {flow.finishedAt ? (
        <Duration ms={Date.parse(flow.finishedAt) - Date.parse(flow.createdAt)} />
      ) : (
        <Duration since={flow.createdAt} />
      )}
    </span>
  );
}

function NoFlow() {
  const body = {
    name: "nightly",
    nodes: [{ job: "extract" }, { job: "load", after: ["extract"] }],
  };
  const python = [
    'flow = scheduler.flow("nightly")',
    'extract = flow.add("extract", {"day": "2026-12-24"})',
    'flow.add("load", after=extract)',
    "await flow.start()",
  ].join("\n");
  return (
    <Empty title="No flow yet">
      A flow is a set of jobs that wait for other jobs: a declared graph, a batch, or a handler that calls other jobs.
      <div className="flows-commands">
        <pre className="empty-command">{python}</pre>
        <pre className="empty-command">
          {curl(`${window.location.origin}${prefix}`, { method: "POST", path: "/api/flows", body })}
        </pre>
      </div>
    </Empty>
  );
}

function listPath(filter: ListFilter): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value) as [string, string][]);
  return query.size ? `/api/flows?${query}` : "/api/flows";
}

function listPython(filter: ListFilter): string {
  const given = Object.entries(filter).filter(([, value]) => value);
  return `await scheduler.flows.all(${given.map(([name, value]) => `${name}=${pythonLiteral(value)}`).join(", ")})`;
}
