// One schedule: what it does and when, its coming firings, its ledger, its jobs and its policies.
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { PageHead } from "../../app/PageHead";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { absolute, spelt } from "../../lib/time";
import { useLive } from "../../live/live";
import { Badge, StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { JsonTree } from "../../ui/JsonTree";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Table } from "../../ui/Table";
import { Moment, Time } from "../../ui/Time";
import { Actions } from "./Actions";
import { callOf } from "./calls";
import { type Firing, KINDS, kindOf, whyOf } from "./health";
import { Firings, LastFiring, NextFiring, ScheduleState } from "./parts";
import { misfireWords, overlapWords } from "./policies";
import { ROOT, type Schedule, schedulePath, STRIPS, useSchedule, useStrips } from "./queries";
import { Strip } from "./Strip";
import "./Schedules.css";
import "./Strip.css";

const ROWS = 25;

export default function SchedulePage() {
  const { id } = useParams({ strict: false }) as { id: string };
  // A schedule that is being deleted is not read again until the page of all schedules is there.
  const [leaving, setLeaving] = useState(false);
  const schedule = useSchedule(id, !leaving);
  const { can } = useRole();
  const strips = useStrips([[id]]);
  useLive({ schedule: id }, [ROOT, STRIPS, ["jobs", "schedule", id]]);
  const python = JSON.stringify(id);
  return (
    <>
      <PageHead title={id} name={id}>
        <CallButton
          calls={[
            { path: schedulePath(id), python: `schedule = await scheduler.schedules.get(${python})` },
            { path: schedulePath(id, "/upcoming"), python: `firings = await scheduler.schedules.upcoming(${python})` },
            {
              path: schedulePath(id, `/ledger?latest=true&limit=${ROWS}`),
              python: `entries = await scheduler.schedules.ledger(\n    ${python}, datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC), limit=${ROWS}, latest=True\n)`,
            },
            ...(can("operator")
              ? [
                  callOf(id, schedule.data?.state === "paused" ? "resume" : "pause"),
                  callOf(id, "trigger"),
                  callOf(id, "skip"),
                ]
              : []),
          ]}
        />
        {schedule.data && <Actions schedule={schedule.data} onLeaving={setLeaving} />}
      </PageHead>
      <Loaded query={schedule} rows={10}>
        {(one) => (
          <div className="stack">
            <Story schedule={one} firings={strips.get(id)} />
            <div className="columns">
              <Panel title="Next firings" flush>
                <Coming schedule={one} enabled={!leaving} />
              </Panel>
              <Panel title="Policies">
                <Policies schedule={one} />
              </Panel>
            </div>
            <Ledger id={id} enabled={!leaving} />
            <Jobs id={id} />
            <Panel title="Data of its jobs">
              <JsonTree value={one.data} name="data" />
            </Panel>
          </div>
        )}
      </Loaded>
    </>
  );
}

