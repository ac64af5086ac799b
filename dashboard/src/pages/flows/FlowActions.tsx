// What can be done with a flow. What its state or the caller's role does not allow is absent.
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { type Call, CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { flowPath, FLOWS_KEY } from "./flows";
import { canRetry, type Flow, LIVE, retryWords } from "./graph";

export function FlowActions({ flow }: { flow: Flow }) {
  const role = useRole();
  const [open, setOpen] = useState<"cancel" | "retry" | null>(null);
  const close = () => setOpen(null);
  const params = { params: { path: { flow_id: flow.id } } };
  const touches = [FLOWS_KEY, ["job", flow.id], ["jobs"]];
  const cancel = useAct(
    (reason: string) => unwrap(api.POST("/api/flows/{flow_id}/cancel", { ...params, body: { reason } })),
    { touches, onDone: close, quiet: true, done: () => "The flow is cancelled; running jobs were asked to stop." },
  );
  const retry = useAct(() => unwrap(api.POST("/api/flows/{flow_id}/retry", { ...params, body: {} })), {
    touches,
    onDone: close,
    quiet: true,
    done: () => "The failed part of the flow runs again.",
  });
  const live = LIVE.includes(flow.state);
  const left = LIVE.reduce((sum, state) => sum + (flow.counts[state] ?? 0), 0);
  const atLeast = !flow.complete || flow.nodes.some((node) => node.atLeast);
  return (
    <>
      <CallButton calls={calls(flow)} />
      {role.can("operator") && canRetry(flow) && (
        <Button look={flow.state === "failed" ? "primary" : "plain"} onClick={() => setOpen("retry")}>
          Retry
        </Button>
      )}
      {role.can("operator") && live && (
        <Button look="danger" onClick={() => setOpen("cancel")}>
          Cancel flow
        </Button>
      )}
      {open === "cancel" && (
        <ReasonDialog
          title="Cancel this flow?"
          verb="Cancel it"
          danger
          busy={cancel.isPending}
          error={cancel.error?.message}
          onClose={close}
          call={(reason) => cancelCall(flow.id, reason)}
          onConfirm={(reason) => cancel.mutate(reason)}
        >
          <p className="wrap">
            <strong>{flow.name}</strong> is cancelled with {plural(left, "job", "jobs", atLeast)} that have not ended.
            Waiting jobs stop at once, running jobs within about two seconds.
          </p>
        </ReasonDialog>
      )}
      {open === "retry" && (
        <ReasonDialog
          title="Retry this flow?"
          verb="Retry it"
          reason="none"
          busy={retry.isPending}
          error={retry.error?.message}
          onClose={close}
          call={() => retryCall(flow.id)}
          onConfirm={() => retry.mutate()}
        >
          <p className="wrap">
            <strong>{flow.name}</strong>: {retryWords(flow.counts)}, and so do jobs that were cancelled because of them.
            Completed jobs keep their results.
          </p>
        </ReasonDialog>
      )}
    </>
  );
}

function calls(flow: Flow): Call[] {
  const id = pythonLiteral(flow.id);
  const path = flowPath(flow.id);
  const all: Call[] = [
    { title: "This page", path, python: `flow = await scheduler.flows.get(${id})` },
    { title: "Over time", path: `${path}/timeline` },
  ];
  if (LIVE.includes(flow.state)) all.push(cancelCall(flow.id));
  if (canRetry(flow)) all.push(retryCall(flow.id));
  return all;
}

function cancelCall(id: string, reason = "…"): Call {
  return {
    title: "Cancel",
    method: "POST",
    path: `${flowPath(id)}/cancel`,
    body: { reason },
    python: `await scheduler.flows.cancel(${pythonLiteral(id)}, ${pythonLiteral(reason)})`,
  };
}

function retryCall(id: string): Call {
  return {
    title: "Retry",
    method: "POST",
    path: `${flowPath(id)}/retry`,
    body: {},
    python: `await scheduler.flows.retry(${pythonLiteral(id)})`,
  };
}
