// What can be done with a job. What its state or the caller's role does not allow is absent.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { CallButton, type Call } from "../../ui/Call";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Menu } from "../../ui/Menu";
import { pythonLiteral } from "../../ui/commands";
import { CopyJob, EditJob } from "./EditJob";
import { type Detail, jobKey, jobPath, RESERVED } from "./job";
import { MOST } from "./sameName";

const ENDED = ["completed", "failed", "cancelled"];
type Open = "cancel" | "delete" | "edit" | "copy" | null;

export function Actions({ job }: { job: Detail }) {
  const role = useRole();
  const navigate = useNavigate();
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const params = { params: { path: { job_id: job.id } } };
  const touches = [jobKey(job.id), ["jobs"]];
  const retry = useAct(() => unwrap(api.POST("/api/jobs/{job_id}/retry", { ...params, body: {} })), {
    touches,
    done: () => "The job runs again, as a new round of attempts.",
  });
  const run = useAct(() => unwrap(api.POST("/api/jobs/{job_id}/run", { ...params, body: {} })), {
    touches,
    done: () => "The job is due now.",
  });
  const cancel = useAct(
    (reason: string) => unwrap(api.POST("/api/jobs/{job_id}/cancel", { ...params, body: { reason } })),
    {
      touches,
      quiet: true,
      onDone: close,
      done: (answer) =>
        answer.data.state === "running" ? "The worker was asked to stop the job." : "The job is cancelled.",
    },
  );
  const remove = useAct(() => unwrap(api.DELETE("/api/jobs/{id}", { params: { path: { id: job.id } } })), {
    touches: [["jobs"]],
    quiet: true,
    done: () => "The job is deleted.",
    onDone: () => void navigate({ to: "/jobs" }),
  });
  const pending = job.state === "pending";
  const live = pending || job.state === "running" || job.state === "blocked";
  return (
    <>
      <CallButton calls={calls(job, role.can("operator"))} />
      {role.can("operator") && (
        <>
          {pending && (
            <Button busy={run.isPending} onClick={() => run.mutate()}>
              Run now
            </Button>
          )}
          {pending && <Button onClick={() => setOpen("edit")}>Edit</Button>}
          {ENDED.includes(job.state) && (
            <Button
              look={job.state === "failed" ? "primary" : "plain"}
              busy={retry.isPending}
              onClick={() => retry.mutate()}
            >
              Retry
            </Button>
          )}
          <Button onClick={() => setOpen("copy")}>Run again, edited</Button>
          {live && (
            <Button look="danger" onClick={() => setOpen("cancel")}>
              Cancel job
            </Button>
          )}
          {job.state !== "running" && (
            <Menu
              label="⋯"
              name="More actions"
              items={[{ label: "Delete this job", danger: true, onSelect: () => setOpen("delete") }]}
            />
          )}
        </>
      )}
      {open === "cancel" && (
        <ReasonDialog
          title="Cancel this job?"
          verb={job.state === "running" ? "Ask it to stop" : "Cancel it"}
          danger
          busy={cancel.isPending}
          error={cancel.error?.message}
          onClose={close}
          call={(reason) => cancelCall(job.id, reason)}
          onConfirm={(reason) => cancel.mutate(reason)}
        >
          <p className="wrap">
            <strong>{job.name}</strong>{" "}
            {job.state === "running"
              ? "runs. Its worker stops the handler within about two seconds."
              : "will not be started. It can be retried later."}
          </p>
        </ReasonDialog>
      )}
      {open === "delete" && (
        <ReasonDialog
          title="Delete this job?"
          verb="Delete it"
          danger
          reason="none"
          busy={remove.isPending}
          error={remove.error?.message}
          onClose={close}
          call={() => deleteCall(job.id)}
          onConfirm={() => remove.mutate()}
        >
          <p className="wrap">
            <strong>{job.name}</strong> and its history, {plural(job.attempts.length + job.attemptsCut, "attempt")}, are
            gone for good.
          </p>
        </ReasonDialog>
      )}
      {open === "edit" && <EditJob job={job} onClose={close} />}
      {open === "copy" && <CopyJob job={job} onClose={close} />}
    </>
  );
}

function cancelCall(id: string, reason = "…"): Call {
  return {
    title: "Cancel",
    method: "POST",
    path: `${jobPath(id)}/cancel`,
    body: { reason },
    python: `await scheduler.cancel(${pythonLiteral(id)}, ${pythonLiteral(reason)})`,
  };
}

function deleteCall(id: string): Call {
  return {
    title: "Delete",
    method: "DELETE",
    path: jobPath(id),
    python: `await scheduler.delete(${pythonLiteral(id)})`,
  };
}

/** The page and what its buttons do; the verbs are for operators. */
function calls(job: Detail, operator: boolean): Call[] {
  const id = pythonLiteral(job.id);
  const path = jobPath(job.id);
  const all: Call[] = [
    { title: "This page", path: `${path}/detail`, python: `job = await scheduler.get_job(${id})` },
    { title: "Why it does not run", path: `${path}/explain`, python: `print(await scheduler.explain(${id}))` },
    { title: "Beside the last success", path: `${path}/compare` },
  ];
  if (job.name && !job.name.startsWith(RESERVED))
    all.push({
      title: "The latest of this name",
      path: `/api/jobs/search?name=${encodeURIComponent(job.name)}&limit=${MOST}`,
      python: `page = await scheduler.search(name=${pythonLiteral(job.name)}, limit=${MOST})`,
    });
  if (!operator) return all;
  if (ENDED.includes(job.state))
    all.push({
      title: "Retry",
      method: "POST",
      path: `${path}/retry`,
      body: {},
      python: `await scheduler.retry(${id})`,
    });
  if (job.state === "pending")
    all.push({
      title: "Run now",
      method: "POST",
      path: `${path}/run`,
      body: {},
      python: `await scheduler.run_now(${id})`,
    });
  if (job.state === "running")
    all.push({
      title: "Its stack",
      method: "POST",
      path: `${path}/stack`,
      body: {},
      python: `await scheduler.workers.ask_stack(${id})`,
    });
  all.push({ title: "Run again as a new job", method: "POST", path: `${path}/copy`, body: {} });
  all.push(job.state === "pending" || job.state === "running" ? cancelCall(job.id) : deleteCall(job.id));
  return all;
}