function Story({ schedule, firings }: { schedule: Schedule; firings: readonly Firing[] | undefined }) {
  const role = useRole();
  return (
    <Panel>
      <p className="schedules-lead wrap">
        Runs <strong>{schedule.label || (schedule.name === "mainspring:http" ? "a webhook" : schedule.name)}</strong>{" "}
        {schedule.description}.
      </p>
      {schedule.paused && (
        <p className="schedules-pausedbar wrap">
          Paused <Time at={schedule.paused.at} />
          {schedule.paused.actor && <> by {schedule.paused.actor}</>}: {schedule.paused.reason || "no reason was given"}
          .
        </p>
      )}
      {schedule.error && <p className="field-error wrap">Its document is malformed: {schedule.error}</p>}
      <dl className="schedules-facts sentence">
        <dt>State</dt>
        <dd>
          <ScheduleState schedule={schedule} />
        </dd>
        <dt>Rule</dt>
        <dd>
          <code>{schedule.text || JSON.stringify(schedule.rule)}</code> {schedule.zone && <>in {schedule.zone}</>}
        </dd>
        <dt>Next firing</dt>
        <dd>
          <NextFiring schedule={schedule} />
        </dd>
        <dt>Last firing</dt>
        <dd>
          <LastFiring schedule={schedule} />
        </dd>
        <dt>Last firings</dt>
        <dd>
          <Strip firings={firings} zone={schedule.zone} />
        </dd>
        <dt>Queue</dt>
        <dd>
          <Link to="/queues/$queue" params={{ queue: schedule.queue }}>
            {schedule.queue}
          </Link>
          , priority {schedule.priority}
        </dd>
        {schedule.tags.length > 0 && (
          <>
            <dt>Tags</dt>
            <dd className="row">
              {schedule.tags.map((tag) => (
                <Badge key={tag}>{tag}</Badge>
              ))}
            </dd>
          </>
        )}
        <dt>Runs</dt>
        <dd>
          {plural(schedule.runs, "firing")} made a job
          {schedule.failures > 0 && `, ${schedule.failures} failed in a row`}
        </dd>
        <dt>Made</dt>
        <dd>
          <Moment at={schedule.createdAt} />, changed <Time at={schedule.updatedAt} />
          {schedule.declaredBy && <>; declared in the code of {schedule.declaredBy}</>}
          {role.can("admin") && (
            <>
              {" · "}
              <Link to="/audit" search={{ target: schedule.id } as never}>
                Its rows in the audit log
              </Link>
            </>
          )}
        </dd>
      </dl>
    </Panel>
  );
}

function Coming({ schedule, enabled }: { schedule: Schedule; enabled: boolean }) {
  const upcoming = useQuery({
    queryKey: [...ROOT, "upcoming", schedule.id, schedule.nextAt, schedule.updatedAt],
    enabled,
    placeholderData: keepPreviousData,
    queryFn: async () =>
      (
        await unwrap(
          api.GET("/api/schedules/{schedule_id}/upcoming", {
            params: { path: { schedule_id: schedule.id }, query: { count: 10 } },
          }),
        )
      ).data,
  });
  return (
    <Loaded query={upcoming} rows={10}>
      {(firings) => (
        <>
          {schedule.state === "paused" && (
            <p className="stale">It is paused: these are its firings once it is resumed.</p>
          )}
          <Firings firings={firings} zone={schedule.zone} />
        </>
      )}
    </Loaded>
  );
}

function Policies({ schedule }: { schedule: Schedule }) {
  return (
    <dl className="schedules-facts">
      <dt>Overlap</dt>
      <dd>{overlapWords(schedule.policy)}.</dd>
      <dt>Missed firings</dt>
      <dd>{misfireWords(schedule.policy)}.</dd>
      <dt>Jitter</dt>
      <dd>
        {schedule.jitter && schedule.jitter !== "0s"
          ? `Each job is made up to ${spelt(schedule.jitter)} later, always the same for the same firing.`
          : "None: each job is made exactly at its time."}
      </dd>
      <dt>Failures</dt>
      <dd>
        {schedule.pauseAfter
          ? `Paused after ${plural(schedule.pauseAfter, "failed run")} in a row.`
          : "It continues, however many runs fail."}
      </dd>
      <dt>Bounds</dt>
      <dd>
        {schedule.startAt || schedule.endAt || schedule.policy.maxRuns
          ? [
              schedule.startAt && `from ${absolute(schedule.startAt)}`,
              schedule.endAt && `until ${absolute(schedule.endAt)}`,
              schedule.policy.maxRuns && `at most ${plural(schedule.policy.maxRuns, "run")}`,
            ]
              .filter(Boolean)
              .join(", ")
          : "None."}
      </dd>
    </dl>
  );
}

