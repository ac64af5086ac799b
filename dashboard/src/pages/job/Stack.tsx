// Where a running handler is now: asked of its worker, shown with its age, and marked when that run has ended.
import { useEffect, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import { Text } from "./Attempts";
import { type Detail, jobKey } from "./job";

const PATIENCE = 8000;

export function StackPanel({ job }: { job: Detail }) {
  const client = useQueryClient();
  const [askedAt, setAskedAt] = useState<string | null>(null);
  const [late, setLate] = useState(false);
  const ask = useAct(
    async () =>
      (await unwrap(api.POST("/api/jobs/{job_id}/stack", { params: { path: { job_id: job.id } }, body: {} }))).data,
    {
      touches: [],
      onDone: (answer) => {
        setAskedAt(answer.askedAt);
        setLate(false);
      },
    },
  );
  const stack = job.stack;
  const waits = askedAt !== null && !(stack?.at && stack.at >= askedAt);
  useEffect(() => {
    if (!waits) return;
    const again = window.setInterval(() => void client.invalidateQueries({ queryKey: jobKey(job.id) }), 700);
    const end = window.setTimeout(() => {
      setLate(true);
      setAskedAt(null);
    }, PATIENCE);
    return () => {
      window.clearInterval(again);
      window.clearTimeout(end);
    };
  }, [waits, client, job.id]);
  const runs = job.state === "running";
  if (!runs && !stack) return null;
  return (
    <Panel
      title="Stack of the handler"
      actions={
        runs && (
          <Button small busy={ask.isPending || waits} onClick={() => ask.mutate()}>
            {waits ? "Asking the worker …" : "Where is it now?"}
          </Button>
        )
      }
    >
      {late && (
        <p className="field-error" role="alert">
          The worker has not answered. It may be busy, stopped or disconnected from the database.
        </p>
      )}
      {stack ? (
        <>
          <p className="row">
            <Time at={stack.at} /> {stack.stale && <Badge tone="warn">stale: that run has ended</Badge>}
          </p>
          <Text text={stack.text} name="stack" />
        </>
      ) : (
        <p className="muted">
          The worker reports the stack of the handler, without any values, within about two seconds.
        </p>
      )}
    </Panel>
  );
}
