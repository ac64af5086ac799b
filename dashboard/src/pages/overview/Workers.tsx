// Live workers: how busy each is, and which version it has. Keys with a scope do not see workers.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, type Schemas, unwrap } from "../../api/client";
import { plural } from "../../lib/text";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";

type Worker = Schemas["WorkerOut"];
const ROWS = 8;

export function Workers() {
  const found = useQuery({
    queryKey: ["workers", "overview"],
    queryFn: async () => (await unwrap(api.GET("/api/workers"))).data,
  });
  return (
    <Panel title="Workers" actions={<Link to="/workers">All workers</Link>} flush>
      <Loaded query={found} rows={3}>
        {(workers) => {
          const live = workers.filter((worker) => worker.live);
          const [running, slots] = [sum(live, "running"), sum(live, "concurrency")];
          return (
            <>
              <Table
                caption="Live workers"
                columns={columns}
                rows={live.toSorted((one, other) => load(other) - load(one)).slice(0, ROWS)}
                id={(worker) => worker.id}
                empty={
                  <Empty title="No worker is alive" command="mainspring worker">
                    A worker claims due jobs and runs them.
                  </Empty>
                }
              />
              {live.length > 0 && (
                <p className="overview-foot muted">
                  {plural(live.length, "worker")}, {running} of {plural(slots, "slot")} busy.
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

const columns: Column<Worker>[] = [
  { key: "id", title: "Worker", cell: (worker) => <span className="mono">{worker.id}</span> },
  {
    key: "slots",
    title: "Slots",
    align: "right",
    cell: (worker) => (
      <span className="overview-slots">
        <meter
          min={0}
          max={Math.max(1, worker.concurrency)}
          value={worker.running}
          aria-label={`${worker.running} of ${worker.concurrency} slots of ${worker.id} are busy`}
        />{" "}
        {worker.running} of {worker.concurrency}
      </span>
    ),
  },
  { key: "version", title: "Version", minor: true, cell: (worker) => worker.version ?? "–" },
  { key: "beat", title: "Heartbeat", align: "right", minor: true, cell: (worker) => <Time at={worker.beatAt} /> },
];

function sum(workers: readonly Worker[], field: "running" | "concurrency"): number {
  return workers.reduce((total, worker) => total + worker[field], 0);
}

function load(worker: Worker): number {
  return worker.running / Math.max(1, worker.concurrency);
}
