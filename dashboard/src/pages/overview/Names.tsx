// The most failing and the slowest names in the chosen time, against the same time last week.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { usePause } from "../../live/live";
import { count, shownName } from "../../lib/text";
import { duration, serverNow } from "../../lib/time";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { change, ended, failing, type NameRow, share, unsuccessful } from "./series";
import { refreshOf, spanOf, type View } from "./view";

type Order = "failing" | "slowest";
const ROWS = 8;

export function Names({ view, order }: { view: View; order: Order }) {
  const { paused } = usePause();
  const found = useQuery({
    queryKey: ["stats", "names", order, view.range, view.queue, view.part],
    queryFn: async () => {
      const { start, end } = view.part ?? spanOf(view.range, serverNow());
      const query = { start, end, order, limit: ROWS, queue: view.queue };
      return (await unwrap(api.GET("/api/stats/names", { params: { query } }))).data;
    },
    refetchInterval: paused || view.part ? false : 3 * refreshOf(view.range),
    placeholderData: (before) => before,
  });
  const title = order === "failing" ? "Most failing names" : "Slowest names";
  return (
    <Panel title={title} flush>
      <Loaded query={found} rows={4}>
        {(names) => (
          <Table
            caption={`${title}, against last week`}
            columns={order === "failing" ? failed(names) : slow(names)}
            rows={names.names}
            id={(row) => row.name}
            empty={
              <Empty title={order === "failing" ? "No attempt failed" : "No attempt ended"}>In the chosen time.</Empty>
            }
          />
        )}
      </Loaded>
    </Panel>
  );
}

type Window = { start: string; end: string };

function failed(window: Window): Column<NameRow>[] {
  return [
    nameColumn(window, "failed"),
    {
      key: "failed",
      title: "Failed",
      align: "right",
      cell: (row) => `${count(unsuccessful(row))} of ${count(ended(row))}`,
    },
    { key: "share", title: "Share", align: "right", cell: (row) => share(failing(row)) },
    { key: "before", title: "Last week", align: "right", minor: true, cell: (row) => share(failing(row.before)) },
    {
      key: "change",
      title: "Change",
      align: "right",
      cell: (row) => <Changed now={failing(row)} before={failing(row.before)} />,
    },
  ];
}

function slow(window: Window): Column<NameRow>[] {
  return [
    nameColumn(window),
    { key: "p50", title: "p50", align: "right", minor: true, cell: (row) => duration(row.p50Ms) },
    { key: "p95", title: "p95", align: "right", cell: (row) => duration(row.p95Ms) },
    { key: "before", title: "Last week", align: "right", minor: true, cell: (row) => duration(row.before.p95Ms) },
    {
      key: "change",
      title: "Change",
      align: "right",
      cell: (row) => <Changed now={row.p95Ms} before={row.before.p95Ms} />,
    },
  ];
}

function nameColumn(window: Window, state?: string): Column<NameRow> {
  return {
    key: "name",
    title: "Name",
    cell: (row) => {
      const search = { name: row.name, since: window.start, until: window.end, ...(state ? { state } : {}) };
      return (
        <Link to="/jobs" search={search}>
          {shownName(row.name)}
        </Link>
      );
    },
  };
}

function Changed({ now, before }: { now: number | null | undefined; before: number | null | undefined }) {
  const { text, worse } = change(now, before);
  const looks = worse === null ? "muted" : worse ? "change-worse" : "change-better";
  return (
    <span className={looks}>
      {worse !== null && <span aria-hidden="true">{worse ? "↑ " : "↓ "}</span>}
      {text}
    </span>
  );
}
