// All operations, the newest first.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { PageHead } from "../../app/PageHead";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { ended, type Operation, outcome, sentence } from "./operation";
import { CancelButton, OperationBadge } from "./OperationProgress";
import "./operations.css";

const COLUMNS: Column<Operation>[] = [
  { key: "state", title: "State", cell: (one) => <OperationBadge state={one.state} /> },
  {
    key: "what",
    title: "Operation",
    cell: (one) => (
      <Link to="/operations/$id" params={{ id: one.id }}>
        {sentence(one)}
      </Link>
    ),
  },
  { key: "outcome", title: "So far", cell: (one) => outcome(one) },
  { key: "reason", title: "Reason", cell: (one) => <span className="wrap">{one.reason}</span>, minor: true },
  { key: "by", title: "By", cell: (one) => one.createdBy ?? "", minor: true },
  { key: "created", title: "Created", cell: (one) => <Time at={one.createdAt} />, minor: true },
  {
    key: "action",
    title: <span className="visually-hidden">Action</span>,
    cell: (one) => <CancelButton operation={one} />,
  },
];

export default function OperationsPage() {
  const query = useInfiniteQuery({
    queryKey: ["operations", "list"],
    queryFn: ({ pageParam }) =>
      unwrap(api.GET("/api/operations", { params: { query: { limit: 50, cursor: pageParam ?? undefined } } })),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: (one) => (one.state.data?.pages[0]?.data.some((row) => !ended(row)) ? 1000 : 10_000),
  });
  return (
    <>
      <PageHead title="Operations">
        <CallButton calls={{ path: "/api/operations", python: "await scheduler.operations.all()" }} />
      </PageHead>
      <Panel flush>
        <Loaded query={query} rows={6}>
          {(data) => (
            <>
              <Table
                caption="Operations"
                columns={COLUMNS}
                rows={data.pages.flatMap((page) => page.data)}
                id={(one) => one.id}
                empty={
                  <Empty title="No operation yet">
                    Select jobs on the page <Link to="/jobs">Jobs</Link>, and retry, cancel or delete them. Each such
                    action is an operation with its progress and reason.
                  </Empty>
                }
              />
              {data.pages
                .flatMap((page) => page.unreadable ?? [])
                .map((one) => (
                  <p key={one.id} className="field-error jobs-note">
                    {one.id} cannot be read: {one.error}
                  </p>
                ))}
            </>
          )}
        </Loaded>
      </Panel>
      {query.hasNextPage && (
        <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Earlier operations
        </Button>
      )}
    </>
  );
}