function Ledger({ id, enabled }: { id: string; enabled: boolean }) {
  const ledger = useInfiniteQuery({
    queryKey: [...ROOT, "ledger", id],
    enabled,
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam }) =>
      (
        await unwrap(
          api.GET("/api/schedules/{schedule_id}/ledger", {
            params: { path: { schedule_id: id }, query: { latest: true, limit: ROWS, end: pageParam } },
          }),
        )
      ).data.toReversed(),
    getNextPageParam: (page) => (page.length === ROWS ? page.at(-1)?.at : undefined),
  });
  const rows = ledger.data?.pages.flat() ?? [];
  return (
    <Panel title="Ledger" flush>
      <Loaded query={ledger} rows={6}>
        {() => (
          <Table
            caption="The ledger: every firing and its outcome, the latest first"
            rows={rows}
            id={(row) => `${row.at}${row.jobId}${row.outcome}`}
            empty={
              <Empty title="It has not fired yet">Every firing is listed here with its outcome and the reason.</Empty>
            }
            columns={[
              {
                key: "at",
                title: "Firing",
                cell: (row) => (
                  <span className="row">
                    <Moment at={row.at} />{" "}
                    <span className="muted">
                      <Time at={row.at} />
                    </span>
                  </span>
                ),
              },
              {
                key: "outcome",
                title: "Outcome",
                cell: (row) => {
                  // The job has a page of its own: the mark of a firing that was on time is that of a success.
                  const kind = KINDS[row.outcome === "on_time" ? "completed" : kindOf({ ...row, jobState: null })];
                  return (
                    <span className="row" style={{ color: kind.colour }}>
                      <span aria-hidden="true" className="schedules-mark">
                        {kind.glyph}
                      </span>
                      {row.outcome.replace("_", " ")}
                    </span>
                  );
                },
              },
              { key: "why", title: "Why", minor: true, cell: (row) => <span className="wrap">{ledgerWhy(row)}</span> },
              {
                key: "job",
                title: "Job",
                cell: (row) =>
                  row.jobId ? (
                    <Link to="/jobs/$id" params={{ id: row.jobId }}>
                      its job
                    </Link>
                  ) : (
                    <span className="muted">none</span>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {ledger.hasNextPage && (
        <div className="row schedules-more">
          <Button small busy={ledger.isFetchingNextPage} onClick={() => void ledger.fetchNextPage()}>
            Earlier firings
          </Button>
        </div>
      )}
    </Panel>
  );
}

type Entry = {
  at: string;
  outcome: string;
  reason: string;
  lateByMs: number | null;
  jobId: string | null;
  actor: string | null;
};

/** Why, without a word about the job: its state is on its own page. */
function ledgerWhy(row: Entry): string {
  if (row.outcome === "on_time" && !row.reason) return "";
  return whyOf({ ...row, jobId: null, jobState: null });
}

function Jobs({ id }: { id: string }) {
  const jobs = useQuery({
    queryKey: ["jobs", "schedule", id],
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/search", { params: { query: { scheduleId: id, limit: 10 } } }))).data,
  });
  return (
    <Panel
      title="Its jobs"
      flush
      actions={
        <Link to="/jobs" search={{ scheduleId: id } as never}>
          All of them
        </Link>
      }
    >
      <Loaded query={jobs} rows={5}>
        {(rows) => (
          <Table
            caption="The newest jobs of this schedule"
            rows={rows}
            id={(row) => row.id}
            empty={
              <Empty title="None of its jobs is stored">
                The retention settings determine how long finished jobs are kept.
              </Empty>
            }
            columns={[
              { key: "state", title: "State", cell: (row) => <StateBadge job={row} /> },
              {
                key: "for",
                title: "Firing",
                cell: (row) => <Moment at={row.scheduledFor ?? row.createdAt} />,
              },
              { key: "ended", title: "Ended", minor: true, cell: (row) => <Time at={row.finishedAt} /> },
              {
                key: "error",
                title: "Error",
                minor: true,
                cell: (row) => (
                  <span className="wrap">
                    {row.error ? `${row.error.type}: ${row.error.message.slice(0, 160)}` : ""}
                  </span>
                ),
              },
              {
                key: "id",
                title: "Job",
                cell: (row) => (
                  <Link to="/jobs/$id" params={{ id: row.id }}>
                    open
                  </Link>
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </Panel>
  );
}
