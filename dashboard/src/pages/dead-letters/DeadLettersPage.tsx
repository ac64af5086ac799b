// Dead letters by their cause: how many, since when, how it goes on, and what to do about them.
import { useRole } from "../../api/session";
import { useParameters } from "../../app/search";
import { PageHead } from "../../app/PageHead";
import { count, shownName } from "../../lib/text";
import { useLive } from "../../live/live";
import { Button } from "../../ui/Button";
import { type Call, CallButton } from "../../ui/Call";
import { TextField } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Sparkline } from "../../ui/Sparkline";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { type Group, useGroups } from "./data";
import { GroupActions } from "./GroupActions";
import { GroupDetail } from "./GroupDetail";
import { Redrives } from "./Redrives";
import { filterOf, trendWords } from "./words";
import "./dead-letters.css";

const CANCEL: Call = {
  title: "Cancel a redrive",
  method: "POST",
  path: "/api/redrives/REDRIVE-ID/cancel",
  python: 'await scheduler.dead_letters.cancel_redrive("REDRIVE-ID")',
};

export default function DeadLettersPage() {
  const { can } = useRole();
  const [search, change] = useParameters();
  const filter = filterOf(search);
  const query = useGroups(filter);
  useLive({ kind: "jobs" }, [["redrives"]]);
  const open = (group: Group) => change({ group: group.fingerprint === search.group ? null : group.fingerprint });
  const columns = columnsOf(open, can("operator"));
  const asked = new URLSearchParams(filter as Record<string, string>).toString();
  return (
    <div className="stack">
      <PageHead title="Dead letters">
        <CallButton
          calls={[
            {
              path: `/api/dead-letters/groups${asked ? `?${asked}` : ""}`,
              python: `groups = await scheduler.dead_letters.groups(${Object.entries(filter)
                .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
                .join(", ")})`,
            },
            {
              title: "The latest redrives",
              path: "/api/redrives",
              python: "redrives = await scheduler.dead_letters.redrives()",
            },
            ...(can("operator") ? [CANCEL] : []),
          ]}
        />
      </PageHead>
      <Filters key={asked} filter={filter} change={change} />
      <Loaded query={query} rows={6}>
        {(groups) => {
          const chosen = groups.find((group) => group.fingerprint === search.group);
          return (
            <>
              <Panel flush>
                <Table
                  caption="Groups of dead letters"
                  columns={columns}
                  rows={groups}
                  id={(group) => group.fingerprint}
                  current={search.group}
                  empty={<Nothing filtered={asked !== ""} />}
                />
              </Panel>
              {chosen && (
                <GroupDetail key={chosen.fingerprint} group={chosen} onClose={() => change({ group: null })} />
              )}
            </>
          );
        }}
      </Loaded>
      <Redrives />
    </div>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No dead letter matches">Remove a filter to see the others.</Empty>;
  return (
    <Empty title="There are no dead letters" command={'@scheduler.job("charge", retry=Retry(attempts=5))'}>
      A job that failed in all its attempts is kept here until you retry or discard it.
    </Empty>
  );
}

function columnsOf(open: (group: Group) => void, may: boolean): Column<Group>[] {
  const columns: Column<Group>[] = [
    {
      key: "cause",
      title: "Error",
      cell: (group) => (
        <div className="dead-cause">
          <button type="button" className="dead-open" onClick={() => open(group)}>
            <strong>{group.errorType || "no error"}</strong> in{" "}
            {group.name ? shownName(group.name) : "a job without a name"}
          </button>
          <div className="dead-line muted">{group.message || "–"}</div>
        </div>
      ),
    },
    {
      key: "count",
      title: "Jobs",
      align: "right",
      cell: (group) => <strong>{count(group.count, group.capped)}</strong>,
    },
    {
      key: "trend",
      title: "Last 24 h",
      minor: true,
      cell: (group) => <Sparkline values={group.trend} colour="--failed" label={trendWords(group.trend)} />,
    },
    {
      key: "queues",
      title: "Queues",
      minor: true,
      cell: (group) => <span className="wrap">{group.queues.join(", ")}</span>,
    },
    { key: "first", title: "First seen", align: "right", minor: true, cell: (group) => <Time at={group.firstSeen} /> },
    { key: "last", title: "Last seen", align: "right", cell: (group) => <Time at={group.lastSeen} /> },
  ];
  if (may)
    columns.push({
      key: "act",
      title: <span className="visually-hidden">Actions</span>,
      align: "right",
      minor: true,
      cell: (group) => (
        <span className="dead-act">
          <GroupActions group={group} />
        </span>
      ),
    });
  return columns;
}

type Change = ReturnType<typeof useParameters>[1];

function Filters({ filter, change }: { filter: ReturnType<typeof filterOf>; change: Change }) {
  return (
    <form
      className="row dead-filters"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        const value = (key: string) => String(form.get(key) ?? "").trim() || null;
        change({ name: value("name"), queue: value("queue"), error: value("error"), text: value("text"), group: null });
      }}
    >
      <TextField label="Name" hideLabel placeholder="Job name" name="name" defaultValue={filter.name} />
      <TextField label="Queue" hideLabel placeholder="Queue" name="queue" defaultValue={filter.queue} />
      <TextField label="Error" hideLabel placeholder="Error type" name="error" defaultValue={filter.error} />
      <TextField label="Text" hideLabel placeholder="Text in the message" name="text" defaultValue={filter.text} />
      <Button type="submit">Filter</Button>
      {Object.keys(filter).length > 0 && (
        <Button look="quiet" onClick={() => change({ name: null, queue: null, error: null, text: null })}>
          Show all
        </Button>
      )}
    </form>
  );
}
