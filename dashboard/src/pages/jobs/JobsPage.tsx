// The jobs: a live table of what a filter finds, in which no row jumps, and actions on one, some or all of them.
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { useRole } from "../../api/session";
import { useShortcuts } from "../../app/keys";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useFrozen, useLive } from "../../live/live";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { Empty, ErrorPanel, Panel, Skeleton } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { OperationProgress } from "../operations/OperationProgress";
import { columnsOf } from "./columns";
import { FilterBar } from "./FilterBar";
import { type Filter, filterNames, format, fromParameters, isEmpty, toParameters } from "./filter";
import { usePrefs } from "./prefs";
import { COUNTS_KEY, type Job, JOBS_KEY, useCounts, useJobs, useKnown } from "./read";
import { moved, type Row, settle, toggled, toggledPage } from "./rows";
import { Selection } from "./Selection";
import { StateTabs } from "./StateTabs";
import { Tools } from "./Tools";
import "./JobsPage.css";

const INPUT = "jobs-filter";

export default function JobsPage() {
  const [search, setSearch] = useParameters();
  const [prefs, setPrefs] = usePrefs();
  const role = useRole();
  const navigate = useNavigate();
  const { filter, problems } = useMemo(() => fromParameters(search), [search]);
  const after = search["after"];
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [matching, setMatching] = useState(false);
  const [current, setCurrent] = useState<string | null>(null);
  const [operations, setOperations] = useState<string[]>([]);
  const known = useKnown();
  const query = useJobs(filter, prefs.size, after);
  const counts = useCounts(filter);
  const key = `${format(filter)}|${prefs.size}|${after ?? ""}`;
  const full = query.data?.next != null;
  const read = query.isPlaceholderData ? undefined : query.data?.jobs;
  const { rows, fresh, more, adopt } = useStillRows(key, read, full, !full && !after);
  const ids = rows.map((row) => row.job.id);
  const selecting = selected.size > 0 || matching;

  const concerned = { kind: "jobs" as const, name: filter.name, queue: filter.queue };
  useLive(concerned, [JOBS_KEY, COUNTS_KEY], { frozen: selecting });
  const frozen = useFrozen(concerned, selecting);
  const clear = () => {
    setSelected(new Set());
    setMatching(false);
  };
  useEffect(clear, [key]);

  const change = (next: Filter) => {
    const gone = Object.fromEntries(filterNames(search).map((name) => [name, null]));
    setSearch({ ...gone, ...toParameters(next), after: null });
  };
  const step = (by: number) => {
    const next = moved(ids, current, by);
    setCurrent(next);
    window.requestAnimationFrame(() =>
      document.querySelector("tr[aria-current]")?.scrollIntoView({ block: "nearest" }),
    );
  };
  useShortcuts([
    { keys: "j", what: "Next job", run: () => step(1) },
    { keys: "k", what: "Job before", run: () => step(-1) },
    {
      keys: "x",
      what: "Select the job, or not",
      run: () => current && role.can("operator") && setSelected(toggled(selected, current)),
    },
    {
      keys: "Enter",
      what: "Open the job",
      run: () => current && void navigate({ to: "/jobs/$id", params: { id: current } }),
    },
    { keys: "/", what: "Type a filter", run: () => document.getElementById(INPUT)?.focus() },
    { keys: "r", what: "Show new jobs", run: () => adopt() },
  ]);

  const columns = useMemo(() => {
    const chosen = columnsOf(prefs.columns);
    return role.can("operator") ? [selectColumn(ids, selected, setSelected), ...chosen] : chosen;
  }, [prefs.columns, ids.join(), selected, role.can("operator")]);
  const news = selecting ? frozen.fresh : fresh;

  return (
    <div className={`stack jobs jobs-${prefs.density}`}>
      <PageHead title="Jobs">
        <Tools
          filter={filter}
          prefs={prefs}
          setPrefs={setPrefs}
          search={search}
          onView={(view) => setSearch({ ...blank(search), ...view })}
        />
        {role.can("operator") && (
          <Link to="/jobs/new" className="button button-primary">
            New job
          </Link>
        )}
      </PageHead>
      <FilterBar filter={filter} problems={problems} known={known} onChange={change} inputId={INPUT} />
      <StateTabs filter={filter} counts={counts.data} onChange={change} />
      {operations.map((id) => (
        <OperationProgress key={id} id={id} onDismiss={() => setOperations(operations.filter((one) => one !== id))} />
      ))}
      {selecting && (
        <Selection
          jobs={rows.map((row) => row.job).filter((job) => selected.has(job.id))}
          selected={selected}
          matching={matching}
          setMatching={setMatching}
          filter={filter}
          now={query.data?.now}
          counts={counts.data}
          queues={known.queues}
          onClear={clear}
          onCreated={(operation) => {
            clear();
            setOperations([operation.id, ...operations]);
          }}
        />
      )}
      <Panel flush>
        {news > 0 && (
          <div className="jobs-news" role="status">
            <Button
              small
              look="primary"
              onClick={() => {
                clear();
                adopt();
                void query.refetch();
              }}
            >
              {!selecting && more ? `${news} or more new jobs` : plural(news, "new job", "new jobs")}
            </Button>
            {selecting && <span className="muted">The list does not update while jobs are selected.</span>}
          </div>
        )}
        {query.data === undefined ? (
          query.error ? (
            <ErrorPanel error={query.error} onRetry={() => void query.refetch()} />
          ) : (
            <Skeleton rows={12} />
          )
        ) : (
          <>
            {query.error && (
              <p className="jobs-note field-error" role="status">
                This is older than it looks: {query.error.message}
              </p>
            )}
            <Table
              caption="Jobs"
              columns={columns}
              rows={rows}
              id={(row) => row.job.id}
              current={current}
              selected={(row) => selected.has(row.job.id)}
              onRowClick={(row) => setCurrent(row.job.id)}
              empty={<Nothing filter={filter} complete={query.data.complete} onClear={() => change({ data: {} })} />}
            />
            {!query.data.complete && (
              <p className="jobs-note muted" role="status">
                {query.data.searched ?? "Only a part of the jobs was searched."}
              </p>
            )}
          </>
        )}
      </Panel>
      <Pages
        after={after}
        next={query.isPlaceholderData ? null : (query.data?.next ?? null)}
        full={query.data?.complete ?? true}
        onChange={(cursor) => setSearch({ after: cursor })}
      />
    </div>
  );
}

