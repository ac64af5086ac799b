// One job, told from top to bottom: what matters, its life, its attempts, its data, and the jobs around it.
import { Link, useParams } from "@tanstack/react-router";
import { PageHead } from "../../app/PageHead";
import { useRole } from "../../api/session";
import { useLive } from "../../live/live";
import { StateBadge } from "../../ui/Badge";
import { CopyButton } from "../../ui/Copy";
import { JsonTree } from "../../ui/JsonTree";
import { Loaded, Panel } from "../../ui/Panel";
import { Moment, Time } from "../../ui/Time";
import { Actions } from "./Actions";
import { Attempts } from "./Attempts";
import { Compare, Related } from "./Beside";
import { shownName } from "../../lib/text";
import { spelt } from "../../lib/time";
import { type Detail, jobKey, RESERVED, useJob } from "./job";
import { Life } from "./Life";
import { SameName } from "./SameName";
import { SignalForm } from "./Signals";
import { StackPanel } from "./Stack";
import { Story } from "./Story";
import "./job.css";

export default function JobPage() {
  const { id = "" } = useParams({ strict: false }) as { id?: string };
  const query = useJob(id);
  useLive({ id }, [jobKey(id)]);
  return (
    <>
      {!query.data && <PageHead title="Job" name={`Job ${id}`} />}
      <Loaded query={query} rows={12}>
        {(job) => <Whole key={job.id} job={job} />}
      </Loaded>
    </>
  );
}

function Whole({ job }: { job: Detail }) {
  const role = useRole();
  return (
    <>
      <PageHead
        name={`${job.name} · job`}
        title={
          <span className="row">
            <StateBadge job={job} />
            <span className="wrap">{job.label || shownName(job.name)}</span>
          </span>
        }
      >
        <Actions job={job} />
      </PageHead>
      <div className="stack job">
        <Story job={job} />
        {role.can("operator") &&
          job.waits?.signals.map((signal) => (
            <Panel key={signal} title={`Waits for the signal ${signal}`}>
              <SignalForm id={job.id} signal={signal} />
            </Panel>
          ))}
        <Panel title="Its life">
          <Life job={job} />
        </Panel>
        {role.can("operator") && <StackPanel job={job} />}
        {(job.attempts.length > 0 || job.state === "running") && (
          <Panel title={`Attempts (${job.attempts.length + job.attemptsCut + (job.state === "running" ? 1 : 0)})`}>
            <Attempts job={job} />
          </Panel>
        )}
        <div className="columns">
          <Panel title="Data">
            {Object.keys(job.data).length === 0 ? (
              <p className="muted">It has no data.</p>
            ) : (
              <JsonTree value={job.data} name="data" />
            )}
          </Panel>
          <Panel title="Result">
            <Result job={job} />
          </Panel>
        </div>
        {job.steps.length > 0 && (
          <Panel title={`Finished steps (${job.steps.length})`}>
            <Steps job={job} />
          </Panel>
        )}
        {(job.state === "failed" || job.attempts.length > 0) && <Compare job={job} />}
        {job.name && !job.name.startsWith(RESERVED) && <SameName job={job} />}
        <div className="columns">
          <Related job={job} />
          <Panel title="Facts">
            <Facts job={job} />
          </Panel>
        </div>
      </div>
    </>
  );
}

function Result({ job }: { job: Detail }) {
  return (
    <>
      {job.resultNote && <p className="wrap">{job.resultNote}</p>}
      {job.result !== null && job.result !== undefined ? (
        <JsonTree value={job.result} name="result" />
      ) : (
        <p className="muted">
          {job.state === "completed"
            ? "The handler returned nothing."
            : job.finishedAt
              ? "No result: the job did not complete."
              : "No result yet: the job has not completed."}
        </p>
      )}
    </>
  );
}

function Steps({ job }: { job: Detail }) {
  return (
    <ol className="attempts">
      {job.steps.map((step, index) => (
        <li key={index} className="attempt">
          <details>
            <summary>
              <span className="row attempt-head">
                <strong className="wrap">{step.name}</strong>
                <span className="muted">
                  in attempt {step.attempt}, <Time at={step.at} />
                </span>
              </span>
            </summary>
            <JsonTree value={step.result ?? null} name="result" />
          </details>
        </li>
      ))}
    </ol>
  );
}

function Facts({ job }: { job: Detail }) {
  const rows: [string, React.ReactNode][] = [
    [
      "Id",
      <span key="id" className="row">
        <code className="wrap">{job.id}</code> <CopyButton text={job.id} label="Copy id" />
      </span>,
    ],
    [
      "Name",
      job.name.startsWith(RESERVED) ? (
        <code>{job.name}</code>
      ) : (
        <Link key="name" to="/jobs" search={{ name: job.name }} className="wrap">
          {job.name}
        </Link>
      ),
    ],
    [
      "Queue",
      <Link key="queue" to="/queues/$queue" params={{ queue: job.queue || "default" }} className="wrap">
        {job.queue}
      </Link>,
    ],
    ["Priority", priorityText(job)],
    ["Run at", <Moment key="run" at={job.runAt} />],
    ["Created", <Moment key="created" at={job.createdAt} />],
  ] as [string, React.ReactNode][];
  if (job.finishedAt) rows.push(["Ended", <Moment key="finished" at={job.finishedAt} />]);
  if (job.editedAt) rows.push(["Changed by hand", <Moment key="edited" at={job.editedAt} />]);
  if (job.expiresAt) rows.push(["Not to be started after", <Moment key="expires" at={job.expiresAt} />]);
  if (job.flowId)
    rows.push([
      "Flow",
      <Link key="flow" to="/flows/$id" params={{ id: job.flowId }} className="wrap">
        {job.flowId}
      </Link>,
    ]);
  if (job.flowId && job.node)
    rows.push([
      "Node",
      <Link key="node" to="/flows/$id" params={{ id: job.flowId }} search={{ node: job.node }} className="wrap">
        {job.node}
      </Link>,
    ]);
  if (job.startWithin) rows.push(["To be started within", spelt(job.startWithin)]);
  if (job.timeout) rows.push(["Timeout", spelt(job.timeout)]);
  if (job.maxAttempts) rows.push(["Attempts at most", job.maxAttempts]);
  if (job.guarantee) rows.push(["Guarantee", job.guarantee.replaceAll("_", " ")]);
  if (job.dedupeKey)
    rows.push([
      "Dedupe key",
      <code key="dedupe" className="wrap">
        {job.dedupeKey}
      </code>,
    ]);
  if (job.tags.length)
    rows.push([
      "Tags",
      <span key="tags" className="row">
        {job.tags.map((tag, index) => (
          <Link key={index} to="/jobs" search={{ tag }} className="wrap">
            {tag}
          </Link>
        ))}
      </span>,
    ]);
  if (job.dataVersion > 1) rows.push(["Payload version", job.dataVersion]);
  if (job.encrypted) rows.push(["Stored", "with encrypted values"]);
  if (job.suspect)
    rows.push(["Suspect", "It was running when its worker died, so its next attempt runs in a separate process."]);
  if (job.state === "running" && job.leaseUntil) rows.push(["Lease until", <Moment key="lease" at={job.leaseUntil} />]);
  rows.push(["Fencing token", job.token]);
  return (
    <dl className="job-facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="wrap">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function priorityText(job: Detail): string {
  const asked = job.askedPriority;
  return asked && asked !== job.priority ? `${job.priority}, raised from ${asked} by waiting` : String(job.priority);
}
