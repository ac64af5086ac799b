// Before many jobs are changed: how many, some of them, the new value, and a reason.
import { Link } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, type Schemas, unwrap } from "../../api/client";
import { plural, shortId, shownName } from "../../lib/text";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Dialog } from "../../ui/Dialog";
import { Select, TextField } from "../../ui/Field";
import { ErrorPanel, Skeleton } from "../../ui/Panel";
import { type Meant, type Verb, VERBS } from "./operation";
import "./operations.css";

type Preview = Schemas["OperationPreviewOut"];
type Created = Schemas["OperationCreated"];
type Props = {
  verb: Verb;
  meant: Meant;
  queues: readonly string[];
  onClose: () => void;
  onCreated: (operation: Created) => void;
};

const PRIORITIES = Array.from({ length: 10 }, (_, index): [string, string] => {
  const value = String(index + 1);
  return [value, value === "1" ? "1, first" : value === "10" ? "10, last" : value];
});

export function OperationDialog({ verb, meant, queues, onClose, onCreated }: Props) {
  const words = VERBS[verb];
  const [reason, setReason] = useState("");
  const [priority, setPriority] = useState("5");
  const [queue, setQueue] = useState("");
  const value =
    verb === "set_priority" ? { priority: Number(priority) } : verb === "move" ? { queue: queue.trim() } : {};
  const body = { verb, ...meant, ...value };
  const preview = usePreview(verb, meant);
  const create = useAct(
    async () =>
      (await unwrap(api.POST("/api/operations", { body: { ...body, reason: reason.trim() } as never })))
        .data as Created,
    { touches: [["operations"]], onDone: onCreated, quiet: true },
  );
  const missing = reason.trim() === "" || (verb === "move" && queue.trim() === "");
  const nothing = preview.data?.count === 0 && !preview.data.capped;
  return (
    <Dialog
      title={`${words.label}${preview.data ? `: ${plural(preview.data.count, "job", "jobs", preview.data.capped)}` : ""}`}
      onClose={onClose}
      onSubmit={() => {
        if (!missing && !nothing && preview.data) create.mutate();
      }}
      wide
      footer={
        <>
          <CallButton
            calls={{
              title: "The operation",
              method: "POST",
              path: "/api/operations",
              body: { ...body, reason: reason || "…" },
              python: pythonCall(body, reason || "…"),
            }}
          />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button
            type="submit"
            look={words.danger ? "danger" : "primary"}
            busy={create.isPending}
            disabled={missing || nothing || !preview.data}
          >
            {words.label}
          </Button>
        </>
      }
    >
      <div className="stack">
        {preview.error ? <ErrorPanel error={preview.error} onRetry={() => void preview.refetch()} /> : null}
        {preview.data ? <Shown verb={verb} preview={preview.data} /> : preview.error ? null : <Skeleton rows={3} />}
        {verb === "set_priority" && (
          <Select
            label="New priority"
            value={priority}
            options={PRIORITIES}
            onChange={(event) => setPriority(event.target.value)}
          />
        )}
        {verb === "move" && (
          <TextField
            label="New queue"
            value={queue}
            options={queues}
            maxLength={200}
            onChange={(event) => setQueue(event.target.value)}
            hint="A worker has to serve it."
          />
        )}
        <TextField
          label="Reason"
          hint="It is stored in the audit log. The operation starts after ten seconds; until then you can undo it."
          value={reason}
          maxLength={1000}
          autoFocus
          onChange={(event) => setReason(event.target.value)}
        />
        {create.error && (
          <p className="field-error" role="alert">
            {create.error.message}
          </p>
        )}
      </div>
    </Dialog>
  );
}

/** The dry run. A new value does not change which jobs are meant, so that it is asked for only once. */
function usePreview(verb: Verb, meant: Meant) {
  return useQuery({
    queryKey: ["operations", "preview", verb, meant],
    queryFn: async () => {
      const placeholder = verb === "set_priority" ? { priority: 5 } : verb === "move" ? { queue: "default" } : {};
      const body = { verb, ...meant, ...placeholder, dryRun: true };
      try {
        return (await unwrap(api.POST("/api/operations", { body: body as never }))).data as unknown as Preview;
      } catch (error) {
        // A key with a scope may not reach the queue of the dry run, which is only an example.
        if (verb !== "move" || !(error instanceof Problem) || error.status !== 403) throw error;
        return {
          count: "ids" in meant ? meant.ids.length : 0,
          capped: !("ids" in meant),
          sample: [] as Preview["sample"],
        } as Preview;
      }
    },
    staleTime: 0,
    gcTime: 0,
  });
}

function Shown({ verb, preview }: { verb: Verb; preview: Preview }) {
  const words = VERBS[verb];
  const rest = preview.count - preview.sample.length;
  if (preview.count === 0 && !preview.capped)
    return (
      <p>
        No job is meant: {words.label.toLowerCase()} works on {words.states.join(", ")} jobs.
      </p>
    );
  if (preview.count === 0)
    return (
      <p>
        Counting stopped before the first match. Older jobs may still match; the operation acts on every job that does.
      </p>
    );
  return (
    <div>
      <p>
        <strong>{plural(preview.count, "job", "jobs", preview.capped)}</strong>{" "}
        {preview.capped ? "are meant; counting stopped there." : preview.count === 1 ? "is meant." : "are meant."} Jobs
        created from now on are not touched.
      </p>
      <ul className="operation-sample">
        {preview.sample.map((job) => (
          <li key={job.id}>
            <StateBadge job={job} />
            <Link to="/jobs/$id" params={{ id: job.id }} className="wrap">
              {job.label || shownName(job.name)}
            </Link>
            <span className="mono muted">{shortId(job.id)}</span>
          </li>
        ))}
        {rest > 0 && <li className="muted">and {plural(rest, "other", "others", preview.capped)}</li>}
      </ul>
    </div>
  );
}

function pythonCall(body: Record<string, unknown>, reason: string): string {
  const { verb, filter, ...rest } = body;
  const snake = filter as Record<string, unknown> | undefined;
  const given = snake && Object.fromEntries(Object.entries(snake).map(([key, value]) => [snakeCase(key), value]));
  const options = Object.entries({ ...rest, reason }).map(([key, value]) => `    ${key}=${pythonLiteral(value)},`);
  const first = given ? [`    ${pythonLiteral(given)},`] : [];
  return [
    `operation = await scheduler.operations.create(`,
    `    ${pythonLiteral(verb)},`,
    ...first,
    ...options,
    ")",
  ].join("\n");
}

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
