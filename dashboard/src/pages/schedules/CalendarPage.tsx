// The coming firings of all schedules as a heat map of days and hours, with herds and nights on which clocks change.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { api, unwrap } from "../../api/client";
import { count, plural } from "../../lib/text";
import { absolute, serverNow, viewerZone } from "../../lib/time";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Segments, Select } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Table } from "../../ui/Table";
import { type Cell, type Coming, type Day, dayStart, grid, isHerd, level, LEVELS } from "./heat";
import { pathOf, ROOT } from "./queries";
import "./Calendar.css";

const HOUR = 3_600_000;
const DAYS = { "3": 3, "7": 7, "14": 14, "28": 28 } as const;

/** Firings in buckets. As long as the service has not counted all schedules, it is asked again. */
function useComing(start: number, end: number, step: string, heaviest: number, live = true) {
  return useQuery({
    queryKey: [...ROOT, "coming", start, end, step, heaviest],
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.data?.complete === false ? 400 : live ? 15_000 : false),
    queryFn: async () =>
      (await unwrap(api.GET("/api/schedules/coming", { params: { query: comingQuery(start, end, step, heaviest) } })))
        .data,
  });
}

function comingQuery(start: number, end: number, step: string, heaviest: number) {
  return { start: new Date(start).toISOString(), end: new Date(end).toISOString(), step, heaviest };
}

export default function CalendarPage() {
  const [search, change] = useParameters();
  const zone = search.zone === "UTC" ? "UTC" : viewerZone;
  const days = DAYS[(search.days ?? "7") as keyof typeof DAYS] ?? 7;
  const start = dayStart(serverNow(), zone);
  // One more hour than days have, since a day may have 25.
  const end = start + (days * 24 + 1) * HOUR;
  const coming = useComing(start, end, "1h", 0);
  const chosen = search.hour && !Number.isNaN(Date.parse(search.hour)) ? Date.parse(search.hour) : null;
  const query = comingQuery(start, end, "1h", 5);
  return (
    <>
      <PageHead title="Coming firings">
        <CallButton
          calls={{
            path: pathOf("/api/schedules/coming", query),
            python: `coming = await scheduler.schedules.coming(\n    datetime.fromisoformat("${query.start}"), datetime.fromisoformat("${query.end}"), "1h"\n)`,
          }}
        />
        <Link className="button" to="/schedules">
          All schedules
        </Link>
      </PageHead>
      <div className="stack">
        <div className="row spread">
          <div className="row">
            <Segments
              label="Days"
              value={String(days)}
              onChange={(value) => change({ days: value === "7" ? null : value })}
              options={Object.keys(DAYS).map((value) => [value, `${value} days`] as [string, string])}
            />
            <Select
              label="Time zone"
              hideLabel
              value={zone}
              onChange={(event) => change({ zone: event.target.value === "UTC" ? "UTC" : null })}
              options={[...new Set([viewerZone, "UTC"])]}
            />
          </div>
          {coming.data && <Summary coming={coming.data} />}
        </div>
        <Panel flush>
          <Loaded query={coming} rows={days}>
            {(data) =>
              data.schedules === 0 && data.complete ? (
                <Empty
                  title="There is no schedule yet"
                  command={'await scheduler.schedule("report", repeat=Cron("0 9 * * *"), schedule_id="daily-report")'}
                >
                  The coming firings of all schedules will be drawn here.
                </Empty>
              ) : (
                <HeatMap
                  days={grid(data, days, zone)}
                  chosen={chosen}
                  zone={zone}
                  onChoose={(cell) => change({ hour: cell.at })}
                />
              )
            }
          </Loaded>
        </Panel>
        {coming.data && <Changes coming={coming.data} zone={zone} />}
        {chosen !== null && <Hour start={chosen} zone={zone} onClose={() => change({ hour: null })} />}
      </div>
    </>
  );
}

function Summary({ coming }: { coming: Coming }) {
  const firings = coming.buckets.reduce((sum, one) => sum + one.firings, 0);
  return (
    <span className="muted" role="status">
      {plural(firings, "firing")} of {plural(coming.schedules, "schedule")}
      {coming.paused > 0 &&
        `; ${count(coming.paused)} of them ${coming.paused === 1 ? "is paused and does" : "are paused and do"} not fire`}
      {!coming.complete && "; still counting …"}
    </span>
  );
}

