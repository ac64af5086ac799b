// The workers: what each slot runs, which versions they have, and how they do.
import { useQuery } from "@tanstack/react-query";
import { PageHead } from "../../app/PageHead";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { bytes, count, plural } from "../../lib/text";
import { duration } from "../../lib/time";
import { useInterval } from "../../live/interval";
import { Badge } from "../../ui/Badge";
import { CallButton } from "../../ui/Call";
import { Popover } from "../../ui/Menu";
import { Boundary, Empty, Loaded, Panel } from "../../ui/Panel";
import { Duration, Time } from "../../ui/Time";
import { DrainAction } from "./DrainAction";
import { Slots } from "./Slots";
import { drift, lagTone, place, type Worker } from "./words";
import "./workers.css";

const READ = { path: "/api/workers", python: "workers = await scheduler.workers.all()" };
const VERBS = [
  {
    title: "Drain one",
    method: "POST" as const,
    path: "/api/workers/WORKER-ID/drain",
    body: { reason: "…" },
    python: 'await scheduler.workers.drain("WORKER-ID", reason="…")',
  },
  {
    title: "Cancel its drain",
    method: "DELETE" as const,
    path: "/api/workers/WORKER-ID/drain",
    python: 'await scheduler.workers.cancel_drain("WORKER-ID")',
  },
];

export default function WorkersPage() {
  const { can, everything } = useRole();
  const query = useQuery({
    queryKey: ["workers"],
    queryFn: async () => (await unwrap(api.GET("/api/workers"))).data,
    refetchInterval: useInterval(2000),
    enabled: everything,
  });
  return (
    <div className="stack">
      <PageHead title="Workers">
        {everything && <CallButton calls={can("operator") ? [READ, ...VERBS] : READ} />}
      </PageHead>
      {everything ? (
        <Loaded query={query} rows={8}>
          {(workers) => <Workers workers={workers} />}
        </Loaded>
      ) : (
        <Panel>
          <Empty title="Workers belong to the whole installation">
            This key has a scope. Only a key without a scope can see the workers.
          </Empty>
        </Panel>
      )}
    </div>
  );
}

function Workers({ workers }: { workers: Worker[] }) {
  const live = workers.filter((worker) => worker.live);
  const gone = workers.filter((worker) => !worker.live);
  const slots = live.reduce((sum, worker) => sum + worker.concurrency, 0);
  const running = live.reduce((sum, worker) => sum + worker.running, 0);
  const differences = drift(workers);
  if (live.length === 0 && gone.length === 0)
    return (
      <Panel>
        <Empty title="No worker is running" command="mainspring worker myapp.jobs:scheduler --processes 2">
          Jobs wait until a worker claims them. This command runs the handlers of your Scheduler:
        </Empty>
      </Panel>
    );
  return (
    <>
      <p className="sentence">
        {plural(live.length, "live worker")} with {plural(slots, "slot")}, {count(running)} of them in use.
        {live.length === 0 && " No jobs run until you start one: mainspring worker myapp.jobs:scheduler"}
      </p>
      {differences.length > 0 && (
        <div className="worker-drift" role="status">
          {differences.map((one) => (
            <p key={one} className="wrap">
              {one}
            </p>
          ))}
          <p className="muted">During a deploy this is normal; afterwards an old process has been forgotten.</p>
        </div>
      )}
      <div className="workers">
        {live.map((worker) => (
          <Boundary key={worker.id}>
            <WorkerPanel worker={worker} />
          </Boundary>
        ))}
      </div>
      {gone.length > 0 && (
        <details className="workers-gone">
          <summary>{plural(gone.length, "worker")} without a heartbeat, in the last hour</summary>
          <ul>
            {gone.map((worker) => (
              <li key={worker.id} className="wrap">
                {place(worker)} <span className="muted">last heard of</span> <Time at={worker.beatAt} />
                {worker.error && <span className="field-error"> {worker.error}</span>}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function WorkerPanel({ worker }: { worker: Worker }) {
  const { can } = useRole();
  const title = (
    <span className="row">
      <span className="wrap" title={worker.id}>
        {place(worker)}
      </span>
      {worker.release && <Badge title="The release of the program">{worker.release}</Badge>}
      {worker.version && <Badge title="The version of Mainspring">{worker.version}</Badge>}
      {worker.drain && (
        <Badge tone="warn" title={[worker.drain.actor, worker.drain.reason].filter(Boolean).join(": ")}>
          draining, {plural(worker.running, "job")} left
        </Badge>
      )}
    </span>
  );
  return (
    <Panel title={title} actions={can("operator") && <DrainAction worker={worker} />}>
      {worker.drain && <DrainNote worker={worker} />}
      <Slots worker={worker} />
      <dl className="worker-facts">
        <div>
          <dt>Queues</dt>
          <dd className="wrap">{worker.queues === null ? "all" : worker.queues.join(", ") || "none"}</dd>
        </div>
        <div>
          <dt>Handlers</dt>
          <dd>
            <Handlers worker={worker} />
          </dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>{bytes(worker.memoryBytes)}</dd>
        </div>
        <div>
          <dt>Loop delay</dt>
          <dd>
            <LoopLag ms={worker.loopLagMs} />
          </dd>
        </div>
        <div>
          <dt>Heartbeat</dt>
          <dd>
            <Time at={worker.beatAt} />
          </dd>
        </div>
        <div>
          <dt>Up for</dt>
          <dd>
            <Duration since={worker.startedAt} />
          </dd>
        </div>
      </dl>
      {worker.error && <p className="field-error wrap">{worker.error}</p>}
    </Panel>
  );
}

function DrainNote({ worker }: { worker: Worker }) {
  const { drain } = worker;
  if (!drain) return null;
  return (
    <p className="wrap">
      Asked to drain <Time at={drain.at} />
      {drain.actor && ` by ${drain.actor}`}
      {drain.reason ? `: ${drain.reason}` : "."}
    </p>
  );
}

function LoopLag({ ms }: { ms: number | null | undefined }) {
  const tone = lagTone(ms);
  if (tone === "neutral") return <>{duration(ms)}</>;
  return (
    <Badge
      tone={tone}
      title="A handler blocks the event loop: move its work into a plain (not async) function or a separate process."
    >
      {duration(ms)}
    </Badge>
  );
}

function Handlers({ worker }: { worker: Worker }) {
  if (worker.handlers === null) return <>any</>;
  if (worker.handlers.length === 0) return <>none</>;
  return (
    <Popover
      label={plural(worker.handlers.length, "handler")}
      name={`${plural(worker.handlers.length, "handler")} of ${place(worker)}`}
      look="quiet"
      small
    >
      <ul className="worker-handlers">
        {worker.handlers.map((name) => (
          <li key={name} className="wrap">
            {name} {worker.versions[name] !== undefined && <span className="muted">v{worker.versions[name]}</span>}
          </li>
        ))}
      </ul>
    </Popover>
  );
}
