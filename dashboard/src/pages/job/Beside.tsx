// The jobs around a job, and what differs from the last success of its name.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { ExactNumber } from "../../lib/json";
import { duration } from "../../lib/time";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Loaded, Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import "../../ui/Table.css";
import { diffLines } from "./diff";
import { type Comparison, type Detail, useComparison, useRelated } from "./job";

type Brief = Schemas["BriefJob"];

export function Related({ job }: { job: Detail }) {
  const query = useRelated(job.id);
  return (
    <Panel title="Related jobs">
      <Loaded query={query} rows={2}>
        {(found) => (
          <div className="stack">
            {job.scheduleId && (
              <p className="sentence">
                Made by the schedule{" "}
                <Link to="/schedules/$id" params={{ id: job.scheduleId }} className="wrap">
                  {job.scheduleId}
                </Link>
                {job.scheduledFor && (
                  <>
                    {" "}
                    for its firing <Time at={job.scheduledFor} />
                  </>
                )}
                .
              </p>
            )}
            <Links title="Its parent" jobs={found.parent ? [found.parent] : []} />
            <Links title="Its children" jobs={found.children} more={!found.childrenComplete} />
            {!job.flowId && found.children.some((one) => one.id.startsWith(`${job.id}.`)) && (
              <p className="sentence">
                <Link to="/flows/$id" params={{ id: job.id }}>
                  All of them as a flow
                </Link>
              </p>
            )}
            <Links title="Other runs of its schedule" jobs={found.runs} />
            <Links title="Holds its dedupe key now" jobs={found.holder ? [found.holder] : []} />
            {!job.scheduleId && !found.parent && !found.holder && found.children.length + found.runs.length === 0 && (
              <p className="muted">
                It is not related to other jobs by a schedule, a parent, children or a dedupe key.
              </p>
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

function Links({ title, jobs, more }: { title: string; jobs: readonly Brief[]; more?: boolean }) {
  if (jobs.length === 0) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul className="job-links">
        {jobs.map((one) => (
          <li key={one.id} className="row">
            <StateBadge job={one} />
            <Link to="/jobs/$id" params={{ id: one.id }} className="wrap">
              {one.name}
            </Link>
            <span className="muted">
              <Time at={one.finishedAt ?? one.scheduledFor ?? one.runAt} />
            </span>
          </li>
        ))}
      </ul>
      {more && <p className="muted">There may be more.</p>}
    </div>
  );
}

export function Compare({ job }: { job: Detail }) {
  const [wanted, setWanted] = useState(job.state === "failed");
  const query = useComparison(job.id, wanted);
  return (
    <Panel title="Beside the last success">
      {!wanted ? (
        <p className="row">
          <span className="muted">What differs from the last job of this name that completed?</span>
          <Button small onClick={() => setWanted(true)}>
            Compare
          </Button>
        </p>
      ) : (
        <Loaded query={query} rows={3}>
          {(found) => <Differences found={found} />}
        </Loaded>
      )}
    </Panel>
  );
}

function Differences({ found }: { found: Comparison }) {
  const { other, before, after, data = [], result = [] } = found;
  if (!other || !before || !after)
    return (
      <p className="muted">
        {found.complete
          ? "No earlier job of this name that is still stored has completed."
          : "None of the latest 1,000 completed jobs has this name."}
      </p>
    );
  const facts: [string, unknown, unknown][] = (
    [
      ["duration", duration(before.duration), duration(after.duration)],
      ["attempts", before.tries, after.tries],
      ["worker", before.worker ?? "–", after.worker ?? "–"],
      ["Mainspring", before.workerVersion ?? "–", after.workerVersion ?? "–"],
      ["payload version", before.dataVersion, after.dataVersion],
      ["queue", before.queue, after.queue],
      ["priority", before.priority, after.priority],
    ] as [string, unknown, unknown][]
  ).filter(([, one, two]) => one !== two);
  return (
    <div className="stack">
      <p className="sentence">
        The last success is{" "}
        <Link to="/jobs/$id" params={{ id: other.id }}>
          {other.name}
        </Link>{" "}
        <Time at={other.finishedAt} />.{data.length === 0 && " The data is the same."}
      </p>
      <Table
        caption="Differences"
        rows={[
          ...facts.map(([path, one, two]) => ({ path, kind: "changed", before: one, after: two })),
          ...data.map((one) => ({ ...one, path: one.path ? `data.${one.path}` : "data" })),
          ...result.map((one) => ({ ...one, path: one.path ? `result.${one.path}` : "result" })),
        ]}
      />
      {(!found.dataComplete || !found.resultComplete) && <p className="muted">There are more differences.</p>}
      {(before.log.length > 0 || after.log.length > 0) && (
        <details>
          <summary>Logs beside each other</summary>
          <pre className="job-diff" tabIndex={0} role="group" aria-label="Differences of the logs">
            {diffLines(before.log, after.log).map((line, index) => (
              <div key={index} className={`job-diff-${line.side}`}>
                {line.side === "both" ? "  " : line.side === "before" ? "- " : "+ "}
                {line.text}
              </div>
            ))}
          </pre>
        </details>
      )}
    </div>
  );
}

type Row = { path: string; kind: string; before?: unknown; after?: unknown };

function Table({ caption, rows }: { caption: string; rows: Row[] }) {
  if (rows.length === 0) return <p className="muted">Nothing else differs.</p>;
  return (
    <div className="table-scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Where</th>
            <th scope="col">Last success</th>
            <th scope="col">This job</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <th scope="row" className="mono wrap">
                {row.path}
              </th>
              <td className="mono wrap">
                {row.kind === "added" ? <i className="muted">absent</i> : shown(row.before)}
              </td>
              <td className="mono wrap">
                {row.kind === "removed" ? (
                  <i className="muted">absent</i>
                ) : row.kind === "hidden" ? (
                  <i className="muted">hidden, not compared</i>
                ) : (
                  shown(row.after)
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function shown(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "–");
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
