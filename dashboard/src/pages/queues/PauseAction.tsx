// Pausing a queue, with a reason, and resuming it.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Time } from "../../ui/Time";
import { pauseCall } from "./calls";
import type { Queue } from "./data";

export function usePauseActions(queue: string) {
  const [asking, setAsking] = useState(false);
  const pause = useAct((reason: string) => unwrap(api.POST("/api/pauses", { body: { queue, reason } })), {
    done: () => `The queue ${queue} is paused.`,
    onDone: () => setAsking(false),
    quiet: true,
  });
  const resume = useAct(() => unwrap(api.POST("/api/pauses/resume", { body: { queue } })), {
    done: () => `The queue ${queue} goes on.`,
  });
  const dialog = asking && (
    <ReasonDialog
      title={`Pause the queue ${queue}`}
      verb="Pause"
      busy={pause.isPending}
      error={pause.error?.message}
      onClose={() => setAsking(false)}
      call={(reason) => pauseCall(queue, reason)}
      onConfirm={(reason) => pause.mutate(reason)}
    >
      Workers start none of its jobs until it is resumed. Running jobs continue.
    </ReasonDialog>
  );
  return { ask: () => setAsking(true), resume: () => resume.mutate(), dialog, busy: resume.isPending };
}

export function PauseButton({ queue }: { queue: Queue }) {
  const actions = usePauseActions(queue.name);
  return (
    <>
      {queue.paused ? (
        <Button onClick={actions.resume} busy={actions.busy}>
          Resume
        </Button>
      ) : (
        <Button onClick={actions.ask}>Pause…</Button>
      )}
      {actions.dialog}
    </>
  );
}

/** The badge of a paused queue; it tells the reason and the actor. */
export function PausedBadge({ queue }: { queue: Queue }) {
  if (!queue.paused) return null;
  const { actor, reason } = queue.paused;
  return (
    <Badge tone="warn" title={[actor && `by ${actor}`, reason].filter(Boolean).join(": ")}>
      ‖ paused
    </Badge>
  );
}

/** The pause in a sentence. */
export function PausedNote({ queue }: { queue: Queue }) {
  if (!queue.paused) return null;
  const { actor, reason, at } = queue.paused;
  return (
    <p className="queue-note wrap" role="status">
      Paused <Time at={at} />
      {actor && ` by ${actor}`}
      {reason ? `: ${reason}` : "."}
    </p>
  );
}
