// The signals that jobs of a flow wait for, each with a form to send it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, getExact, type Schemas, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { Panel } from "../../ui/Panel";
import { Duration } from "../../ui/Time";
import { jobPath } from "../job/job";
import { SignalForm } from "../job/Signals";
import { flowKey } from "./flows";
import { type Flow, LIVE } from "./graph";

type Job = Schemas["JobOut"];
const MOST = 5;

/** The blocked jobs of a flow that wait for signals, its root among them. */
function useSignalled(flow: Flow, wanted: boolean) {
  return useQuery({
    queryKey: [...flowKey(flow.id), "signals"],
    enabled: wanted,
    queryFn: async () => {
      const query = { flowId: flow.id, state: "blocked", limit: 50 } as never;
      const [root, members] = await Promise.all([
        getExact<{ data: Job }>(`${jobPath(flow.id)}/detail`),
        unwrap(api.GET("/api/jobs/search", { params: { query } })),
      ]);
      return [root.data, ...members.data].filter((job) => (job.waits?.signals.length ?? 0) > 0);
    },
  });
}

export function Signals({ flow }: { flow: Flow }) {
  const role = useRole();
  const query = useSignalled(flow, LIVE.includes(flow.state));
  const jobs = LIVE.includes(flow.state) ? (query.data ?? []) : [];
  if (jobs.length === 0) return null;
  return (
    <Panel title="Waits for a signal">
      <div className="stack">
        {jobs.slice(0, MOST).map((job) => (
          <Waiting key={job.id} job={job} flow={flow} send={role.can("operator")} />
        ))}
        {jobs.length > MOST && (
          <p className="sentence">
            <Link to="/jobs" search={{ flow: flow.id, state: "blocked" }}>
              {plural(jobs.length - MOST, "more job", "more jobs")}
            </Link>{" "}
            of it wait for signals.
          </p>
        )}
      </div>
    </Panel>
  );
}

function Waiting({ job, flow, send }: { job: Job; flow: Flow; send: boolean }) {
  return (
    <div>
      <p className="sentence">
        <Link to="/jobs/$id" params={{ id: job.id }} className="wrap">
          {job.node ?? job.label ?? job.name}
        </Link>{" "}
        waits for {job.waits?.signals.join(", ")}
        {job.waits?.since && (
          <span className="muted">
            {" "}
            for <Duration since={job.waits.since} />
          </span>
        )}
        .
      </p>
      {send &&
        job.waits?.signals.map((signal) => (
          <SignalForm key={signal} id={job.id} signal={signal} touches={[flowKey(flow.id)]} />
        ))}
    </div>
  );
}
