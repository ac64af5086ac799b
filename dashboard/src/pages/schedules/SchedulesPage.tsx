// The list of schedules: when each fires in words and as written, its next and last firing, and its health.
import { Link } from "@tanstack/react-router";
import { type ComponentProps, useEffect, useState } from "react";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { useLive } from "../../live/live";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Segments, Select, TextField } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Actions } from "./Actions";
import { KINDS } from "./health";
import { keywords, type ListFilter, PAGE, pathOf, ROOT, type Schedule, useSchedules, useStrips } from "./queries";
import { NextFiring, LastFiring, ScheduleState, When } from "./parts";
import { Strip } from "./Strip";
import { useDebounced } from "./useDebounced";
import "./Schedules.css";

const STATES = ["", "active", "paused", "failing", "ended"] as const;

export default function SchedulesPage() {
  const [search, change] = useParameters();
  const role = useRole();
  const filter: ListFilter = {};
  for (const key of ["text", "state", "name", "queue", "tag", "order"] as const)
    if (search[key]) filter[key] = search[key];
  const list = useSchedules(filter);
  const pages = list.data?.pages ?? [];
  const strips = useStrips(pages.map((page) => page.rows.map((row) => row.id)));
  useLive({ kind: "schedules" }, [[...ROOT, "list"]]);
  const rows = pages.flatMap((page) => page.rows);
  const narrowed = Object.keys(filter).some((key) => key !== "order");
  const columns: Column<Schedule>[] = [
    { key: "id", title: "Schedule", cell: (row) => <Name row={row} firings={strips.get(row.id)} /> },
    { key: "when", title: "When", cell: (row) => <When schedule={row} /> },
    { key: "state", title: "State", cell: (row) => <ScheduleState schedule={row} />, minor: true },
    { key: "next", title: "Next firing", cell: (row) => <NextFiring schedule={row} />, minor: true },
    { key: "last", title: "Last firing", cell: (row) => <LastFiring schedule={row} />, minor: true },
    {
      key: "health",
      title: <span className="schedules-wide">Last firings</span>,
      cell: (row) => (
        <div className="schedules-wide">
          <Strip firings={strips.get(row.id)} zone={row.zone} />
        </div>
      ),
      minor: true,
    },
    {
      key: "actions",
      title: <span className="visually-hidden">Actions</span>,
      cell: (row) => <Actions schedule={row} list />,
    },
  ];
  return (
    <>
      <PageHead title="Schedules">
        <CallButton
          calls={{
            path: pathOf("/api/schedules", { ...filter, limit: PAGE }),
            python: `page = await scheduler.schedules.search(${keywords({ ...filter, limit: PAGE })})`,
          }}
        />
        <Link className="button" to="/schedules/-/calendars">
          Calendars
        </Link>
        <Link className="button" to="/schedules/-/calendar">
          Coming firings
        </Link>
        {role.can("operator") && (
          <Link className="button button-primary" to="/schedules/-/new">
            New schedule
          </Link>
        )}
      </PageHead>
      <div className="stack">
        <Filters filter={filter} change={change} />
        <Panel flush>
          <Loaded query={list} rows={8}>
            {() => (
              <>
                <Table
                  caption="Schedules"
                  columns={columns}
                  rows={rows}
                  id={(row) => row.id}
                  empty={narrowed ? <NothingMatches more={list.hasNextPage} /> : <NoSchedules />}
                />
                {rows.length > 0 && <Legend />}
              </>
            )}
          </Loaded>
        </Panel>
        {list.data && (
          <div className="row spread">
            <span className="muted" role="status">
              {plural(rows.length, "schedule", "schedules", list.hasNextPage)}
              {filter.order === "next" && ", without those that have no next firing"}
            </span>
            {list.hasNextPage && (
              <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
                {rows.length === 0 ? "Look further" : "Show more"}
              </Button>
            )}
          </div>
        )}
      </div>
    </>
  );
}

function Filters({
  filter,
  change,
}: {
  filter: ListFilter;
  change: (change: Record<string, string | null>, options?: { replace?: boolean }) => void;
}) {
  const [text, setText] = useState(filter.text ?? "");
  const typed = useDebounced(text, 250);
  useEffect(() => {
    if (typed !== (filter.text ?? "")) change({ text: typed }, { replace: true });
    // The address follows what is typed; what is typed follows the address below.
  }, [typed]);
  useEffect(() => setText(filter.text ?? ""), [filter.text]);
  const chips = (["name", "queue", "tag"] as const).filter((key) => filter[key]);
  return (
    <div className="row" role="search" aria-label="Filter the schedules">
      <TextField
        label="Part of the id or name"
        hideLabel
        type="search"
        placeholder="Part of the id or name"
        value={text}
        maxLength={200}
        onChange={(event) => setText(event.target.value)}
      />
      <Segments
        label="State"
        value={filter.state ?? ""}
        options={STATES.map((one) => [one, one || "all"] as [string, string])}
        // Paused and ended schedules have no next firing.
        onChange={(state) =>
          change({ state, order: state === "paused" || state === "ended" ? null : (filter.order ?? null) })
        }
      />
      <Select
        label="Order"
        hideLabel
        value={filter.order ?? "id"}
        options={[
          ["id", "By id"],
          ["next", "By next firing"],
        ]}
        onChange={(event) => {
          const order = event.target.value === "id" ? null : event.target.value;
          const without = order && (filter.state === "paused" || filter.state === "ended");
          change(without ? { order, state: null } : { order });
        }}
      />
      {chips.map((key) => (
        <Button key={key} small onClick={() => change({ [key]: null })} aria-label={`Remove the filter ${key}`}>
          {key}: <span className="schedules-chip">{filter[key]}</span> ✕
        </Button>
      ))}
    </div>
  );
}

function Name({ row, firings }: { row: Schedule; firings: ComponentProps<typeof Strip>["firings"] }) {
  const name = row.label || (row.name === "mainspring:http" ? webhookTarget(row) : row.name);
  return (
    <div className="schedules-name">
      <Link to="/schedules/$id" params={{ id: row.id }} className="wrap">
        {row.id}
      </Link>
      {name !== row.id && <span className="muted wrap">{name}</span>}
      {row.error && <span className="field-error">{row.error}</span>}
      <div className="schedules-narrow">
        <ScheduleState schedule={row} />
        {row.nextAt && <Time at={row.nextAt} />}
      </div>
      {firings?.length !== 0 && (
        <div className="schedules-strip">
          <Strip firings={firings} zone={row.zone} />
        </div>
      )}
    </div>
  );
}

function webhookTarget(row: Schedule): string {
  const request = (row.data as { request?: { url?: unknown } }).request;
  return typeof request?.url === "string" ? request.url.slice(0, 80) : "webhook";
}

function Legend() {
  return (
    <div className="strip-legend" aria-hidden="true">
      {Object.entries(KINDS).map(([kind, one]) => (
        <span key={kind}>
          <b style={{ color: one.colour }}>{one.glyph}</b> {one.word}
        </span>
      ))}
    </div>
  );
}

function NothingMatches({ more }: { more: boolean }) {
  return (
    <Empty title={more ? "No schedule searched so far matches" : "No schedule matches"}>
      {more ? "There are more schedules: press “Look further”." : "Change the filter, or remove it."}
    </Empty>
  );
}

function NoSchedules() {
  return (
    <Empty
      title="There is no schedule yet"
      command={
        'await scheduler.schedule("report", repeat=Cron("0 9 * * MON-FRI", "Europe/Paris"), schedule_id="daily-report")'
      }
    >
      A schedule makes a job at each of its firings. Create one here, or in code:
    </Empty>
  );
}
