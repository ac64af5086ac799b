// Pauses of job names, and of single values of a key: they hold back jobs that no queue's row tells of.
import { useQuery } from "@tanstack/react-query";
import { useAct } from "../../api/act";
import { api, type Schemas, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";

type Pause = Schemas["PausedOut"];

export function OtherPauses() {
  const query = useQuery({
    queryKey: ["queues", "pauses"],
    queryFn: async () => (await unwrap(api.GET("/api/pauses"))).data,
  });
  const others = (query.data ?? []).filter((one) => one.scope === "name" || one.key !== null);
  if (others.length === 0) return null;
  return (
    <Panel title="Paused job names and keys" flush>
      <Table caption="Paused job names and keys" columns={COLUMNS} rows={others} id={named} />
    </Panel>
  );
}

function named(pause: Pause): string {
  return `${pause.scope} ${pause.target} ${pause.key ?? ""} ${JSON.stringify(pause.value ?? null)}`;
}

const COLUMNS: Column<Pause>[] = [
  {
    key: "target",
    title: "Paused",
    cell: (pause) => (
      <span className="wrap">
        <span className="muted">{pause.scope === "queue" ? "Queue" : "Job"}</span> {pause.target}{" "}
        {pause.key !== null && <code>{`${pause.key}=${String(pause.value)}`}</code>}
      </span>
    ),
  },
  { key: "since", title: "Since", cell: (pause) => <Time at={pause.at} /> },
  { key: "by", title: "By", minor: true, cell: (pause) => pause.actor ?? "–" },
  { key: "reason", title: "Reason", cell: (pause) => <span className="wrap">{pause.reason || "–"}</span> },
  { key: "act", title: "", align: "right", cell: (pause) => <Resume pause={pause} /> },
];

function Resume({ pause }: { pause: Pause }) {
  const { can } = useRole();
  const target = pause.scope === "queue" ? { queue: pause.target } : { name: pause.target };
  const key = pause.key !== null ? { key: { [pause.key]: pause.value as string } } : {};
  const resume = useAct(() => unwrap(api.POST("/api/pauses/resume", { body: { ...target, ...key } })), {
    done: () => `${pause.target} goes on.`,
  });
  if (!can("operator")) return null;
  return (
    <Button small onClick={() => resume.mutate()} busy={resume.isPending}>
      Resume
    </Button>
  );
}
