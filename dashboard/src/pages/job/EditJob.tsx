// Changing a pending job, and running a job again with other data: both by the handler's schema.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, Problem, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { DataForm, useData } from "./DataForm";
import { type Detail, jobKey, RESERVED, useHandler } from "./job";
import { localOf, NO_OPTIONS, optionErrors, type Options, optionsBody, tagsOf } from "./options";
import { OptionFields } from "./OptionFields";
import type { Schema } from "./schema";

type Props = { job: Detail; onClose: () => void };

/** Webhooks and mails keep their request here; their data has another form than what they were made with. */
function editsData(job: Detail): boolean {
  return !job.name.startsWith(RESERVED);
}

function said(error: Error | null) {
  const problem = error instanceof Problem ? error : null;
  const field = problem?.errors[0]?.field;
  return {
    about: (name: string) => problem?.about(name),
    data: field === undefined || field.startsWith("data") ? problem : null,
  };
}

export function EditJob({ job, onClose }: Props) {
  const handler = useHandler(job.name);
  const schema = (handler.data?.dataSchema ?? null) as Schema | null;
  const data = useData(job.data, handler.data?.version === job.dataVersion ? schema : null);
  const first: Options = {
    ...NO_OPTIONS,
    when: "at",
    at: localOf(job.runAt),
    priority: String(job.priority),
    queue: job.queue,
    tags: job.tags.join(", "),
  };
  const [options, setOptions] = useState(first);
  const save = useAct(
    () => {
      const { dedupeKey: _, ...given } = optionsBody(options);
      const body: Record<string, unknown> = { ...given, tags: tagsOf(options.tags) };
      if (options.when === "at" && options.at === first.at) delete body["runAt"];
      if (options.when === "now") body["delay"] = "0s";
      if (editsData(job) && data.text !== JSON.stringify(job.data, null, 2)) body["data"] = data.value;
      return unwrap(api.PUT("/api/jobs/{id}", { params: { path: { id: job.id } }, body: body as never }));
    },
    { quiet: true, touches: [jobKey(job.id), ["jobs"]], done: () => "The job is changed.", onDone: onClose },
  );
  const refused = said(save.error);
  const bad = data.broken !== undefined || data.misfits.length > 0 || Object.keys(optionErrors(options)).length > 0;
  return (
    <Dialog
      title="Edit this job"
      wide
      onClose={onClose}
      onSubmit={() => !bad && save.mutate()}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" type="submit" busy={save.isPending} disabled={bad}>
            Save
          </Button>
        </>
      }
    >
      <div className="stack">
        <OptionFields options={options} onChange={setOptions} dedupe={false} refused={refused.about} />
        {editsData(job) ? (
          <DataForm data={data} schema={schema} refused={refused.data ? { detail: refused.data.message } : undefined} />
        ) : (
          <>
            <p className="muted">The request of a webhook or a mail is changed over the API.</p>
            {save.error && <p className="field-error">{save.error.message}</p>}
          </>
        )}
        <p className="muted">A hidden value that stays as it is shown stays as it is stored.</p>
      </div>
    </Dialog>
  );
}

export function CopyJob({ job, onClose }: Props) {
  const navigate = useNavigate();
  const handler = useHandler(job.name);
  const schema = (handler.data?.dataSchema ?? null) as Schema | null;
  const initial = JSON.stringify(job.data, null, 2);
  const [changed, setChanged] = useState(false);
  const data = useData(job.data, schema, changed);
  const edited = editsData(job) && data.text !== initial;
  if (edited !== changed) setChanged(edited);
  const [options, setOptions] = useState(NO_OPTIONS);
  const copy = useAct(
    () => {
      const body: Record<string, unknown> = { ...optionsBody(options) };
      if (edited) {
        body["data"] = data.value;
        body["dataVersion"] = handler.data?.version ?? job.dataVersion;
      }
      return unwrap(api.POST("/api/jobs/{job_id}/copy", { params: { path: { job_id: job.id } }, body: body as never }));
    },
    {
      quiet: true,
      touches: [["jobs"]],
      done: (answer) => `A new job was made: ${answer.data.id}`,
      onDone: (answer) => {
        onClose();
        void navigate({ to: "/jobs/$id", params: { id: answer.data.id } });
      },
    },
  );
  const refused = said(copy.error);
  const bad = edited && (data.broken !== undefined || data.misfits.length > 0);
  const badOptions = Object.keys(optionErrors(options)).length > 0;
  return (
    <Dialog
      title="Run again as a new job"
      wide
      onClose={onClose}
      onSubmit={() => !bad && !badOptions && copy.mutate()}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" type="submit" busy={copy.isPending} disabled={bad || badOptions}>
            {edited ? "Run with this data" : "Run with the same data"}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p className="sentence">
          A new job <strong className="wrap">{job.name}</strong> with the options of this one; this job stays as it is.
        </p>
        {editsData(job) ? (
          <DataForm data={data} schema={schema} refused={refused.data ? { detail: refused.data.message } : undefined} />
        ) : (
          <p className="muted">The request of this webhook or mail is copied as it is, hidden values included.</p>
        )}
        <details>
          <summary>Options</summary>
          <OptionFields
            options={options}
            onChange={setOptions}
            usual={{ queue: job.queue, priority: job.priority }}
            refused={refused.about}
          />
        </details>
        {copy.error && !editsData(job) && <p className="field-error">{copy.error.message}</p>}
      </div>
    </Dialog>
  );
}