/** Rows that stay where they are until the filter changes or the viewer asks for the new ones. */
function useStillRows(key: string, read: readonly Job[] | undefined, full: boolean, whole: boolean) {
  const [shown, setShown] = useState<{ key: string; jobs: readonly Job[] }>({ key: "", jobs: [] });
  const stale = read !== undefined && (shown.key !== key || shown.jobs.length === 0);
  useEffect(() => {
    if (stale && read) setShown({ key, jobs: read });
  }, [stale, key, read]);
  const jobs = stale ? read : shown.jobs;
  const settled = useMemo(() => settle(jobs, read ?? jobs, { full, whole }), [jobs, read, full, whole]);
  return { ...settled, adopt: () => read && setShown({ key, jobs: read }) };
}

function selectColumn(
  ids: string[],
  selected: ReadonlySet<string>,
  set: (ids: ReadonlySet<string>) => void,
): Column<Row<Job>> {
  const all = ids.length > 0 && ids.every((id) => selected.has(id));
  return {
    key: "select",
    width: "34px",
    title: (
      <input
        type="checkbox"
        aria-label="Select all jobs of this page"
        checked={all}
        ref={(box) => {
          if (box) box.indeterminate = !all && ids.some((id) => selected.has(id));
        }}
        onChange={() => set(toggledPage(selected, ids))}
      />
    ),
    cell: ({ job }) => (
      <input
        type="checkbox"
        aria-label={`Select ${job.name} ${job.id}`}
        checked={selected.has(job.id)}
        onClick={(event) => event.stopPropagation()}
        onChange={() => set(toggled(selected, job.id))}
      />
    ),
  };
}

function Nothing({ filter, complete, onClear }: { filter: Filter; complete: boolean; onClear: () => void }) {
  if (!complete)
    return <Empty title="Nothing found so far">One page searches only a part of the jobs. Search further below.</Empty>;
  if (!isEmpty(filter))
    return (
      <Empty title="No job matches">
        <Button onClick={onClear}>Show all jobs</Button>
      </Empty>
    );
  return (
    <Empty title="No job yet" command={'await scheduler.schedule("hello", {"name": "Ada"})'}>
      A job is one piece of work. Schedule the first one in Python, over HTTP, or with the button New job.
    </Empty>
  );
}

/** The cursors of the pages that lead here, so that one can go back page by page. */
const trail = new Map<string, string | null>();

type PagesProps = {
  after: string | undefined;
  next: string | null;
  full: boolean;
  onChange: (cursor: string | null) => void;
};

function Pages({ after, next, full, onChange }: PagesProps) {
  const top = useRef<HTMLElement>(null);
  const go = (cursor: string | null) => {
    onChange(cursor);
    window.scrollTo({ top: 0 });
  };
  if (!after && !next) return null;
  return (
    <nav className="row" aria-label="Pages of jobs" ref={top}>
      {after && <Button onClick={() => go(null)}>First page</Button>}
      {after && trail.has(after) && <Button onClick={() => go(trail.get(after) ?? null)}>Page before</Button>}
      {next && (
        <Button
          onClick={() => {
            trail.set(next, after ?? null);
            go(next);
          }}
        >
          {full ? "Next page" : "Search further"}
        </Button>
      )}
    </nav>
  );
}

/** All parameters of the address as removed ones. */
function blank(search: Record<string, string | undefined>): Record<string, null> {
  return Object.fromEntries(Object.keys(search).map((name) => [name, null]));
}