function HeatMap({
  days,
  chosen,
  zone,
  onChoose,
}: {
  days: Day[];
  chosen: number | null;
  zone: string;
  onChoose: (cell: Cell) => void;
}) {
  const most = Math.max(1, ...days.flatMap((day) => day.cells.map((cell) => cell?.firings ?? 0)));
  const now = serverNow();
  return (
    <div className="heat-scroll" role="region" aria-label="Heat map of coming firings" tabIndex={0}>
      <table className="heat">
        <caption className="visually-hidden">Coming firings by day and hour in {zone}</caption>
        <thead>
          <tr>
            <th scope="col">{zone}</th>
            {Array.from({ length: 24 }, (_, hour) => (
              <th key={hour} scope="col">
                {String(hour).padStart(2, "0")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days.map((day) => (
            <tr key={day.day}>
              <th scope="row">
                {day.weekday} {dayWords(day.day)}
                {day.changes.length > 0 && (
                  <span className="heat-change" title={day.changes.map((one) => one.words).join("\n")}>
                    {" "}
                    ◐ clocks change
                  </span>
                )}
              </th>
              {day.cells.map((cell, hour) => (
                <td key={hour}>
                  <HeatCell cell={cell} most={most} now={now} chosen={chosen} onChoose={onChoose} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <div className="heat-legend" aria-hidden="true">
        <span>fewer</span>
        {Array.from({ length: LEVELS + 1 }, (_, one) => (
          <i key={one} className={`heat-${one}`} />
        ))}
        <span>more (most: {count(most)} in an hour)</span>
        <span>
          <b className="heat-herd-sign">▮</b> herd: most of the hour fires in its first minute
        </span>
        <span>– the hour does not exist</span>
      </div>
    </div>
  );
}

function HeatCell({
  cell,
  most,
  now,
  chosen,
  onChoose,
}: {
  cell: Cell | null;
  most: number;
  now: number;
  chosen: number | null;
  onChoose: (cell: Cell) => void;
}) {
  if (!cell)
    return (
      <span className="heat-none" title="Clocks go forward: this hour does not exist.">
        –
      </span>
    );
  const at = Date.parse(cell.at);
  if (at + HOUR <= now) return <span className="heat-over" title="This hour is over." />;
  const herd = isHerd(cell);
  const words = `${cell.day} ${String(cell.hour).padStart(2, "0")}:00, ${plural(cell.firings, "firing")} of ${plural(cell.schedules, "schedule")}${cell.herd ? `, ${count(cell.herd)} in the first minute` : ""}`;
  return (
    <button
      type="button"
      className={`heat-cell heat-${level(cell.firings, most)}`}
      aria-label={words + (herd ? ", a herd" : "")}
      aria-pressed={chosen === at}
      title={words}
      onClick={() => onChoose(cell)}
    >
      <span>{cell.firings ? short(cell.firings) : ""}</span>
      {herd && <b className="heat-herd" aria-hidden="true" />}
    </button>
  );
}

/** "18 Nov" of 2026-11-18. */
function dayWords(day: string): string {
  return new Date(`${day}T12:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

function short(value: number): string {
  if (value < 1000) return String(value);
  return value < 10_000 ? `${(value / 1000).toFixed(1)}k` : `${Math.round(value / 1000)}k`;
}

function Changes({ coming, zone }: { coming: Coming; zone: string }) {
  if (coming.clockChanges.length === 0) return null;
  return (
    <Panel title="Clocks change">
      <ul className="heat-changes">
        {coming.clockChanges.map((one) => (
          <li key={`${one.zone}${one.at}`} className="wrap">
            <b>{absolute(one.at, zone, false)}</b>: {one.words} ({plural(one.schedules, "schedule")} in this zone).
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Hour({ start, zone, onClose }: { start: number; zone: string; onClose: () => void }) {
  const minutes = useComing(start, start + HOUR, "1m", 0, false);
  const heavy = useComing(start, start + HOUR, "1h", 20, false);
  const bars = new Map((minutes.data?.buckets ?? []).map((one) => [(Date.parse(one.at) - start) / 60_000, one]));
  const most = Math.max(1, ...[...bars.values()].map((one) => one.firings));
  const title = `${absolute(start, zone, false)} to ${absolute(start + HOUR, zone, false)
    .split(", ")
    .at(-1)}`;
  return (
    <Panel
      title={title}
      id="hour"
      actions={
        <Button small look="quiet" onClick={onClose}>
          Close
        </Button>
      }
    >
      <div className="stack">
        <figure className="heat-minutes-figure">
          <figcaption className="muted">Firings by minute; the tallest bar has {count(most)}</figcaption>
          <div className="heat-minutes" role="img" aria-label={minuteWords(bars, most)}>
            {Array.from({ length: 60 }, (_, minute) => {
              const firings = bars.get(minute)?.firings ?? 0;
              return (
                <i key={minute} title={`:${String(minute).padStart(2, "0")} ${plural(firings, "firing")}`}>
                  <b style={{ height: `${(firings / most) * 100}%` }} />
                </i>
              );
            })}
          </div>
          <div className="heat-minutes-axis muted" aria-hidden="true">
            {[":00", ":15", ":30", ":45", ":59"].map((one) => (
              <span key={one}>{one}</span>
            ))}
          </div>
        </figure>
        <Loaded query={heavy} rows={5}>
          {(data) => (
            <Table
              caption="The schedules that fire most in this hour"
              rows={data.buckets[0]?.heaviest ?? []}
              id={(row) => row.id}
              empty={<Empty title="Nothing fires in this hour" />}
              columns={[
                { key: "firings", title: "Firings", align: "right", width: "70px", cell: (row) => count(row.firings) },
                {
                  key: "id",
                  title: "Schedule",
                  cell: (row) => (
                    <Link to="/schedules/$id" params={{ id: row.id }}>
                      {row.id}
                    </Link>
                  ),
                },
                { key: "name", title: "Runs", minor: true, cell: (row) => row.name },
              ]}
            />
          )}
        </Loaded>
        {(heavy.data?.buckets[0]?.schedules ?? 0) > 20 && (
          <p className="muted">The 20 heaviest of {plural(heavy.data?.buckets[0]?.schedules ?? 0, "schedule")}.</p>
        )}
      </div>
    </Panel>
  );
}

function minuteWords(bars: Map<number, { firings: number }>, most: number): string {
  const peak = [...bars].find(([, one]) => one.firings === most)?.[0];
  return peak === undefined
    ? "Nothing fires in this hour"
    : `The busiest minute is :${String(peak).padStart(2, "0")} with ${plural(most, "firing")}`;
}
