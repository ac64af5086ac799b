// The audit log: which actor changed what, with the values before and after, and a check of the chain.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { api, type Schemas, unwrap } from "../../api/client";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useRole } from "../../api/session";
import { serverNow } from "../../lib/time";
import { count } from "../../lib/text";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { CopyButton } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { TextField } from "../../ui/Field";
import { Empty, ErrorPanel, Panel, Skeleton } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Moment, Time } from "../../ui/Time";
import { brief, type Changed, changesBetween, foremost, MOST_CHANGES } from "./changes";
import { fromLocal, toLocal } from "./times";
import { VerifyButton } from "./Verify";
import "./audit.css";

type Row = Schemas["AuditRow"];
const FILTERS = ["actor", "action", "target", "since", "until"] as const;
type Filter = Partial<Record<(typeof FILTERS)[number], string>>;
const SPANS: [string, number][] = [
  ["Last hour", 3_600_000],
  ["Last day", 86_400_000],
  ["Last week", 7 * 86_400_000],
];
const GROUPS = [
  "job",
  "flow",
  "schedule",
  "operation",
  "dead_letters",
  "redrive",
  "pause",
  "limit",
  "breaker",
  "calendar",
  "key",
  "secret",
  "session",
  "alert",
  "worker",
  "audit",
];
const ACTIONS = GROUPS.map((group) => `${group}.*`);
/** Actions whose target has no page, or none any more. */
const WITHOUT_PAGE = ["job.delete", "job.bulk", "job.export", "schedule.delete", "flow.batch"];
const LIMIT = 50;
const FEW = 20;
const MOST_PAGES = 10;

export default function AuditPage() {
  const role = useRole();
  if (role.can("admin") && role.everything) return <Audit />;
  return (
    <>
      <PageHead title="Audit" />
      <Panel>
        <Empty title="The audit log is for admins">Log in with a key of the role admin that has no scope.</Empty>
      </Panel>
    </>
  );
}

function Audit() {
  const [search, change] = useParameters();
  const filter: Filter = Object.fromEntries(FILTERS.filter((name) => search[name]).map((name) => [name, search[name]]));
  const [open, setOpen] = useState<Row | null>(null);
  const rows = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: async ({ pageParam }) =>
      unwrap(api.GET("/api/audit", { params: { query: { ...filter, limit: LIMIT, before: pageParam } } })),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => (page.next ? Number(page.next) : undefined),
  });
  const { hasNextPage, isFetching, fetchNextPage } = rows;
  const pages = rows.data?.pages.length ?? 0;
  const few = (rows.data?.pages.flatMap((page) => page.data).length ?? 0) < FEW;
  // A request examines some hundred rows only: where few of them match, the next ones are asked for at once.
  useEffect(() => {
    if (few && hasNextPage && !isFetching && pages < MOST_PAGES) void fetchNextPage();
  }, [few, hasNextPage, isFetching, pages, fetchNextPage]);
  const names = useKeyNames();
  const found = rows.data?.pages.flatMap((page) => page.data) ?? [];
  const unreadable = rows.data?.pages.flatMap((page) => page.unreadable ?? []) ?? [];
  return (
    <div className="stack">
      <PageHead title="Audit">
        <CallButton calls={callOf(filter)} />
        <Button small onClick={() => void rows.refetch()} busy={rows.isRefetching}>
          Refresh
        </Button>
        <VerifyButton />
      </PageHead>
      <Filters filter={filter} onChange={change} />
      <Panel flush>
        {rows.isPending ? (
          <Skeleton rows={12} />
        ) : rows.error && found.length === 0 ? (
          <ErrorPanel error={rows.error} onRetry={() => void rows.refetch()} />
        ) : (
          <Table
            caption="Rows of the audit log, the newest first"
            rows={found}
            id={(row) => String(row.n)}
            columns={columns(names, change, setOpen)}
            empty={
              rows.hasNextPage ? null : Object.keys(filter).length ? (
                <Empty title="No row matches">
                  Actor and target match exactly; an action may end with .* for a group.
                </Empty>
              ) : (
                <Empty title="No changes yet" command="mainspring audit list">
                  Every change made over HTTP or on the command line is listed here.
                </Empty>
              )
            }
          />
        )}
        {unreadable.map((one) => (
          <p key={one.id} className="field-error audit-unreadable">
            Row {one.id} cannot be read: {one.error}
          </p>
        ))}
        {rows.hasNextPage && (
          <div className="audit-more">
            <Button busy={rows.isFetchingNextPage} onClick={() => void rows.fetchNextPage()}>
              Older rows
            </Button>
            {found.length === 0 && (
              <span className="muted">None among the newest thousands; older rows may match.</span>
            )}
          </div>
        )}
      </Panel>
      {open && <RowDialog row={open} name={names.get(open.actor)} onClose={() => setOpen(null)} />}
    </div>
  );
}

