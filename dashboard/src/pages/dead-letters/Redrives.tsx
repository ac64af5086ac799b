// The latest redrives and their progress.
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { type Redrive, useRedrives } from "./data";
import { redriveWords } from "./GroupActions";

export function Redrives() {
  const redrives = useRedrives().data ?? [];
  if (redrives.length === 0) return null;
  return (
    <Panel title="Retried and discarded" flush>
      <Table caption="The latest redrives" columns={COLUMNS} rows={redrives} id={(one) => one.id} />
    </Panel>
  );
}

const COLUMNS: Column<Redrive>[] = [
  { key: "what", title: "Redrive", cell: (one) => <Progress redrive={one} /> },
  { key: "state", title: "State", cell: (one) => <Badge tone={TONES[one.state] ?? "neutral"}>{one.state}</Badge> },
  { key: "at", title: "Started", cell: (one) => <Time at={one.startedAt} /> },
  { key: "actor", title: "By", minor: true, cell: (one) => one.actor ?? "–" },
  { key: "reason", title: "Reason", minor: true, cell: (one) => <span className="wrap">{one.reason || "–"}</span> },
  { key: "act", title: "", cell: (one) => <Cancel redrive={one} /> },
];
const TONES: Record<string, "info" | "good" | "neutral"> = { running: "info", done: "good" };

function Progress({ redrive }: { redrive: Redrive }) {
  return (
    <span className="redrive">
      {redriveWords(redrive)}
      {redrive.state === "running" && <progress value={redrive.progress} max={1} aria-label="Progress" />}
    </span>
  );
}

function Cancel({ redrive }: { redrive: Redrive }) {
  const { can } = useRole();
  const path = { redrive_id: redrive.id };
  const cancel = useAct(() => unwrap(api.POST("/api/redrives/{redrive_id}/cancel", { params: { path } })), {
    done: () => "The redrive stops before its next dead letter.",
    touches: [["redrives"], ["dead-letters"]],
  });
  if (redrive.state !== "running" || !can("operator")) return null;
  return (
    <Button small onClick={() => cancel.mutate()} busy={cancel.isPending}>
      Cancel
    </Button>
  );
}
