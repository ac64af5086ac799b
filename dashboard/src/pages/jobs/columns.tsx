// The columns of the table of jobs.
import { Link } from "@tanstack/react-router";
import { shortId, shownName } from "../../lib/text";
import { StateBadge } from "../../ui/Badge";
import type { Column } from "../../ui/Table";
import { Duration, Time } from "../../ui/Time";
import type { ColumnName } from "./prefs";
import type { Job } from "./read";
import type { Row } from "./rows";

type JobRow = Row<Job>;
export const TITLES: Record<ColumnName, string> = {
  state: "State",
  name: "Name",
  id: "Id",
  queue: "Queue",
  priority: "Priority",
  when: "When",
  created: "Created",
  tries: "Attempts",
  took: "Took",
  worker: "Worker",
  detail: "What happens",
  tags: "Tags",
};

const CELLS: Record<ColumnName, Omit<Column<JobRow>, "key" | "title">> = {
  state: {
    // What a job that was not read again has become is not known: its last state has no colour.
    cell: ({ job, gone }) => <StateBadge job={job} quiet={gone !== null} />,
  },
  name: {
    cell: ({ job }) => (
      <>
        <Link to="/jobs/$id" params={{ id: job.id }} className="jobs-name" title={job.label || job.name}>
          {job.label || shownName(job.name)}
        </Link>
        {job.label && <span className="muted"> {shownName(job.name)}</span>}
      </>
    ),
  },
  id: {
    cell: ({ job }) => (
      <span className="mono muted jobs-whole" title={job.id}>
        {shortId(job.id)}
      </span>
    ),
    minor: true,
  },
  queue: {
    cell: ({ job }) => (
      <span className="jobs-short" title={job.queue}>
        {job.queue}
      </span>
    ),
    minor: true,
  },
  priority: { cell: ({ job }) => job.priority, align: "right", minor: true },
  when: { cell: ({ job }) => <When job={job} /> },
  created: { cell: ({ job }) => <Time at={job.createdAt} />, minor: true },
  tries: { cell: ({ job }) => job.tries, align: "right", minor: true },
  took: { cell: ({ job }) => <Took job={job} />, align: "right", minor: true },
  worker: {
    cell: ({ job }) => (
      <span className="mono jobs-short" title={job.worker ?? undefined}>
        {job.worker ?? ""}
      </span>
    ),
    minor: true,
  },
  detail: { cell: ({ job, gone }) => <Detail job={job} gone={gone} />, minor: true },
  tags: { cell: ({ job }) => job.tags.join(" "), minor: true },
};

export function columnsOf(chosen: readonly ColumnName[]): Column<JobRow>[] {
  return chosen.map((key) => ({ key, title: TITLES[key], ...CELLS[key] }));
}

/** The time that matters in a state: when it ended, began or is due. */
function When({ job }: { job: Job }) {
  const at = job.finishedAt ?? (job.state === "running" ? job.startedAt : job.runAt);
  return (
    <span className="jobs-when">
      <Time at={at} />
    </span>
  );
}

/** How long the last attempt ran, or the running one has been running. */
function Took({ job }: { job: Job }) {
  if (job.state === "running") return <Duration since={job.startedAt} />;
  return job.duration === null || job.duration === undefined ? null : <Duration ms={job.duration} />;
}

/** The one thing to know about a job: its progress, what it waits for, or the first line of its error. */
function Detail({ job, gone }: JobRow) {
  if (gone === "unmatched") return <span className="muted">changed since; it does not match any more</span>;
  if (gone) return <span className="muted">not on this page any more; open it to see its state</span>;
  if (job.cancelRequested && job.state === "running") return <span className="muted">was asked to stop</span>;
  if (job.progress && job.state === "running")
    return <ProgressBar percent={job.progress.percent} note={job.progress.note} />;
  if (job.waitingFor)
    return (
      <span className="jobs-line" title={job.waitingFor.note}>
        {job.waitingFor.note}
      </span>
    );
  if (job.error) {
    const line = `${job.error.type}: ${job.error.message}`.split("\n", 1)[0] ?? "";
    return (
      <span className="jobs-line" title={line}>
        {line}
      </span>
    );
  }
  return null;
}

export function ProgressBar({ percent, note }: { percent: number; note?: string | null }) {
  const value = Math.max(0, Math.min(100, Number(percent) || 0));
  return (
    <span className="jobs-progress">
      <progress max={100} value={value} aria-label="Progress" />
      <span>{Math.round(value)} %</span>
      {note && <span className="muted jobs-line">{note}</span>}
    </span>
  );
}
