// The one sentence that matters about a job: why it waits, why it failed, what it does now.
import type { ReactNode } from "react";
import { Link } from "@tanstack/react-router";
import { plural } from "../../lib/text";
import { duration, withLocalInstants } from "../../lib/time";
import { Duration, Time } from "../../ui/Time";
import { type Detail, isRoot, useExplanation } from "./job";

export function Story({ job }: { job: Detail }) {
  return (
    <div className={`job-story job-story-${job.state}`} role="status" aria-label="What matters">
      <Sentence job={job} />
      <InFlow job={job} />
    </div>
  );
}

/** The flow that a job is a part of, or that it is the root of, and the job whose end decided its own. */
function InFlow({ job }: { job: Detail }) {
  const root = isRoot(job);
  if (!job.flowId && !root && !job.because) return null;
  return (
    <p className="sentence muted">
      {root && (
        <>
          It is{" "}
          <Link to="/flows/$id" params={{ id: job.id }}>
            a flow
          </Link>
          .{" "}
        </>
      )}
      {job.flowId && (
        <>
          It is a part of{" "}
          <Link to="/flows/$id" params={{ id: job.flowId }}>
            a flow
          </Link>
          {job.node && (
            <>
              , its node{" "}
              <Link to="/flows/$id" params={{ id: job.flowId }} search={{ node: job.node }} className="wrap">
                {job.node}
              </Link>
            </>
          )}
          .{" "}
        </>
      )}
      {job.because && (
        <>
          Its end was decided by that of{" "}
          <Link to="/jobs/$id" params={{ id: job.because }}>
            another job
          </Link>
          .
        </>
      )}
    </p>
  );
}

function Sentence({ job }: { job: Detail }) {
  switch (job.state) {
    case "pending":
    case "blocked":
      return <Waiting job={job} />;
    case "running":
      return <Running job={job} />;
    case "completed":
      return (
        <p>
          Completed {took(job)}
          {late(job)}.
        </p>
      );
    case "failed":
      return (
        <Ended job={job}>
          Failed for good after {plural(job.attempts.length + job.attemptsCut, "attempt")}, <Time at={job.finishedAt} />
          .
        </Ended>
      );
    case "cancelled":
      return (
        <Ended job={job}>
          Cancelled <Time at={job.finishedAt} />.
        </Ended>
      );
    case "expired":
      return (
        <p>
          Expired <Time at={job.finishedAt} />: no worker started it in time.
        </p>
      );
    default:
      return <p>It is in the state {job.state || "(none)"}, which this version of the dashboard does not know.</p>;
  }
}

function Waiting({ job }: { job: Detail }) {
  const explanation = useExplanation(job.id, true);
  const last = job.attempts.at(-1);
  return (
    <>
      <p className="wrap">
        {explanation.data
          ? withLocalInstants(explanation.data.text)
          : (job.waitingFor?.note ?? "It waits to be started.")}
        {!explanation.data && job.waitingFor?.since && (
          <span className="muted">
            {" "}
            (for <Duration since={job.waitingFor.since} />)
          </span>
        )}
      </p>
      {last?.error && (
        <p className="wrap muted">
          Attempt {last.number} ended with {last.error.type}: {last.error.message}
        </p>
      )}
      {explanation.data && (
        <details className="job-gates">
          <summary>All gates before it</summary>
          <ul>
            {explanation.data.gates.map((gate, index) => (
              <li key={index} className={gate.open ? "muted wrap" : "wrap"}>
                {gate.open ? "✓" : "●"} {withLocalInstants(gate.text)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function Running({ job }: { job: Detail }) {
  const of = job.maxAttempts ? ` of ${job.maxAttempts}` : "";
  return (
    <>
      <p className="wrap">
        Attempt {job.tries}
        {of} has been running for <Duration since={job.startedAt} />
        {job.worker && (
          <>
            {" "}
            on <Link to="/workers">{job.worker}</Link>
          </>
        )}
        .{job.cancelRequested && " It was asked to stop."}
        {job.progress?.note && ` It reports: ${job.progress.note}`}
      </p>
      {job.progress && <ProgressBar percent={job.progress.percent} />}
    </>
  );
}

export function ProgressBar({ percent }: { percent: number }) {
  const shown = Number.isFinite(percent) ? Math.max(0, Math.min(100, percent)) : 0;
  return (
    <div className="row">
      <progress className="job-progress" value={shown} max={100} aria-label="Progress" />
      <span>{Math.round(shown)} %</span>
    </div>
  );
}

function Ended({ job, children }: { job: Detail; children: ReactNode }) {
  return (
    <>
      {job.error && (
        <p className="wrap job-error">
          <strong>{job.error.type}</strong>
          {job.error.message && `: ${job.error.message}`}
        </p>
      )}
      <p className="muted">{children}</p>
    </>
  );
}

function took(job: Detail): string {
  const last = job.attempts.at(-1);
  const again = job.attempts.length + job.attemptsCut > 1 ? ` at attempt ${last?.number ?? "?"}` : "";
  return `${last?.duration === null || last?.duration === undefined ? "" : `in ${duration(last.duration)}`}${again}`;
}

function late(job: Detail): string {
  const first = job.timeline.find((span) => span.kind === "running");
  const waited = job.timeline.find((span) => span.kind === "waiting");
  if (!first || !waited?.end) return "";
  const ms = Date.parse(waited.end) - Date.parse(waited.start);
  return ms > 0 ? `, ${duration(ms)} after it was due` : "";
}
