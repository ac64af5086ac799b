// When the jobs of a flow started and ended: a bar for each job, or for each node of a large flow.
import { Link } from "@tanstack/react-router";
import { plural } from "../../lib/text";
import { duration } from "../../lib/time";
import { Empty, Loaded } from "../../ui/Panel";
import { colour } from "../../ui/states";
import { useNow } from "../../ui/Time";
import { useTimeline } from "./flows";
import { type Bar, chartOf, placeOfWords } from "./gantt";
import { type Flow, LIVE } from "./graph";

export function Gantt({ flow }: { flow: Flow }) {
  const query = useTimeline(flow.id, true);
  const now = useNow(LIVE.includes(flow.state) ? 1000 : 3_600_000);
  return (
    <Loaded query={query} rows={8}>
      {(timeline) => {
        const chart = chartOf(timeline.rows, now);
        if (timeline.rows.length === 0) return <Empty title="No job of it has been stored yet" />;
        return (
          <>
            <div className="gantt" role="region" aria-label="Jobs over time" tabIndex={0}>
              <div className="gantt-axis" aria-hidden="true">
                {chart.ticks.map((tick) => (
                  <span key={tick.at} style={{ left: `${tick.percent}%` }}>
                    {duration(tick.at - chart.start)
                      .replace(".0 s", " s")
                      .replace("0 ms", "0")}
                  </span>
                ))}
              </div>
              <ol>
                {chart.bars.map((bar, index) => (
                  <GanttRow key={bar.row.id ?? `${bar.row.node}${index}`} bar={bar} flow={flow} />
                ))}
              </ol>
            </div>
            {!timeline.complete && (
              <p className="flow-note muted" role="status">
                Not all jobs were read: bars may be too short, or missing.
              </p>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

function GanttRow({ bar, flow }: { bar: Bar; flow: Flow }) {
  const { row } = bar;
  const state = row.state ?? (bar.open ? "running" : "completed");
  const told = bar.x === null ? "not started" : `${bar.open ? "for" : "took"} ${duration(bar.lasted)}`;
  const place = placeOfWords(bar);
  const many = row.id === null ? `, ${plural(row.jobs, "job")}` : "";
  return (
    <li className="gantt-row">
      <span className="gantt-name">
        {row.id ? (
          <Link to="/jobs/$id" params={{ id: row.id }} title={row.node}>
            {row.node || row.job}
          </Link>
        ) : (
          <Link to="/jobs" search={{ flow: flow.id, node: row.node }} title={row.node}>
            {row.node}
          </Link>
        )}
        <span className="visually-hidden">
          : {row.state ?? ""}, {told}
          {many}
        </span>
      </span>
      <span className="gantt-track" aria-hidden="true" title={`${row.state ?? ""} ${told}${many}`.trim()}>
        {bar.x !== null && (
          <span
            className={row.id === null ? "gantt-bar gantt-bar-many" : "gantt-bar"}
            style={{ left: `${bar.x}%`, width: `${bar.width}%`, background: colour(state) }}
          />
        )}
        <span
          className={`gantt-words ${bar.x !== null && place === "inside" ? "gantt-words-inside" : ""}`}
          style={
            place === "after"
              ? { left: `calc(${(bar.x ?? 0) + bar.width}% + 6px)` }
              : place === "before"
                ? { right: `calc(${100 - (bar.x ?? 0)}% + 6px)` }
                : { right: `calc(${100 - (bar.x ?? 0) - bar.width}% + 6px)` }
          }
        >
          {told}
          {many}
        </span>
      </span>
    </li>
  );
}
