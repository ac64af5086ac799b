// Every attempt, the latest first: how it ended, its error and stack, its log, its worker, and a webhook's exchange.
import { useState } from "react";
import { plural } from "../../lib/text";
import { duration } from "../../lib/time";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/Copy";
import { JsonTree } from "../../ui/JsonTree";
import { Boundary } from "../../ui/Panel";
import { Duration, Time } from "../../ui/Time";
import { requestAsCurl } from "./exchange";
import type { Attempt, Detail } from "./job";

const SHOWN = 5;
const STATES: Record<string, string> = { retried: "retrying", lost: "failed" };

export function Attempts({ job }: { job: Detail }) {
  const [all, setAll] = useState(false);
  const latest = job.attempts.toReversed();
  const shown = all ? latest : latest.slice(0, SHOWN);
  return (
    <ol className="attempts">
      {job.state === "running" && (
        <li className="attempt">
          <div className="row">
            <StateBadge state="running" />
            <strong>Attempt {job.tries}</strong>
            <span className="muted">
              for <Duration since={job.startedAt} />
            </span>
          </div>
          <Log lines={job.log} title="Log, live" />
        </li>
      )}
      {shown.map((attempt, index) => (
        <li key={`${attempt.token}-${attempt.number}`} className="attempt">
          <Boundary>
            <One job={job} attempt={attempt} open={index === 0} />
          </Boundary>
        </li>
      ))}
      {latest.length > shown.length && (
        <li>
          <Button small onClick={() => setAll(true)}>
            {plural(latest.length - shown.length, "earlier attempt")}
          </Button>
        </li>
      )}
      {job.attemptsCut > 0 && (
        <li className="muted">
          {plural(job.attemptsCut, "older attempt")} {job.attemptsCut === 1 ? "was" : "were"} not kept.
        </li>
      )}
    </ol>
  );
}

function One({ job, attempt, open }: { job: Detail; attempt: Attempt; open: boolean }) {
  return (
    <details open={open}>
      <summary>
        <span className="row attempt-head">
          <StateBadge state={STATES[attempt.outcome] ?? attempt.outcome} word={attempt.outcome} />
          <strong>Attempt {attempt.number}</strong>
          {attempt.outcome === "lost" && <span>lost with its worker</span>}
          <span className="muted">
            {attempt.duration === null || attempt.duration === undefined ? "" : `after ${duration(attempt.duration)}, `}
            <Time at={attempt.endedAt} />
          </span>
          {attempt.worker && <span className="muted wrap">on {attempt.worker}</span>}
        </span>
      </summary>
      <div className="stack attempt-body">
        {attempt.error && <Failure error={attempt.error} />}
        {(attempt.response || job.request) && <Exchange job={job} attempt={attempt} />}
        <Log lines={attempt.log ?? []} title="Log" />
      </div>
    </details>
  );
}

function Failure({ error }: { error: NonNullable<Attempt["error"]> }) {
  return (
    <div>
      <p className="wrap job-error">
        <strong>{error.type}</strong>
        {error.message && `: ${error.message}`}
      </p>
      {error.stack && (
        <details>
          <summary>Stack</summary>
          <Text text={error.stack} name="stack" />
        </details>
      )}
      {error.details !== null && error.details !== undefined && (
        <details>
          <summary>Details</summary>
          <JsonTree value={error.details} name="details" />
        </details>
      )}
    </div>
  );
}

/** Lines as they were written, in a block that scrolls and can be copied. */
export function Text({ text, name }: { text: string; name: string }) {
  return (
    <div className="job-text">
      <CopyButton text={text} label={`Copy ${name}`} />
      <pre tabIndex={0} role="group" aria-label={name}>
        {text}
      </pre>
    </div>
  );
}

export function Log({ lines, title }: { lines: readonly string[]; title: string }) {
  if (lines.length === 0) return null;
  return (
    <div>
      <h3>
        {title} <span className="muted">({plural(lines.length, "line")})</span>
      </h3>
      <Text text={lines.join("\n")} name="log" />
    </div>
  );
}

function Exchange({ job, attempt }: { job: Detail; attempt: Attempt }) {
  const { request } = job;
  const { response } = attempt;
  return (
    <div>
      <h3>HTTP exchange</h3>
      {request && (
        <div className="row spread">
          <code className="wrap">
            {request.method} {request.endpoint}
          </code>
          <CopyButton text={() => requestAsCurl(request)} label="Copy as curl" />
        </div>
      )}
      {response ? (
        <>
          <p>
            Answered <strong>{response.status}</strong>
            {response.durationMs !== null &&
              response.durationMs !== undefined &&
              ` in ${duration(response.durationMs)}`}
            {response.bodyNote && <span className="muted"> ({response.bodyNote})</span>}
          </p>
          {Object.keys(response.headers ?? {}).length > 0 && (
            <details>
              <summary>Headers of the answer</summary>
              <Text
                text={Object.entries(response.headers ?? {})
                  .map(([name, value]) => `${name}: ${value}`)
                  .join("\n")}
                name="headers"
              />
            </details>
          )}
          {response.body && <Text text={response.body} name="body" />}
        </>
      ) : (
        <p className="muted">No response of the receiver was stored for this attempt.</p>
      )}
    </div>
  );
}
