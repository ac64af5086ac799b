// What an operator does with a schedule: pause, resume, trigger, skip, backfill, delete; each says what it will do.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { absolute } from "../../lib/time";
import { Button } from "../../ui/Button";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Menu } from "../../ui/Menu";
import { BackfillDialog } from "./BackfillDialog";
import { callOf } from "./calls";
import { ROOT, type Schedule, STRIPS } from "./queries";

type Verb = "pause" | "trigger" | "skip" | "delete" | "backfill";
const TOUCHES = [ROOT, STRIPS, ["jobs"], ["job"], ["overview"]];

export function useScheduleVerbs(id: string, onDone?: () => void) {
  const params = { path: { schedule_id: id } };
  const shared = { touches: TOUCHES, onDone };
  return {
    pause: useAct(
      (reason: string) => unwrap(api.POST("/api/schedules/{schedule_id}/pause", { params, body: { reason } })),
      { ...shared, quiet: true, done: () => `${id} is paused.` },
    ),
    resume: useAct(() => unwrap(api.POST("/api/schedules/{schedule_id}/resume", { params })), {
      ...shared,
      done: () => `${id} fires again from now on.`,
    }),
    trigger: useAct(
      (reason: string) => unwrap(api.POST("/api/schedules/{schedule_id}/trigger", { params, body: { reason } })),
      { ...shared, quiet: true, done: () => `A job of ${id} was made.` },
    ),
    skip: useAct(
      (reason: string) => unwrap(api.POST("/api/schedules/{schedule_id}/skip", { params, body: { reason } })),
      {
        ...shared,
        quiet: true,
        done: (answer) =>
          `The next firing of ${id} makes no job${answer.data.nextAt ? `; the one after is at ${absolute(answer.data.nextAt)}` : ""}.`,
      },
    ),
    delete: useAct(() => unwrap(api.DELETE("/api/schedules/{schedule_id}", { params })), {
      ...shared,
      quiet: true,
      done: () => `${id} is deleted. Its jobs stay.`,
    }),
  };
}

type Props = {
  schedule: Schedule;
  list?: boolean;
  /** Told before the schedule is deleted, and again if it was not: meanwhile its page must not read it. */
  onLeaving?: (leaving: boolean) => void;
};

/** The actions of a schedule: buttons on its page, a menu in a list. */
export function Actions({ schedule, list, onLeaving }: Props) {
  const role = useRole();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Verb | null>(null);
  const close = () => setAsked(null);
  const act = useScheduleVerbs(schedule.id, close);
  const gone = useScheduleVerbs(schedule.id, () => void navigate({ to: "/schedules" }));
  if (!role.can("operator")) return null;
  const edit = () => void navigate({ to: "/schedules/$id/edit", params: { id: schedule.id } });
  const paused = schedule.state === "paused";
  const items = [
    list && { label: "Edit", onSelect: edit },
    list && paused && { label: "Resume", onSelect: () => act.resume.mutate() },
    list && schedule.state === "active" && { label: "Pause", onSelect: () => setAsked("pause") },
    { label: "Trigger now", onSelect: () => setAsked("trigger") },
    schedule.nextAt && { label: "Skip the next firing", onSelect: () => setAsked("skip") },
    { label: "Backfill", onSelect: () => setAsked("backfill") },
    { label: "Delete", danger: true, onSelect: () => setAsked("delete") },
  ];
  return (
    <>
      {!list && (
        <>
          <Button onClick={edit}>Edit</Button>
          {paused && (
            <Button look="primary" busy={act.resume.isPending} onClick={() => act.resume.mutate()}>
              Resume
            </Button>
          )}
          {schedule.state === "active" && <Button onClick={() => setAsked("pause")}>Pause</Button>}
        </>
      )}
      <Menu
        label={list ? "⋯" : "More"}
        name={list ? `Actions of ${schedule.id}` : "More actions"}
        small={list}
        look={list ? "quiet" : "plain"}
        items={items.map((one) => one || null)}
      />
      {asked === "pause" && (
        <ReasonDialog
          title={`Pause ${schedule.id}?`}
          verb="Pause"
          busy={act.pause.isPending}
          error={act.pause.error?.message}
          onClose={close}
          call={(reason) => callOf(schedule.id, "pause", reason)}
          onConfirm={(reason) => act.pause.mutate(reason)}
        >
          It makes no jobs until it is resumed. Jobs that it has made continue. A backfill can make the jobs of the
          firings in between.
        </ReasonDialog>
      )}
      {asked === "trigger" && (
        <ReasonDialog
          title={`Trigger ${schedule.id} now?`}
          verb="Trigger"
          busy={act.trigger.isPending}
          error={act.trigger.error?.message}
          onClose={close}
          call={(reason) => callOf(schedule.id, "trigger", reason)}
          onConfirm={(reason) => act.trigger.mutate(reason)}
        >
          One job of {schedule.name} is made now, in addition to the firings. The next firing does not change.
        </ReasonDialog>
      )}
      {asked === "skip" && (
        <ReasonDialog
          title={`Skip the next firing of ${schedule.id}?`}
          verb="Skip it"
          busy={act.skip.isPending}
          error={act.skip.error?.message}
          onClose={close}
          call={(reason) => callOf(schedule.id, "skip", reason)}
          onConfirm={(reason) => act.skip.mutate(reason)}
        >
          The firing at {schedule.nextAt ? absolute(schedule.nextAt) : "–"} makes no job.
        </ReasonDialog>
      )}
      {asked === "delete" && (
        <ReasonDialog
          title={`Delete ${schedule.id}?`}
          verb="Delete"
          danger
          reason="none"
          busy={(list ? act : gone).delete.isPending}
          error={(list ? act : gone).delete.error?.message}
          onClose={close}
          call={() => callOf(schedule.id, "delete")}
          onConfirm={() => {
            onLeaving?.(true);
            (list ? act : gone).delete.mutate(undefined, { onError: () => onLeaving?.(false) });
          }}
        >
          The schedule and its ledger are deleted permanently. The jobs that it has made stay.
          {schedule.declaredBy &&
            ` It is declared in the code of ${schedule.declaredBy}: the next start makes it again.`}
        </ReasonDialog>
      )}
      {asked === "backfill" && <BackfillDialog schedule={schedule} onClose={close} />}
    </>
  );
}
