// Retrying or discarding all dead letters of a group, as a redrive with a reason.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { ReasonDialog } from "../../ui/ReasonDialog";
import type { Group, Redrive } from "./data";

const VERBS = {
  retry: { title: "Retry the group", verb: "Retry them" },
  discard: { title: "Discard the group", verb: "Discard them" },
};

export function GroupActions({ group }: { group: Group }) {
  const [asking, setAsking] = useState<"retry" | "discard" | null>(null);
  const act = useAct(
    async (reason: string): Promise<Redrive> => {
      const body = { filter: { fingerprint: group.fingerprint }, reason };
      const retry = { ...body, everything: false, remove: [] };
      const asked =
        asking === "discard"
          ? api.POST("/api/dead-letters/discard", { body: { ...body, everything: false } })
          : api.POST("/api/dead-letters/retry", { body: retry });
      return ((await unwrap(asked as never)) as { data: Redrive }).data;
    },
    {
      done: (redrive) => redriveWords(redrive),
      onDone: () => setAsking(null),
      quiet: true,
      touches: [["dead-letters"], ["redrives"]],
    },
  );
  const many = plural(group.count, "dead letter", "dead letters", group.capped);
  return (
    <>
      <Button small onClick={() => setAsking("retry")}>
        Retry…
      </Button>
      <Button small look="danger" onClick={() => setAsking("discard")}>
        Discard…
      </Button>
      {asking && (
        <ReasonDialog
          title={VERBS[asking].title}
          verb={VERBS[asking].verb}
          danger={asking === "discard"}
          reason={asking === "discard" ? "required" : "optional"}
          busy={act.isPending}
          error={act.error?.message}
          onClose={() => setAsking(null)}
          call={(reason) => redriveCall(asking, group.fingerprint, reason)}
          onConfirm={(reason) => act.mutate(reason)}
        >
          <p className="wrap">
            <strong>{many}</strong> of <code>{group.name}</code> that failed with <code>{group.errorType}</code>{" "}
            {asking === "retry" ? "run again, each as a new round of attempts." : "are deleted for good."} Jobs that
            fail from now on are not included.
          </p>
        </ReasonDialog>
      )}
    </>
  );
}

/** Running a group again, or discarding it, as a call. */
export function redriveCall(verb: "retry" | "discard", fingerprint: string, reason = "…"): Call {
  const given = `fingerprint=${pythonLiteral(fingerprint)}, reason=${pythonLiteral(reason)}`;
  return {
    title: VERBS[verb].verb,
    method: "POST",
    path: `/api/dead-letters/${verb}`,
    body: { filter: { fingerprint }, reason },
    python: `redrive = await scheduler.dead_letters.${verb}(${given})\nawait redrive.wait()`,
  };
}

/** A redrive in a sentence. */
export function redriveWords(redrive: Redrive): string {
  const verb = redrive.kind === "discard" ? "discarded" : "run again";
  const skipped = redrive.skipped ? `, ${redrive.skipped} left alone` : "";
  return `${redrive.done} of ${redrive.matched} dead letters ${verb}${skipped}.`;
}
