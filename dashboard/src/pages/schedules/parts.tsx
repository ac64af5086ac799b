// Parts that the pages of schedules share.
import { absolute, viewerZone } from "../../lib/time";
import { Badge, StateBadge } from "../../ui/Badge";
import { Time, useNow } from "../../ui/Time";
import "../../ui/Table.css";
import type { Schedule } from "./queries";

/** When it fires: in words, and as it was written. */
export function When({ schedule }: { schedule: Schedule }) {
  return (
    <div className="schedules-when">
      <span>{schedule.description}</span>
      {schedule.text && <code className="muted">{schedule.text}</code>}
    </div>
  );
}

/** The state: active, paused by whom and why, failing, ended. */
export function ScheduleState({ schedule }: { schedule: Schedule }) {
  return (
    <div className="schedules-state">
      <span className="row">
        <StateWord state={schedule.state} />
        {schedule.failing && (
          <Badge tone="bad" title="Its last job has failed or is being retried.">
            failing
          </Badge>
        )}
      </span>
      {schedule.paused && (
        <span className="muted wrap">
          {schedule.paused.reason || "no reason given"}
          {schedule.paused.actor && <> · by {schedule.paused.actor}</>}
        </span>
      )}
    </div>
  );
}

function StateWord({ state }: { state: string }) {
  if (state === "paused") return <StateBadge state="paused" />;
  return <span className="muted">{state}</span>;
}

/** The next firing: relative and absolute, in the viewer's zone. */
export function NextFiring({ schedule }: { schedule: Schedule }) {
  const now = useNow(5000);
  if (!schedule.nextAt) return <span className="muted">{schedule.state === "paused" ? "paused" : "none"}</span>;
  const late = Date.parse(schedule.dueAt ?? schedule.nextAt) < now - 15_000;
  return (
    <Both at={schedule.nextAt}>
      {late && (
        <Badge tone="warn" title="It is due, and no worker has fired it: is a worker running?">
          overdue
        </Badge>
      )}
    </Both>
  );
}

export function LastFiring({ schedule }: { schedule: Schedule }) {
  if (!schedule.lastAt) return <span className="muted">not yet</span>;
  return <Both at={schedule.lastAt}>{schedule.lastState && <StateBadge state={schedule.lastState} />}</Both>;
}

function Both({ at, children }: { at: string; children?: React.ReactNode }) {
  return (
    <div className="schedules-both">
      <span className="row">
        <Time at={at} />
        {children}
      </span>
      <span className="muted">{absolute(at, undefined, false)}</span>
    </div>
  );
}

type Firing = { at: string; local: string; due: string; notes: string[] };

/** Coming firings: in the zone of the schedule and in the viewer's, with notes on what moved them. */
export function Firings({ firings, zone }: { firings: readonly Firing[]; zone: string | null | undefined }) {
  const own = zone && zone !== viewerZone ? zone : null;
  if (firings.length === 0) return <p className="muted">It has no further firing.</p>;
  return (
    <table className="table schedules-firings">
      <caption className="visually-hidden">The next firings</caption>
      <thead>
        <tr>
          {own && <th scope="col">{own}</th>}
          <th scope="col">{viewerZone}</th>
          <th scope="col" className="minor">
            From now
          </th>
        </tr>
      </thead>
      <tbody>
        {firings.map((one) => (
          <tr key={one.at}>
            {own && <td>{wall(one.local)}</td>}
            <td>
              {absolute(one.at)}
              {one.notes.map((note) => (
                <span key={note} className="schedules-note">
                  {note}
                </span>
              ))}
            </td>
            <td className="muted minor">
              <Time at={one.at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The wall time of an instant with its offset, as the service computed it: "Mon, 30 Mar 2026, 09:00:00 +02:00". */
export function wall(local: string): string {
  const found = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:\d{2})?/.exec(local);
  if (!found?.[1]) return local;
  // Read as UTC and shown as UTC: only the digits count.
  return `${absolute(`${found[1]}Z`, "UTC")} ${found[2] === "Z" ? "UTC" : (found[2] ?? "")}`;
}
