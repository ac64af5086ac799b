// Draining one worker: it finishes its jobs, claims no more, and ends.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { place, type Worker } from "./words";

export function drainCall(id: string, reason = "…"): Call {
  return {
    title: "Drain it",
    method: "POST",
    path: `/api/workers/${encodeURIComponent(id)}/drain`,
    body: { reason },
    python: `await scheduler.workers.drain(${pythonLiteral(id)}, reason=${pythonLiteral(reason)})`,
  };
}

export function DrainAction({ worker }: { worker: Worker }) {
  const [asking, setAsking] = useState(false);
  const params = { path: { worker_id: worker.id } };
  const drain = useAct(
    (reason: string) => unwrap(api.POST("/api/workers/{worker_id}/drain", { params, body: { reason } })),
    {
      done: () => `${place(worker)} drains.`,
      onDone: () => setAsking(false),
      quiet: true,
      touches: [["workers"]],
    },
  );
  const cancel = useAct(() => unwrap(api.DELETE("/api/workers/{worker_id}/drain", { params })), {
    done: () => `${place(worker)} claims jobs again.`,
    touches: [["workers"]],
  });
  if (worker.drain)
    return (
      <Button small onClick={() => cancel.mutate()} busy={cancel.isPending}>
        Cancel the drain
      </Button>
    );
  return (
    <>
      <Button small onClick={() => setAsking(true)}>
        Drain…
      </Button>
      {asking && (
        <ReasonDialog
          title={`Drain the worker ${place(worker)}`}
          verb="Drain it"
          danger
          busy={drain.isPending}
          error={drain.error?.message}
          onClose={() => setAsking(false)}
          call={(reason) => drainCall(worker.id, reason)}
          onConfirm={(reason) => drain.mutate(reason)}
        >
          It claims no more jobs, finishes {worker.running ? `its ${plural(worker.running, "running job")}` : "at once"}
          , and ends. A process of <code>mainspring worker</code> is not replaced. Until it has ended, the drain can be
          cancelled.
        </ReasonDialog>
      )}
    </>
  );
}
