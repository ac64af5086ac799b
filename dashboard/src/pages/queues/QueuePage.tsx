// One queue: its numbers, what its jobs wait for, and which jobs are next.
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { PageHead } from "../../app/PageHead";
import type { Schemas } from "../../api/client";
import { useRole } from "../../api/session";
import { count, plural, rate } from "../../lib/text";
import { useLive } from "../../live/live";
import { Badge } from "../../ui/Badge";
import { CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Duration } from "../../ui/Time";
import { useLimits, useQueue } from "./data";
import { LimitPanel } from "./LimitList";
import { PauseButton, PausedNote } from "./PauseAction";
import { Oldest, QueueActivity, Utilisation } from "./QueueTable";
import { drainWords, upTo, waitWords } from "./words";
import { pauseCall, resumeCall } from "./calls";
import "./queues.css";

type Detail = Schemas["QueueDetailOut"];

export default function QueuePage() {
  const { queue } = useParams({ strict: false }) as { queue: string };
  const query = useQueue(queue);
  const { can } = useRole();
  useLive({ queue }, [["queues", "one", queue]]);
  const name = pythonLiteral(queue);
  const calls = [
    { path: `/api/queues/${encodeURIComponent(queue)}`, python: `queue = await scheduler.queues.get(${name})` },
    ...(can("operator") ? [query.data?.paused ? resumeCall(queue) : pauseCall(queue)] : []),
  ];
  return (
    <div className="stack">
      <PageHead title={<span className="wrap">Queue {queue}</span>} name={`Queue ${queue}`}>
        <CallButton calls={calls} />
        <Link className="button" to="/jobs" search={{ queue } as never}>
          Its jobs
        </Link>
        {can("operator") && query.data && <PauseButton queue={query.data} />}
      </PageHead>
      <Loaded query={query} rows={8}>
        {(found) => <Details queue={found} />}
      </Loaded>
    </div>
  );
}

function Details({ queue }: { queue: Detail }) {
  const limit = useLimits().data?.find((one) => one.scope === "queue" && one.target === queue.name);
  return (
    <>
      <Panel>
        <PausedNote queue={queue} />
        {queue.noWorker && (
          <p className="sentence">
            <Badge tone="bad">no worker</Badge> Jobs are due, and no live worker serves this queue. Start one with{" "}
            <code>mainspring worker --queues {queue.name}</code>.
          </p>
        )}
        <dl className="facts">
          <Fact name="Due">{upTo(queue.due, queue.counted)}</Fact>
          <Fact name="Waiting">{upTo(queue.waiting, queue.counted)}</Fact>
          <Fact name="Scheduled">{upTo(queue.scheduled, queue.counted)}</Fact>
          <Fact name="Running">{count(queue.running)}</Fact>
          <Fact name="Oldest waiting">
            <Oldest queue={queue} />
          </Fact>
          <Fact name="Time to drain">{drainWords(queue)}</Fact>
          <Fact name="Leaving">{rate(queue.perMinute)}</Fact>
          <Fact name="Slots in use">
            <Utilisation queue={queue} />
          </Fact>
          <Fact name="Workers">{count(queue.workers)}</Fact>
          <Fact name={`Ended, last ${queue.activity.ended.length} min`}>
            <QueueActivity queue={queue} width={180} />
          </Fact>
        </dl>
      </Panel>
      <div className="columns">
        <Panel title="What its jobs wait for" flush>
          <Table
            caption="What waiting jobs wait for"
            columns={WAITS}
            rows={queue.waits}
            id={(wait) => `${wait.by}${wait.gate}${wait.note}`}
            empty={<p className="queue-note muted">No job of this queue waits at a gate.</p>}
          />
          {queue.waiting > queue.lookedAt && (
            <p className="queue-note muted">Among the first {plural(queue.lookedAt, "waiting job")}.</p>
          )}
        </Panel>
        <Panel title="Next by name" flush>
          <Table
            caption="Names of the jobs that are due next"
            columns={namesOf(queue)}
            rows={queue.names}
            id={(one) => one.name}
            empty={<p className="queue-note muted">No job of this queue is due.</p>}
          />
          {queue.due > queue.sampled && (
            <p className="queue-note muted">Among the {plural(queue.sampled, "job")} that are next.</p>
          )}
        </Panel>
      </div>
      {limit && <LimitPanel limit={limit} />}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const WAITS: Column<Schemas["WaitOut"]>[] = [
  { key: "count", title: "Jobs", align: "right", cell: (wait) => count(wait.count) },
  {
    key: "what",
    title: "Wait for",
    cell: (wait) => (
      <span className="wrap">
        {wait.note || waitWords(wait.by)} {/* A note names the gate in words. */}
        {wait.gate && !wait.note && <code className="muted">{wait.gate}</code>}
      </span>
    ),
  },
  { key: "since", title: "Longest", align: "right", cell: (wait) => <Duration since={wait.since} /> },
];

function namesOf(queue: Detail): Column<Schemas["NameCount"]>[] {
  return [
    {
      key: "name",
      title: "Name",
      cell: (one) => (
        <Link className="wrap" to="/jobs" search={{ queue: queue.name, name: one.name } as never}>
          {one.name}
        </Link>
      ),
    },
    { key: "count", title: "Jobs", align: "right", cell: (one) => count(one.count) },
  ];
}
