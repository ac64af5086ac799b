// Settings and keys, for admins: this service, its API keys, and its secrets.
import { Navigate } from "@tanstack/react-router";
import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { Tabs } from "../../ui/Field";
import { Empty, Panel } from "../../ui/Panel";
import { KeysTab } from "./KeysTab";
import { SecretsTab } from "./SecretsTab";
import { ServiceTab } from "./ServiceTab";
import "./settings.css";

type Tab = "service" | "keys" | "secrets";

export default function SettingsPage() {
  const role = useRole();
  const [search, change] = useParameters();
  const tabs: [Tab, string][] = [];
  if (role.can("admin") && role.everything) tabs.push(["service", "This service"]);
  if (role.can("admin")) tabs.push(["keys", "API keys"]);
  if (role.can("admin") && role.everything) tabs.push(["secrets", "Secrets"]);
  const tab = tabs.find(([name]) => name === search["tab"])?.[0] ?? tabs[0]?.[0];
  // Calendars were a tab of this page once; their old address leads on.
  if (search["tab"] === "calendars") return <Navigate to="/schedules/-/calendars" replace />;
  if (!tab)
    return (
      <>
        <PageHead title="Settings and keys" />
        <Panel>
          <Empty title="Settings and keys are for admins">
            The key of this session has the role {role.name}. Log in with a key of the role admin.
          </Empty>
        </Panel>
      </>
    );
  return (
    <div className="stack">
      <PageHead title="Settings and keys" />
      <Tabs label="Settings" value={tab} options={tabs} onChange={(value) => change({ tab: value })} />
      <div role="tabpanel" aria-label={tabs.find(([name]) => name === tab)?.[1]}>
        {tab === "service" && <ServiceTab />}
        {tab === "keys" && <KeysTab />}
        {tab === "secrets" && <SecretsTab />}
      </div>
    </div>
  );
}
