// Queues with their backlog: how full, how busy, and how long until they are empty.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { count } from "../../lib/text";
import { estimate } from "../../lib/time";
import { Badge } from "../../ui/Badge";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Sparkline } from "../../ui/Sparkline";
import { type Column, Table } from "../../ui/Table";
import { Duration } from "../../ui/Time";
import { backlogOf, drainOf, isCapped, type Queue, worstFirst } from "./queues";

const ROWS = 12;

export function useQueues() {
  return useQuery({
    queryKey: ["queues", "overview"],
    queryFn: async () => (await unwrap(api.GET("/api/queues"))).data as Queue[],
  });
}

export function Queues() {
  const found = useQueues();
  return (
    <Panel title="Queues" actions={<Link to="/queues">All queues</Link>} flush>
      <Loaded query={found} rows={5}>
        {(queues) => (
          <>
            <Table
              caption="Queues"
              columns={columns}
              rows={worstFirst(queues).slice(0, ROWS)}
              id={(queue) => queue.name}
              empty={
                <Empty title="No queue has jobs" command={'await scheduler.schedule("hello", queue="default")'}>
                  A queue appears with its first job, its first worker or a pause.
                </Empty>
              }
            />
            {queues.length > 0 && <Drain queues={queues} />}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

const columns: Column<Queue>[] = [
  {
    key: "name",
    title: "Queue",
    cell: (queue) => (
      <>
        <Link to="/queues/$queue" params={{ queue: queue.name }}>
          {queue.name}
        </Link>{" "}
        {queue.paused && <Badge tone="warn">paused</Badge>} {queue.noWorker && <Badge tone="bad">no worker</Badge>}
      </>
    ),
  },
  { key: "backlog", title: "Backlog", align: "right", cell: (queue) => count(backlogOf(queue), isCapped(queue)) },
  { key: "running", title: "Running", align: "right", cell: (queue) => count(queue.running) },
  {
    key: "oldest",
    title: "Oldest waiting",
    align: "right",
    minor: true,
    cell: (queue) => (queue.oldestDueAt ? <Duration since={queue.oldestDueAt} /> : <span className="muted">–</span>),
  },
  {
    key: "busy",
    title: "Busy",
    align: "right",
    minor: true,
    cell: (queue) => <Busy value={queue.utilisation} />,
  },
  { key: "drain", title: "Empty in", align: "right", cell: (queue) => drainOf(queue) },
  {
    key: "activity",
    title: "Activity",
    minor: true,
    cell: (queue) =>
      queue.activity ? (
        <Sparkline
          values={queue.activity.ended}
          over={queue.activity.failed}
          label={`${count(queue.activity.ended.reduce((sum, one) => sum + one, 0))} attempts ended lately`}
        />
      ) : (
        <span className="muted">–</span>
      ),
  },
];

function Busy({ value }: { value: number | null | undefined }) {
  if (value === null || value === undefined) return <span className="muted">–</span>;
  return <span>{Math.round(value * 100)} %</span>;
}

function Drain({ queues }: { queues: readonly Queue[] }) {
  const known = queues.filter((queue) => (queue.drainMs ?? 0) > 0);
  const slowest = known.toSorted((one, other) => (other.drainMs ?? 0) - (one.drainMs ?? 0))[0];
  const stuck = queues.filter((queue) => backlogOf(queue) > 0 && queue.drainMs === null && !queue.paused);
  return (
    <p className="overview-foot muted sentence">
      {slowest
        ? `At the rate of the last minutes, all backlogs are finished in ${estimate(slowest.drainMs ?? 0)}${isCapped(slowest) ? " or more" : ""}; ${slowest.name} takes longest.`
        : queues.some((queue) => backlogOf(queue) > 0)
          ? "The rate is not known yet, so the time for the backlog cannot be estimated."
          : "No queue has a backlog."}
      {slowest &&
        stuck.length > 0 &&
        ` No job leaves ${stuck
          .map((queue) => queue.name)
          .slice(0, 3)
          .join(", ")}.`}
    </p>
  );
}
