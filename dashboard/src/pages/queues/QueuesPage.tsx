import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useLive } from "../../live/live";
import { CallButton } from "../../ui/Call";
import { Tabs } from "../../ui/Field";
import { BreakerList } from "./BreakerList";
import { LimitList } from "./LimitList";
import { NewLimit } from "./NewLimit";
import { OtherPauses } from "./OtherPauses";
import { QueueTable } from "./QueueTable";
import "./queues.css";

const TABS = ["queues", "limits", "breakers"] as const;
type Tab = (typeof TABS)[number];

const CALLS = {
  queues: { path: "/api/queues", python: "queues = await scheduler.queues.all()" },
  limits: { path: "/api/limits", python: "limits = await scheduler.limits.all()" },
  breakers: { path: "/api/breakers", python: "breakers = await scheduler.limits.breakers()" },
};

export default function QueuesPage() {
  const [search, change] = useParameters();
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "queues";
  useLive({ kind: "controls" }, [["queues"], ["limits"], ["breakers"]]);
  return (
    <div className="stack">
      <PageHead title="Queues and limits">
        {tab === "limits" && <NewLimit />}
        <CallButton calls={CALLS[tab]} />
      </PageHead>
      <Tabs
        label="What to show"
        value={tab}
        options={[
          ["queues", "Queues"],
          ["limits", "Limits"],
          ["breakers", "Breakers"],
        ]}
        onChange={(value) => change({ tab: value === "queues" ? null : value })}
      />
      {tab === "queues" && (
        <>
          <QueueTable />
          <OtherPauses />
        </>
      )}
      {tab === "limits" && <LimitList />}
      {tab === "breakers" && <BreakerList />}
    </div>
  );
}
