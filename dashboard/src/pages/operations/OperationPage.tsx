// One operation: what it does to which jobs, why and by whom, how far it is, and which jobs it left alone.
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { PageHead } from "../../app/PageHead";
import { count, plural } from "../../lib/text";
import { Badge } from "../../ui/Badge";
import { CallButton } from "../../ui/Call";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Table } from "../../ui/Table";
import { Moment } from "../../ui/Time";
import type { Schemas } from "../../api/client";
import { ended, sentence } from "./operation";
import { Bar, CancelButton, OperationBadge, useOperation } from "./OperationProgress";
import "./operations.css";

type Detail = Schemas["OperationDetail"];

export default function OperationPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useOperation(id);
  return (
    <>
      {!query.data && <PageHead title="Operation" name={`Operation ${id}`} />}
      <Loaded query={query} rows={8}>
        {(operation) => (
          <div className="stack">
            <PageHead title={sentence(operation)}>
              <CallButton
                calls={[
                  {
                    path: `/api/operations/${encodeURIComponent(id)}`,
                    python: `await scheduler.operations.get(${JSON.stringify(id)})`,
                  },
                  ...(ended(operation)
                    ? []
                    : [
                        {
                          title: operation.state === "waiting" ? "Undo it" : "Cancel the rest",
                          method: "POST" as const,
                          path: `/api/operations/${encodeURIComponent(id)}/cancel`,
                          python: `await scheduler.operations.cancel(${JSON.stringify(id)})`,
                        },
                      ]),
                ]}
              />
              <OperationBadge state={operation.state} />
              <CancelButton operation={operation} />
            </PageHead>
            <Panel title="Progress">
              <Bar operation={operation} />
              <p className="muted">
                {count(operation.progress.examined)} of {plural(operation.count, "job", "jobs", operation.capped)}{" "}
                examined: {count(operation.progress.changed)} changed, {count(operation.progress.skipped)} skipped since
                they no longer matched, {count(operation.progress.refused)} refused.
              </p>
              {operation.error && <p className="field-error wrap">{operation.error}</p>}
              {operation.state === "waiting" && (
                <p className="muted">You can undo it until it starts: no job is changed before that.</p>
              )}
            </Panel>
            <Panel title="Which jobs, why and when">
              <Facts operation={operation} />
            </Panel>
            <Panel title="Jobs that were left alone" flush>
              <Table
                caption="Jobs that were left alone"
                rows={operation.progress.reasons}
                id={(one) => one.jobId}
                columns={[
                  {
                    key: "job",
                    title: "Job",
                    cell: (one) => (
                      <Link to="/jobs/$id" params={{ id: one.jobId }} className="mono">
                        {one.jobId}
                      </Link>
                    ),
                  },
                  {
                    key: "outcome",
                    title: "Outcome",
                    cell: (one) => <Badge tone={one.outcome === "refused" ? "warn" : "neutral"}>{one.outcome}</Badge>,
                  },
                  { key: "reason", title: "Why", cell: (one) => one.reason },
                ]}
                empty={<Empty title={ended(operation) ? "None" : "None so far"} />}
              />
            </Panel>
          </div>
        )}
      </Loaded>
    </>
  );
}

function Facts({ operation }: { operation: Detail }) {
  const facts: [string, ReactNode][] = [
    ["Reason", operation.reason],
    ["By", operation.createdBy ?? "–"],
    ["Created", <Moment key="c" at={operation.createdAt} />],
    operation.startedAt
      ? ["Started", <Moment key="b" at={operation.startedAt} />]
      : ["Starts", <Moment key="s" at={operation.startsAt} />],
    ["Ended", <Moment key="e" at={operation.finishedAt} />],
    ["Only jobs created until", <Moment key="t" at={operation.cutoff} />],
    ...Object.entries(operation.filter ?? {})
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([key, value]): [string, ReactNode] => [
        `Filter: ${key}`,
        <code key={key}>{typeof value === "object" ? JSON.stringify(value) : String(value)}</code>,
      ]),
  ];
  if (operation.named) facts.push(["Named by id", plural(operation.named, "job")]);
  return (
    <dl className="operation-facts">
      {facts.map(([term, value]) => (
        <Fact key={term} term={term} value={value} />
      ))}
    </dl>
  );
}

function Fact({ term, value }: { term: string; value: ReactNode }) {
  return (
    <>
      <dt>{term}</dt>
      <dd>{value}</dd>
    </>
  );
}
