// Settings and keys: this service, its API keys, its secrets, and the calendars of schedules.
import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { Tabs } from "../../ui/Field";
import { Empty } from "../../ui/Panel";
import { CalendarsTab } from "./CalendarsTab";
import { KeysTab } from "./KeysTab";
import { SecretsTab } from "./SecretsTab";
import { ServiceTab } from "./ServiceTab";
import "./settings.css";

type Tab = "service" | "keys" | "secrets" | "calendars";

export default function SettingsPage() {
  const role = useRole();
  const [search, change] = useParameters();
  const tabs: [Tab, string][] = [];
  if (role.can("admin") && role.everything) tabs.push(["service", "This service"]);
  if (role.can("admin")) tabs.push(["keys", "API keys"]);
  if (role.can("admin") && role.everything) tabs.push(["secrets", "Secrets"]);
  tabs.push(["calendars", "Calendars"]);
  const tab = tabs.find(([name]) => name === search["tab"])?.[0] ?? tabs[0]?.[0];
  if (!tab) return <Empty title="Nothing to set">This key may read jobs only.</Empty>;
  return (
    <div className="stack">
      <PageHead title="Settings and keys" />
      <Tabs label="Settings" value={tab} options={tabs} onChange={(value) => change({ tab: value })} />
      <div role="tabpanel" aria-label={tabs.find(([name]) => name === tab)?.[1]}>
        {tab === "service" && <ServiceTab />}
        {tab === "keys" && <KeysTab />}
        {tab === "secrets" && <SecretsTab />}
        {tab === "calendars" && <CalendarsTab />}
      </div>
    </div>
  );
}
