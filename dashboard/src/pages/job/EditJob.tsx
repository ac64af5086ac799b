// Changing a pending job, and running a job again with other data.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, Problem, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Dialog } from "../../ui/Dialog";
import { hiddenPlaces } from "./DataForm";
import { type Detail, jobKey, jobPath } from "./job";
import { localOf, NO_OPTIONS, optionErrors, type Options, optionsBody, tagsOf } from "./options";
import { OptionFields } from "./OptionFields";
import { useWork } from "./work";

type Props = { job: Detail; onClose: () => void };

function about(error: Error | null) {
  return (name: string) => (error instanceof Problem ? error.about(name) : undefined);
}

/** The options that were changed; the others are not sent. The form does not show all: a tag may have a comma, and the
 * priority of a job that waits is raised. */
function changedOptions(first: Options, options: Options): Record<string, unknown> {
  const { dedupeKey: _, ...body }: Record<string, unknown> = { ...optionsBody(options), tags: tagsOf(options.tags) };
  for (const name of ["priority", "queue", "tags"] as const) if (options[name] === first[name]) delete body[name];
  if (options.when === "at" && options.at === first.at) delete body["runAt"];
  if (options.when === "now") body["delay"] = "0s";
  return body;
}

export function EditJob({ job, onClose }: Props) {
  const work = useWork(job, false);
  const first: Options = {
    ...NO_OPTIONS,
    when: "at",
    at: localOf(job.runAt),
    priority: String(job.priority),
    queue: job.queue,
    tags: job.tags.join(", "),
  };
  const [options, setOptions] = useState(first);
  const body: Record<string, unknown> = { ...changedOptions(first, options), ...work.body };
  const save = useAct(
    () => unwrap(api.PUT("/api/jobs/{id}", { params: { path: { id: job.id } }, body: body as never })),
    { quiet: true, touches: [jobKey(job.id), ["jobs"]], done: () => "The job is changed.", onDone: onClose },
  );
  const bad = work.bad || Object.keys(optionErrors(options)).length > 0;
  return (
    <Dialog
      title="Edit this job"
      wide
      onClose={onClose}
      onSubmit={() => !bad && save.mutate()}
      footer={
        <>
          <CallButton calls={{ method: "PUT", path: jobPath(job.id), body }} />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" type="submit" busy={save.isPending} disabled={bad}>
            Save
          </Button>
        </>
      }
    >
      <div className="stack">
        <OptionFields options={options} onChange={setOptions} dedupe={false} refused={about(save.error)} />
        {work.fields(save.error)}
        {hiddenPlaces(job.data, []).length > 0 && (
          <p className="muted">If you leave a hidden value as it is shown, the stored value is kept.</p>
        )}
      </div>
    </Dialog>
  );
}

export function CopyJob({ job, onClose }: Props) {
  const navigate = useNavigate();
  const work = useWork(job, true);
  const edited = Object.keys(work.body).length > 0;
  const [options, setOptions] = useState(NO_OPTIONS);
  const body: Record<string, unknown> = { ...optionsBody(options), ...work.body };
  const copy = useAct(
    () => unwrap(api.POST("/api/jobs/{job_id}/copy", { params: { path: { job_id: job.id } }, body: body as never })),
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
  const bad = work.bad || Object.keys(optionErrors(options)).length > 0;
  return (
    <Dialog
      title="Run again as a new job"
      wide
      onClose={onClose}
      onSubmit={() => !bad && copy.mutate()}
      footer={
        <>
          <CallButton calls={{ method: "POST", path: `${jobPath(job.id)}/copy`, body }} />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" type="submit" busy={copy.isPending} disabled={bad}>
            {edited ? "Run with this data" : "Run with the same data"}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p className="sentence">
          A new job <strong className="wrap">{job.name}</strong> with the options of this one; this job stays as it is.
        </p>
        {work.fields(copy.error)}
        <details>
          <summary>Options</summary>
          <OptionFields
            options={options}
            onChange={setOptions}
            usual={{ queue: job.queue, priority: job.priority }}
            refused={about(copy.error)}
          />
        </details>
      </div>
    </Dialog>
  );
}
