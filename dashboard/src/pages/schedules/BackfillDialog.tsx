// A backfill: a past window, and the number of jobs that it would make, counted by the service while one types.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, unwrap } from "../../api/client";
import { count, plural } from "../../lib/text";
import { absolute, serverNow, viewerZone } from "../../lib/time";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Dialog } from "../../ui/Dialog";
import { Segments, TextField } from "../../ui/Field";
import { fromLocal, toLocal } from "./local";
import { ROOT, type Schedule, schedulePath } from "./queries";
import { useDebounced } from "./useDebounced";

const LIMIT = 1000;

export function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const [start, setStart] = useState(() => toLocal(serverNow() - 86_400_000));
  const [end, setEnd] = useState(() => toLocal(serverNow()));
  const [which, setWhich] = useState<"not_run" | "all">("not_run");
  const asked = useDebounced({ start: fromLocal(start), end: fromLocal(end), which });
  const params = { path: { schedule_id: schedule.id } };
  const preview = useQuery({
    queryKey: [...ROOT, "backfill", schedule.id, asked],
    enabled: !!asked.start && !!asked.end,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const body = { start: asked.start ?? "", end: asked.end ?? "", which: asked.which, limit: LIMIT, preview: true };
      return (await unwrap(api.POST("/api/schedules/{schedule_id}/backfill", { params, body }))).data.firings ?? [];
    },
  });
  const body = { start: fromLocal(start) ?? "", end: fromLocal(end) ?? "", which, limit: LIMIT, preview: false };
  const act = useAct(() => unwrap(api.POST("/api/schedules/{schedule_id}/backfill", { params, body })), {
    touches: [ROOT, ["jobs"]],
    done: (answer) => `The backfill made ${plural(answer.data.made, "job")}.`,
    onDone: onClose,
    quiet: true,
  });
  const firings = preview.data ?? [];
  const full = firings.length >= LIMIT;
  const error = act.error ?? preview.error;
  return (
    <Dialog
      title={`Backfill ${schedule.id}`}
      onClose={onClose}
      onSubmit={() => act.mutate()}
      footer={
        <>
          <CallButton
            calls={{
              method: "POST",
              path: schedulePath(schedule.id, "/backfill"),
              body,
              python: `await scheduler.schedules.backfill(\n    ${JSON.stringify(schedule.id)},\n    datetime.fromisoformat(${JSON.stringify(body.start)}),\n    datetime.fromisoformat(${JSON.stringify(body.end)}),\n    which=${JSON.stringify(which)},\n)`,
            }}
          />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button
            look="primary"
            type="submit"
            busy={act.isPending}
            disabled={firings.length === 0 || full || preview.isFetching}
          >
            Make {plural(firings.length, "job")}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>
          A backfill makes the jobs of past firings, each with its own time. You can repeat a backfill that stopped
          halfway: no job is made twice.
        </p>
        <div className="columns">
          <TextField
            label={`From (${viewerZone})`}
            type="datetime-local"
            value={start}
            onChange={(event) => setStart(event.target.value)}
            required
          />
          <TextField
            label="To"
            type="datetime-local"
            value={end}
            onChange={(event) => setEnd(event.target.value)}
            required
          />
        </div>
        <Segments
          label="Which firings"
          value={which}
          onChange={setWhich}
          options={[
            ["not_run", "Missed and skipped ones"],
            ["all", "All, including those that ran"],
          ]}
        />
        {error ? (
          <p className="field-error" role="alert">
            {error instanceof Problem ? error.message : String(error)}
          </p>
        ) : (
          <p role="status">
            {preview.isPending
              ? "Counting …"
              : full
                ? `This window has ${count(LIMIT)} firings or more; take a smaller one.`
                : firings.length === 0
                  ? "No firing of this window needs a job."
                  : `${plural(firings.length, "job")} will be made: the first for ${absolute(firings[0]?.at ?? "")}, the last for ${absolute(firings.at(-1)?.at ?? "")}.`}
          </p>
        )}
      </div>
    </Dialog>
  );
}
