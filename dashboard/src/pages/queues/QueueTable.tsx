// The table of queues: what waits, what runs, and how long the backlog takes.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useRole } from "../../api/session";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Gauge } from "../../ui/Gauge";
import { Menu } from "../../ui/Menu";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Sparkline } from "../../ui/Sparkline";
import { type Column, Table } from "../../ui/Table";
import { Duration } from "../../ui/Time";
import { type Breaker, type Limit, type Queue, useBreakers, useLimits, useQueues } from "./data";
import { LimitDialog, useRemoveOverride } from "./LimitDialog";
import { PausedBadge, usePauseActions } from "./PauseAction";
import { drainWords, limitWords, upTo } from "./words";

export function QueueTable() {
  const query = useQueues();
  const limits = useLimits().data ?? [];
  const breakers = useBreakers().data ?? [];
  const { can } = useRole();
  const about = (queue: Queue) => ({
    limit: limits.find((one) => one.scope === "queue" && one.target === queue.name),
    breaker: breakers.find((one) => one.scope === "queue" && one.target === queue.name && one.state !== "closed"),
  });
  const columns = COLUMNS.map((column) =>
    column.key === "name" ? { ...column, cell: (queue: Queue) => <Name queue={queue} {...about(queue)} /> } : column,
  );
  if (can("operator"))
    columns.push({ key: "act", title: "", cell: (queue) => <Actions queue={queue} limit={about(queue).limit} /> });
  return (
    <Panel flush>
      <Loaded query={query} rows={6}>
        {(found) => (
          <>
            <Table
              caption="Queues"
              columns={columns}
              rows={found.pages.flatMap((page) => page.data)}
              id={(queue) => queue.name}
              empty={
                <Empty
                  title="No queue has jobs, workers or a pause"
                  command={'await scheduler.schedule("send-email", {"to": "ada@example.com"}, queue="mail")'}
                >
                  A queue appears here as soon as a job is scheduled in it or a worker serves it.
                </Empty>
              }
            />
            {query.hasNextPage && (
              <div className="queues-more">
                <Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>
                  Show more queues
                </Button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

const COLUMNS: Column<Queue>[] = [
  { key: "name", title: "Queue", cell: (queue) => queue.name },
  { key: "due", title: "Due", align: "right", cell: (queue) => <Due queue={queue} /> },
  {
    key: "waiting",
    title: "Waiting",
    align: "right",
    cell: (queue) => (
      <span className={queue.waiting > 0 ? undefined : "muted"}>{upTo(queue.waiting, queue.counted)}</span>
    ),
  },
  {
    key: "scheduled",
    title: "Scheduled",
    align: "right",
    minor: true,
    cell: (queue) => <span className="muted">{upTo(queue.scheduled, queue.counted)}</span>,
  },
  { key: "oldest", title: "Oldest waiting", align: "right", minor: true, cell: (queue) => <Oldest queue={queue} /> },
  { key: "use", title: "Slots in use", minor: true, cell: (queue) => <Utilisation queue={queue} /> },
  { key: "activity", title: "Ended, last 30 min", minor: true, cell: (queue) => <QueueActivity queue={queue} /> },
  { key: "drain", title: "Time to drain", align: "right", minor: true, cell: (queue) => drainWords(queue) },
];

function Name({ queue, limit, breaker }: { queue: Queue; limit?: Limit; breaker?: Breaker }) {
  return (
    <span className="row queue-name">
      <Link to="/queues/$queue" params={{ queue: queue.name }} className="wrap">
        {queue.name}
      </Link>
      <PausedBadge queue={queue} />
      {queue.noWorker && (
        <Badge tone="bad" title="Jobs are due, and no live worker serves this queue.">
          no worker
        </Badge>
      )}
      {limit && (
        <Badge tone={limit.override ? "info" : "neutral"} title={`${limitWords(limit.counts)} in force`}>
          {limit.override ? "override: " : ""}
          {limitWords(limit.counts)}
        </Badge>
      )}
      {breaker && <Badge tone="bad">breaker {breaker.state === "open" ? "open" : "half open"}</Badge>}
    </span>
  );
}

function Due({ queue }: { queue: Queue }) {
  return queue.due > 0 ? <strong>{upTo(queue.due, queue.counted)}</strong> : <span className="muted">0</span>;
}

export function Oldest({ queue }: { queue: Queue }) {
  return queue.oldestDueAt ? <Duration since={queue.oldestDueAt} /> : <span className="muted">–</span>;
}

export function Utilisation({ queue }: { queue: Queue }) {
  if (!queue.slots) return <span className="muted">{queue.running ? `${queue.running} running` : "no worker"}</span>;
  return <Gauge value={queue.running} of={queue.slots} label="Slots that run its jobs" />;
}

export function QueueActivity({ queue, width }: { queue: Queue; width?: number }) {
  const { ended, failed } = queue.activity;
  const sum = (values: number[]) => values.reduce((total, one) => total + one, 0);
  if (sum(ended) === 0) return <span className="muted">none</span>;
  const label = `${sum(ended)} attempts ended in the last ${ended.length} minutes, ${sum(failed)} of them failed`;
  return <Sparkline values={ended} over={failed} label={label} width={width} />;
}

function Actions({ queue, limit }: { queue: Queue; limit?: Limit }) {
  const [limiting, setLimiting] = useState(false);
  const target = { scope: "queue" as const, target: queue.name };
  const remove = useRemoveOverride(target);
  const pausing = usePauseActions(queue.name);
  return (
    <>
      <Menu
        label="⋯"
        name={`Actions on the queue ${queue.name}`}
        small
        look="quiet"
        items={[
          queue.paused ? { label: "Resume", onSelect: pausing.resume } : { label: "Pause…", onSelect: pausing.ask },
          { label: limit?.override ? "Change the override…" : "Set limits…", onSelect: () => setLimiting(true) },
          limit?.override && { label: "Remove the override", onSelect: () => remove.mutate() },
        ]}
      />
      {pausing.dialog}
      {limiting && <LimitDialog target={target} limit={limit} onClose={() => setLimiting(false)} />}
    </>
  );
}
