// An operation under way: undone before it starts, cancelled later, and what has become of its jobs.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useAct } from "../../api/act";
import { useRole } from "../../api/session";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { useNow } from "../../ui/Time";
import { ended, type Operation, outcome, percent, sentence } from "./operation";
import { cancelOperation, readOperation } from "./requests";
import "./operations.css";

/** An operation as it is now, read every second until it has ended. */
export function useOperation(id: string) {
  return useQuery({
    queryKey: ["operations", id],
    queryFn: () => readOperation(id),
    refetchInterval: (query) => (query.state.data && ended(query.state.data) ? false : 1000),
  });
}

export function OperationProgress({ id, onDismiss }: { id: string; onDismiss?: () => void }) {
  const query = useOperation(id);
  const client = useQueryClient();
  const over = query.data ? ended(query.data) : false;
  const before = useRef(over);
  useEffect(() => {
    if (over && !before.current) void client.invalidateQueries({ queryKey: ["jobs"] });
    before.current = over;
  }, [over, client]);
  const place = useRef<HTMLElement>(null);
  // The button that made it is gone with the selection; the one that undoes it is within, for ten seconds.
  useEffect(() => place.current?.focus(), []);
  const operation = query.data;
  return (
    <section
      ref={place}
      tabIndex={-1}
      className="operation-progress"
      aria-label="Operation under way"
      aria-live="polite"
    >
      {operation ? (
        <>
          <div className="row spread">
            <div className="row">
              <OperationBadge state={operation.state} />
              <Link to="/operations/$id" params={{ id }}>
                {sentence(operation)}
              </Link>
              <span className="muted">{operation.state === "waiting" ? "" : outcome(operation)}</span>
            </div>
            <div className="row">
              <CancelButton operation={operation} />
              {over && onDismiss && (
                <Button small look="quiet" onClick={onDismiss}>
                  Dismiss
                </Button>
              )}
            </div>
          </div>
          <Bar operation={operation} />
          {operation.error && <p className="field-error wrap">{operation.error}</p>}
        </>
      ) : (
        <span className="muted">{query.error ? query.error.message : "Reading the operation …"}</span>
      )}
    </section>
  );
}

/** Undo while it waits, cancel while it runs. */
export function CancelButton({ operation }: { operation: Pick<Operation, "id" | "state" | "startsAt" | "createdAt"> }) {
  const now = useNow();
  const role = useRole();
  const waiting = operation.state === "waiting";
  const stop = useAct(() => cancelOperation(operation.id), {
    done: (after) => (after.startedAt ? "Cancelled; changes already made remain." : "Undone: no job was changed."),
    touches: [["operations"]],
  });
  if (ended(operation) || !role.can("operator")) return null;
  // The browser knows the server's clock to the second: no more than the whole wait is ever left.
  const wait = Date.parse(operation.startsAt) - Date.parse(operation.createdAt);
  const left = Math.max(0, Math.ceil(Math.min(wait, Date.parse(operation.startsAt) - now) / 1000));
  return (
    <Button small busy={stop.isPending} onClick={() => stop.mutate()}>
      {waiting ? (left > 0 ? `Undo (${left} s)` : "Undo: no worker has started it") : "Cancel the rest"}
    </Button>
  );
}

export function Bar({ operation }: { operation: Pick<Operation, "count" | "capped" | "progress" | "state"> }) {
  const done = percent(operation);
  if (operation.state === "waiting")
    return <progress className="operation-bar" max={100} value={0} aria-label="Has not started" />;
  if (done === null && !ended(operation)) return <progress className="operation-bar" aria-label="Under way" />;
  return <progress className="operation-bar" max={100} value={done ?? 0} aria-label="Progress" />;
}

const TONES: Record<string, "neutral" | "good" | "warn" | "bad" | "info"> = {
  waiting: "warn",
  running: "info",
  completed: "good",
  cancelled: "neutral",
  failed: "bad",
};

export function OperationBadge({ state }: { state: string }) {
  return <Badge tone={TONES[state] ?? "neutral"}>{state}</Badge>;
}
