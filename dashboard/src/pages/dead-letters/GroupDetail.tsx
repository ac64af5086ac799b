// One group of dead letters: the stack of its latest, and its jobs.
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { type Schemas } from "../../api/client";
import { useRole } from "../../api/session";
import { shortId, shownName } from "../../lib/text";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { CopyButton } from "../../ui/Copy";
import { pythonLiteral } from "../../ui/commands";
import { Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { type Group, useGroupJobs, useSample } from "./data";
import { GroupActions, redriveCall } from "./GroupActions";

type Job = Schemas["JobOut"];

export function GroupDetail({ group, onClose }: { group: Group; onClose: () => void }) {
  const { can } = useRole();
  const print = pythonLiteral(group.fingerprint);
  const calls = [
    {
      title: "Its jobs",
      path: `/api/dead-letters?fingerprint=${encodeURIComponent(group.fingerprint)}`,
      python: `jobs = [job async for job in scheduler.dead_letters.find(fingerprint=${print})]`,
    },
    ...(can("operator") ? [redriveCall("retry", group.fingerprint), redriveCall("discard", group.fingerprint)] : []),
  ];
  const actions = (
    <>
      <CallButton calls={calls} />
      {can("operator") && <GroupActions group={group} />}
      <Button small look="quiet" aria-label="Close the group" onClick={onClose}>
        ✕
      </Button>
    </>
  );
  // The panel lies below the table: a click on a group of the first rows would seem to do nothing.
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void place.current?.scrollIntoView?.({ block: "nearest" });
  }, []);
  return (
    <div ref={place} className="dead-detail">
      <Panel
        title={<span className="wrap">{`${shownName(group.name)}: ${group.errorType || "no error"}`}</span>}
        actions={actions}
      >
        <div className="stack">
          <Sample group={group} />
          <Jobs group={group} />
        </div>
      </Panel>
    </div>
  );
}

function Sample({ group }: { group: Group }) {
  const query = useSample(group.sampleJobId);
  return (
    <Loaded query={query} rows={4}>
      {(job) => {
        const text =
          job.error?.stack || job.error?.message || group.message || "The error has no message and no stack.";
        return (
          <div>
            <div className="row spread">
              <h3 className="dead-sample">
                The latest,{" "}
                <Link to="/jobs/$id" params={{ id: job.id }}>
                  {shortId(job.id)}
                </Link>
              </h3>
              <CopyButton text={text} />
            </div>
            <pre className="dead-stack" tabIndex={0}>
              {text}
            </pre>
          </div>
        );
      }}
    </Loaded>
  );
}

const COLUMNS: Column<Job>[] = [
  {
    key: "id",
    title: "Job",
    cell: (job) => (
      <Link to="/jobs/$id" params={{ id: job.id }} className="mono nowrap">
        {shortId(job.id)}
      </Link>
    ),
  },
  { key: "queue", title: "Queue", cell: (job) => <span className="nowrap">{job.queue}</span> },
  { key: "message", title: "Message", cell: (job) => <span className="dead-line">{job.error?.message ?? "–"}</span> },
  { key: "tries", title: "Attempts", align: "right", minor: true, cell: (job) => job.tries },
  { key: "at", title: "Failed", align: "right", width: "120px", cell: (job) => <Time at={job.finishedAt} /> },
];

function Jobs({ group }: { group: Group }) {
  const query = useGroupJobs(group.fingerprint);
  return (
    <Loaded query={query} rows={6}>
      {(found) => (
        <div>
          <Table
            caption="Dead letters of this group"
            columns={COLUMNS}
            rows={found.pages.flatMap((page) => page.data)}
            id={(job) => job.id}
            empty={<p className="muted">None is left: they were retried or discarded.</p>}
          />
          {query.hasNextPage && (
            <Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>
              Show more
            </Button>
          )}
        </div>
      )}
    </Loaded>
  );
}
