import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { useLive } from "../../live/live";
import { type Call, CallButton } from "../../ui/Call";
import { Tabs } from "../../ui/Field";
import { BreakerList } from "./BreakerList";
import { breakerCall, pauseCall, removeLimitCall, resumeCall, setLimitCall } from "./calls";
import { LimitList } from "./LimitList";
import { NewLimit } from "./NewLimit";
import { OtherPauses } from "./OtherPauses";
import { QueueTable } from "./QueueTable";
import "./queues.css";

const TABS = ["queues", "limits", "breakers"] as const;
type Tab = (typeof TABS)[number];

const NAMED = { scope: "name" as const, target: "NAME" };
const READS: Record<Tab, Call[]> = {
  queues: [
    { path: "/api/queues", python: "queues = await scheduler.queues.all()" },
    { path: "/api/pauses", python: "pauses = await scheduler.limits.pauses()" },
  ],
  limits: [{ path: "/api/limits", python: "limits = await scheduler.limits.all()" }],
  breakers: [{ path: "/api/breakers", python: "breakers = await scheduler.limits.breakers()" }],
};
const VERBS: Record<Tab, Call[]> = {
  queues: [pauseCall("QUEUE"), resumeCall("QUEUE")],
  limits: [setLimitCall(NAMED, { concurrency: 5, reason: "…" }), removeLimitCall(NAMED)],
  breakers: [breakerCall("open", NAMED, {}), breakerCall("close", NAMED, {})],
};

export default function QueuesPage() {
  const [search, change] = useParameters();
  const { can } = useRole();
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "queues";
  useLive({ kind: "controls" }, [["queues"], ["limits"], ["breakers"]]);
  return (
    <div className="stack">
      <PageHead title="Queues and limits">
        <CallButton calls={can("operator") ? [...READS[tab], ...VERBS[tab]] : READS[tab]} />
        {tab === "limits" && <NewLimit />}
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
      {tab === "limits" && <LimitList target={search.target} />}
      {tab === "breakers" && <BreakerList target={search.target} />}
    </div>
  );
}