/** The names of keys by the actors that they are in the log. */
function useKeyNames(): ReadonlyMap<string, string> {
  const keys = useQuery({
    queryKey: ["keys"],
    queryFn: async () => (await unwrap(api.GET("/api/keys"))).data,
    staleTime: 60_000,
  });
  return new Map((keys.data ?? []).map((key) => [`key:${key.id}`, key.name]));
}

function columns(
  names: ReadonlyMap<string, string>,
  change: (filter: Filter) => void,
  open: (row: Row) => void,
): Column<Row>[] {
  return [
    { key: "n", title: "Row", align: "right", width: "60px", cell: (row) => count(row.n), minor: true },
    { key: "at", title: "When", width: "130px", cell: (row) => <Time at={row.at} /> },
    {
      key: "actor",
      title: "Actor",
      minor: true,
      cell: (row) => (
        <button
          type="button"
          className="audit-link"
          title={`Show what ${row.actor} did`}
          onClick={() => change({ actor: row.actor })}
        >
          {names.get(row.actor) ?? row.actor}
        </button>
      ),
    },
    {
      key: "action",
      title: "Action",
      cell: (row) => (
        <button
          type="button"
          className="audit-link mono"
          title={`Show every ${row.action}`}
          onClick={() => change({ action: row.action })}
        >
          {row.action}
        </button>
      ),
    },
    { key: "target", title: "Target", cell: (row) => <Target row={row} /> },
    { key: "change", title: "Change", minor: true, cell: (row) => <Brief row={row} /> },
    {
      key: "open",
      title: <span className="visually-hidden">Details</span>,
      align: "right",
      width: "70px",
      cell: (row) => (
        <Button small look="quiet" aria-label={`Details of row ${row.n}`} onClick={() => open(row)}>
          Details
        </Button>
      ),
    },
  ];
}

/** The thing that was changed, with a link where it has a page. */
function Target({ row }: { row: Row }) {
  const [kind] = row.action.split(".");
  const words = <span className="mono wrap">{row.target}</span>;
  if (WITHOUT_PAGE.includes(row.action)) return words;
  if (kind === "job")
    return (
      <Link to="/jobs/$id" params={{ id: row.target }}>
        {words}
      </Link>
    );
  if (kind === "schedule")
    return (
      <Link to="/schedules/$id" params={{ id: row.target }}>
        {words}
      </Link>
    );
  if (kind === "flow")
    return (
      <Link to="/flows/$id" params={{ id: row.target }}>
        {words}
      </Link>
    );
  if (kind === "alert" && row.action !== "alert.delete") return <Link to="/alerts">{words}</Link>;
  if (kind === "pause" && row.target.startsWith("queue:"))
    return (
      <Link to="/queues/$queue" params={{ queue: row.target.slice("queue:".length) }}>
        {words}
      </Link>
    );
  if (kind === "limit" || kind === "breaker")
    return (
      <Link to="/queues" search={{ tab: `${kind}s`, target: row.target.split(":").slice(1).join(":") } as never}>
        {words}
      </Link>
    );
  if (kind === "operation")
    return (
      <Link to="/operations/$id" params={{ id: row.target }}>
        {words}
      </Link>
    );
  return words;
}

function Brief({ row }: { row: Row }) {
  const changes = changesBetween(row.before, row.after);
  const first = foremost(changes);
  if (!first) return <span className="muted">–</span>;
  return (
    <span className="audit-brief">
      <span className="muted">{first.path || "value"}</span> <Sides change={first} longest={28} />
      {changes.length > 1 && <span className="muted"> and {changes.length - 1} more</span>}
    </span>
  );
}

function Sides({ change, longest }: { change: Changed; longest: number }) {
  return (
    <>
      {"before" in change && <del className="audit-before">{brief(change.before, longest)}</del>}
      {"before" in change && "after" in change && <span className="muted"> → </span>}
      {"after" in change && <ins className="audit-after">{brief(change.after, longest)}</ins>}
    </>
  );
}

