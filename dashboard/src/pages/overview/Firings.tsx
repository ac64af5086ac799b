// The schedules that fire next.
import { Link } from "@tanstack/react-router";
import type { Schemas } from "../../api/client";
import { Empty, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Moment, Time } from "../../ui/Time";

type Firing = Schemas["NextFiringOut"];

export function Firings({ firings }: { firings: readonly Firing[] }) {
  return (
    <Panel title="Next firings" actions={<Link to="/schedules">All schedules</Link>} flush>
      <Table
        caption="Next firings"
        columns={columns}
        rows={firings}
        id={(firing) => firing.scheduleId}
        empty={
          <Empty
            title="No schedule is about to fire"
            command={'@scheduler.cron("0 3 * * *")\nasync def nightly(): ...'}
          >
            A schedule makes a job at each of its firings.
          </Empty>
        }
      />
    </Panel>
  );
}

const columns: Column<Firing>[] = [
  {
    key: "schedule",
    title: "Schedule",
    cell: (firing) => (
      <Link to="/schedules/$id" params={{ id: firing.scheduleId }}>
        {firing.scheduleId}
      </Link>
    ),
  },
  { key: "name", title: "Job", minor: true, cell: (firing) => firing.name },
  { key: "at", title: "At", align: "right", minor: true, cell: (firing) => <Moment at={firing.at} /> },
  { key: "in", title: "In", align: "right", cell: (firing) => <Time at={firing.due} /> },
];
