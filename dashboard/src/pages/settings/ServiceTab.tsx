// This service: versions, the database and its indexes, the keys by their ids, and every setting with its source.
import type { ReactNode } from "react";
import type { Schemas } from "../../api/client";
import { plural } from "../../lib/text";
import { Badge } from "../../ui/Badge";
import { CallButton } from "../../ui/Call";
import { Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";
import { useSettings } from "./queries";
import { settingText } from "./words";

type Settings = Schemas["SettingsOut"];
type Setting = Schemas["SettingOut"];

export function ServiceTab() {
  const settings = useSettings();
  return (
    <Loaded query={settings} rows={16}>
      {(found) => (
        <div className="stack">
          <div className="columns">
            <Panel title="Versions" actions={<CallButton calls={{ path: "/api/settings" }} />}>
              <Facts facts={versions(found)} />
            </Panel>
            <Panel title="Database">
              <Facts facts={database(found)} />
            </Panel>
          </div>
          <Panel title="Service" flush>
            <SettingsTable caption="Settings of the service" settings={found.service} />
          </Panel>
          <Panel title="Scheduler and worker" flush>
            <SettingsTable caption="Settings of the scheduler; durations in seconds" settings={found.scheduler} />
          </Panel>
          <p className="muted">
            These are the settings of the process that answered. They are changed in its environment, by options of its
            command, or in code; secrets are not shown.
          </p>
        </div>
      )}
    </Loaded>
  );
}

function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="settings-facts">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function versions({ version, python, platform, access, encryption }: Settings): [string, ReactNode][] {
  return [
    ["Mainspring", version],
    ["Python", `${python} on ${platform}`],
    [
      "Access",
      access === "key" ? (
        "with an API key or a session"
      ) : (
        <Badge key="open" tone="warn">
          without a key, only for this user on this machine
        </Badge>
      ),
    ],
    [
      "Encryption",
      encryption.keyIds.length ? (
        <Ids key="ids" ids={encryption.keyIds} verb="encrypts" />
      ) : (
        <span key="none">
          no key; <code>mainspring generate-key</code> makes one for <code>MAINSPRING_KEYS</code>
        </span>
      ),
    ],
    [
      "Audit log",
      encryption.auditKeyIds.length ? (
        <Ids key="ids" ids={encryption.auditKeyIds} verb="signs" />
      ) : (
        <span key="none">
          not signed; set <code>MAINSPRING_AUDIT_KEYS</code>
        </span>
      ),
    ],
  ];
}

function Ids({ ids, verb }: { ids: string[]; verb: string }) {
  const [first, ...others] = ids;
  return (
    <>
      key <code>{first}</code> {verb}
      {others.length > 0 && <span className="muted">, also known: {others.join(", ")}</span>}
    </>
  );
}

function database({ database: db }: Settings): [string, ReactNode][] {
  const missing = db.indexes.filter((index) => !index.present);
  return [
    ["MongoDB", `${db.version}, ${db.topology}${db.setName ? ` ${db.setName}` : ""}${db.embedded ? ", embedded" : ""}`],
    ["Servers", db.addresses.join(", ")],
    ["Database", `${db.database}, collection ${db.collection}`],
    ["Transactions", db.transactions ? "yes" : "no: exactly-once and transaction() need a replica set"],
    [
      "Indexes",
      missing.length ? (
        <Badge key="missing" tone="bad">
          {`${plural(missing.length, "index", "indexes")} missing: ${missing.map((one) => `${one.collection}.${one.name}`).join(", ")}`}
        </Badge>
      ) : (
        `all ${db.indexes.length} present`
      ),
    ],
  ];
}

const COLUMNS: Column<Setting>[] = [
  { key: "name", title: "Setting", cell: (one) => <span className="mono">{one.name}</span>, width: "26%" },
  { key: "value", title: "Value", cell: (one) => <Value value={one.value} /> },
  {
    key: "source",
    title: "Source",
    minor: true,
    width: "110px",
    cell: (one) =>
      one.source === "default" ? <span className="muted">default</span> : <Badge tone="info">{one.source}</Badge>,
  },
  {
    key: "variable",
    title: "Variable",
    minor: true,
    width: "32%",
    cell: (one) => <span className="mono muted">{one.variable ?? ""}</span>,
  },
];

function Value({ value }: { value: unknown }) {
  const { text, said } = settingText(value);
  return <span className={said ? "muted" : "mono wrap"}>{text}</span>;
}

function SettingsTable({ caption, settings }: { caption: string; settings: Setting[] }) {
  const columns = settings.some((one) => one.variable) ? COLUMNS : COLUMNS.filter((one) => one.key !== "variable");
  return <Table caption={caption} rows={settings} id={(one) => one.name} columns={columns} />;
}
