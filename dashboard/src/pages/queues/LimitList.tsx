// Limits: what is in force, how much of it is taken and by which jobs, and how many jobs wait for it.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { useRole } from "../../api/session";
import { plural, sentence } from "../../lib/text";
import { relative } from "../../lib/time";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Gauge } from "../../ui/Gauge";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Duration, Time } from "../../ui/Time";
import { type Limit, useLimits } from "./data";
import { LimitDialog, useRemoveOverride } from "./LimitDialog";
import { limitWords, saturated, targetFirst, upTo } from "./words";

type Use = Schemas["GateUseOut"];

/** All limits, those of one target first where it is named. */
export function LimitList({ target }: { target?: string }) {
  const query = useLimits();
  return (
    <Loaded query={query} rows={5}>
      {(limits) =>
        limits.length === 0 ? (
          <Panel>
            <Empty
              title="No limit is in force"
              command={'@scheduler.job("charge", concurrency=Limit(5, key="tenant"))'}
            >
              A limit is declared in code, or set here at run time on a queue or a job name.
            </Empty>
          </Panel>
        ) : (
          <div className="stack">
            {targetFirst(limits, target).map((limit) => (
              <LimitPanel key={`${limit.scope}:${limit.target}`} limit={limit} />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

export function LimitPanel({ limit }: { limit: Limit }) {
  const held = saturated(limit.uses);
  const title = (
    <span className="row">
      <span className="muted">{limit.scope === "queue" ? "Queue" : "Job"}</span>
      <span className="wrap">{limit.target}</span>
      <span className="queue-limit">{limitWords(limit.counts)}</span>
      {limit.override && <OverrideBadge limit={limit} />}
      {held > 0 && (
        <Badge tone="warn">{limit.uses.some(byKey) ? `${plural(held, "key")} saturated` : "saturated"}</Badge>
      )}
    </span>
  );
  return (
    <Panel title={title} actions={<LimitActions limit={limit} />} flush>
      {limit.override && <OverrideNote limit={limit} />}
      <Table
        caption={`Use of the limits of ${limit.target}`}
        columns={columnsOf(limit)}
        rows={limit.uses}
        id={(use) => use.gate}
        empty={<p className="queue-note muted">No job uses it, and no job waits for it.</p>}
      />
    </Panel>
  );
}

function byKey(use: Use): boolean {
  return use.value !== null;
}

function OverrideBadge({ limit }: { limit: Limit }) {
  const { override } = limit;
  if (!override) return null;
  return (
    <Badge tone="info" title={`Set ${relative(override.at)}${override.actor ? ` by ${override.actor}` : ""}`}>
      override
    </Badge>
  );
}

function OverrideNote({ limit }: { limit: Limit }) {
  const { override, declared } = limit;
  if (!override) return null;
  return (
    <p className="queue-note wrap">
      Set <Time at={override.at} />
      {override.actor && ` by ${override.actor}`}
      {override.reason ? `: ${sentence(override.reason)}` : "."} The code declares{" "}
      {limitWords(declared) === "none" ? "no limit" : limitWords(declared)}.
    </p>
  );
}

function columnsOf(limit: Limit): Column<Use>[] {
  const keyed = limit.uses.some(byKey);
  const columns: Column<Use>[] = [
    { key: "held", title: "In use", cell: (use) => <InUse use={use} limit={limit} /> },
    { key: "waiting", title: "Waiting", align: "right", cell: (use) => upTo(use.waiting, use.counted) },
    { key: "holders", title: "Held by", cell: (use) => <Holders use={use} /> },
  ];
  const value = { key: "value", title: "Key", cell: (use: Use) => <code className="wrap">{use.value ?? "–"}</code> };
  return keyed ? [value, ...columns] : columns;
}

function InUse({ use, limit }: { use: Use; limit: Limit }) {
  if (use.kind === "rate")
    return use.opensAt ? (
      <span>
        next start <Time at={use.opensAt} />
      </span>
    ) : (
      <span className="muted">starts are left</span>
    );
  return <Gauge value={use.taken} of={Number(limit.counts.concurrency?.limit ?? use.taken)} label="Slots taken" />;
}

function Holders({ use }: { use: Use }) {
  if (use.holders.length === 0) return <span className="muted">–</span>;
  const more = use.taken - use.holders.length;
  return (
    <span className="queue-holders">
      {use.holders.map((holder) => (
        <span key={holder.jobId}>
          <Link to="/jobs/$id" params={{ id: holder.jobId }} title={holder.worker ?? undefined}>
            {holder.name}
          </Link>{" "}
          <span className="muted">
            <Duration since={holder.since} />
          </span>
        </span>
      ))}
      {more > 0 && <span className="muted">and {more} more</span>}
    </span>
  );
}

function LimitActions({ limit }: { limit: Limit }) {
  const [changing, setChanging] = useState(false);
  const target = { scope: limit.scope, target: limit.target };
  const remove = useRemoveOverride(target);
  const { can } = useRole();
  if (!can("operator")) return null;
  return (
    <>
      {limit.override && (
        <Button small onClick={() => remove.mutate()} busy={remove.isPending}>
          Remove the override
        </Button>
      )}
      <Button small onClick={() => setChanging(true)}>
        {limit.override ? "Change…" : "Override…"}
      </Button>
      {changing && <LimitDialog target={target} limit={limit} onClose={() => setChanging(false)} />}
    </>
  );
}