function RowDialog({ row, name, onClose }: { row: Row; name?: string; onClose: () => void }) {
  const changes = changesBetween(row.before, row.after);
  const facts: [string, ReactNode][] = [
    ["When", <Moment key="at" at={row.at} />],
    ["Actor", name ? `${name} (${row.actor})` : row.actor],
    ["Address", row.address ?? "–"],
    ["Target", row.target],
    ["Signed with", row.key ?? "no key"],
    ["Hash", <code key="hash">{row.hash}</code>],
    ["Hash before", <code key="prev">{row.prev}</code>],
  ];
  return (
    <Dialog title={`Row ${row.n}: ${row.action}`} onClose={onClose} wide>
      <div className="stack">
        <dl className="audit-facts">
          {facts.map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        {changes.length ? (
          <Table
            caption="What was changed"
            rows={changes}
            id={(change) => change.path}
            columns={[
              { key: "path", title: "Field", cell: (change) => <span className="mono">{change.path || "value"}</span> },
              {
                key: "before",
                title: "Before",
                cell: (change) =>
                  "before" in change && <del className="audit-before">{brief(change.before, 2000)}</del>,
              },
              {
                key: "after",
                title: "After",
                cell: (change) => "after" in change && <ins className="audit-after">{brief(change.after, 2000)}</ins>,
              },
            ]}
          />
        ) : (
          <p className="muted">This row has no values before and after.</p>
        )}
        {changes.length >= MOST_CHANGES && (
          <p className="muted">Only the first {MOST_CHANGES} differences are listed.</p>
        )}
        <div>
          <CopyButton text={() => JSON.stringify(row, null, 2)} label="Copy the row as JSON" />
        </div>
      </div>
    </Dialog>
  );
}

function Filters({ filter, onChange }: { filter: Filter; onChange: (filter: Record<string, string | null>) => void }) {
  const [typed, setTyped] = useState<Filter>(filter);
  const address = JSON.stringify(filter);
  // Back, forward and a click in the table change the address: the fields follow it.
  useEffect(() => setTyped(JSON.parse(address) as Filter), [address]);
  const set = (name: keyof Filter) => (event: { target: { value: string } }) =>
    setTyped((before) => ({ ...before, [name]: event.target.value }));
  const setTime = (name: "since" | "until") => (event: { target: { value: string } }) =>
    onChange({ [name]: fromLocal(event.target.value) });
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    onChange({ actor: typed.actor ?? null, action: typed.action ?? null, target: typed.target ?? null });
  };
  return (
    <form className="audit-filters" onSubmit={submit} aria-label="Filter" role="search">
      <TextField
        label="Actor"
        value={typed.actor ?? ""}
        placeholder="key:4f2a…"
        maxLength={500}
        onChange={set("actor")}
        onBlur={() => submit()}
      />
      <TextField
        label="Action"
        value={typed.action ?? ""}
        placeholder="job.cancel or job.*"
        options={ACTIONS}
        maxLength={500}
        onChange={set("action")}
        onBlur={() => submit()}
      />
      <TextField
        label="Target"
        value={typed.target ?? ""}
        placeholder="the id or name"
        maxLength={500}
        onChange={set("target")}
        onBlur={() => submit()}
      />
      <TextField label="From" type="datetime-local" value={toLocal(filter.since)} onChange={setTime("since")} />
      <TextField label="To" type="datetime-local" value={toLocal(filter.until)} onChange={setTime("until")} />
      <div className="row audit-quick">
        {SPANS.map(([words, length]) => (
          <Button
            key={words}
            small
            onClick={() => onChange({ since: new Date(serverNow() - length).toISOString(), until: null })}
          >
            {words}
          </Button>
        ))}
        <button type="submit" className="visually-hidden">
          Apply
        </button>
        {address !== "{}" && (
          <Button small look="quiet" onClick={() => onChange(Object.fromEntries(FILTERS.map((name) => [name, null])))}>
            Clear
          </Button>
        )}
      </div>
    </form>
  );
}

function callOf(filter: Filter) {
  const query = new URLSearchParams(filter as Record<string, string>).toString();
  const given = Object.entries(filter).map(([name, value]) =>
    name === "since" || name === "until"
      ? `${name}=datetime.fromisoformat(${pythonLiteral(value)})`
      : `${name}=${pythonLiteral(value)}`,
  );
  return {
    path: `/api/audit${query ? `?${query}` : ""}`,
    python: `rows = await scheduler.audit.find(${given.join(", ")})\nfor row in rows:\n    print(row.n, row.at, row.actor, row.action, row.target)`,
  };
}
