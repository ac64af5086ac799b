// API keys: a list with their rights, and making, rotating and revoking them. A key's text is shown once.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, type Schemas, unwrap } from "../../api/client";
import { logIn, SESSION_KEY, useSession } from "../../api/session";
import { serverNow } from "../../lib/time";
import { Badge } from "../../ui/Badge";
import { pythonLiteral } from "../../ui/commands";
import { Checkbox, Select, TextField } from "../../ui/Field";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Panel";
import type { Column } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { fromLocal } from "../audit/times";
import { Once } from "./Once";
import { NameField, ScopeFields, useScope } from "./fields";
import { KEYS, useKeys } from "./queries";
import { FormDialog, RemoveDialog, Shelf } from "./Shelf";
import { keyState, scopeWords } from "./words";

type Key = Schemas["KeyFacts"];
type Shown = { title: string; text: string };
type Open = { what: "create" } | { what: "rotate" | "revoke"; key: Key } | null;
const ROLES: [Key["role"], string][] = [
  ["viewer", "viewer: reads"],
  ["operator", "operator: reads, and changes jobs and schedules"],
  ["admin", "admin: also keys, secrets, settings and the audit log"],
];

export function KeysTab() {
  const keys = useKeys();
  const [open, setOpen] = useState<Open>(null);
  const [shown, setShown] = useState<Shown | null>(null);
  const done = (title: string) => (key: Schemas["NewKeyFacts"]) => {
    setOpen(null);
    if (key.key) setShown({ title, text: key.key });
  };
  const close = () => setOpen(null);
  return (
    <Shelf
      title="API keys"
      calls={[
        { path: "/api/keys", python: "keys = await scheduler.api_keys.all()" },
        {
          title: "Create a key",
          method: "POST",
          path: "/api/keys",
          body: { name: "deploys", role: "operator", queues: ["billing"] },
          python: 'made = await scheduler.api_keys.create("deploys", "operator", queues=["billing"])\nprint(made.text)',
        },
      ]}
      add={keys.data !== undefined && "Create a key"} // the first key has a form of its own
      onAdd={() => setOpen({ what: "create" })}
      query={keys}
      caption="API keys, the oldest first"
      id={(key) => key.id}
      columns={columns(setOpen)}
      empty={
        <Empty title="There is no key yet" command="mainspring keys create dashboard --role admin">
          Until there is one, this service answers this user of this machine without a key. The first key is an admin's
          and reaches everything; from then on every request needs a key or a session.
        </Empty>
      }
    >
      {open?.what === "create" && (
        <CreateDialog first={keys.data?.length === 0} onClose={close} onDone={done("The new key")} />
      )}
      {open?.what === "rotate" && (
        <RotateDialog of={open.key} onClose={close} onDone={done(`The new secret of ${open.key.name}`)} />
      )}
      {open?.what === "revoke" && <RevokeDialog of={open.key} onClose={close} />}
      {shown && (
        <Once title={shown.title} text={shown.text} onClose={() => setShown(null)}>
          Send it as Authorization: Bearer KEY, or log in with it here.
        </Once>
      )}
    </Shelf>
  );
}

function columns(open: (what: Open) => void): Column<Key>[] {
  return [
    { key: "name", title: "Name", cell: (key) => <span className="wrap">{key.name}</span> },
    { key: "role", title: "Role", cell: (key) => key.role },
    { key: "scope", title: "Reaches", cell: (key) => <span className="wrap">{scopeWords(key.scope)}</span> },
    { key: "state", title: "State", cell: (key) => <State of={key} /> },
    { key: "used", title: "Last used", cell: (key) => <Time at={key.lastUsedAt} />, minor: true },
    { key: "made", title: "Created", cell: (key) => <Time at={key.createdAt} />, minor: true },
    { key: "id", title: "Id", cell: (key) => <span className="mono">{key.id}</span>, minor: true },
    {
      key: "actions",
      title: <span className="visually-hidden">Actions</span>,
      align: "right",
      cell: (key) =>
        keyState(key, serverNow()) === "in force" && (
          <Menu
            small
            look="quiet"
            label="⋯"
            name={`Actions on the key ${key.name}`}
            items={[
              { label: "Rotate …", onSelect: () => open({ what: "rotate", key }) },
              { label: "Revoke …", danger: true, onSelect: () => open({ what: "revoke", key }) },
            ]}
          />
        ),
    },
  ];
}

function State({ of: key }: { of: Key }) {
  const state = keyState(key, serverNow());
  if (state === "revoked")
    return (
      <Badge>
        revoked <Time at={key.revokedAt} />
      </Badge>
    );
  if (state === "expired") return <Badge>expired</Badge>;
  const old = key.oldUntil && Date.parse(key.oldUntil) > serverNow();
  return (
    <span className="row">
      <Badge tone="good">in force</Badge>
      {key.expiresAt && (
        <span className="muted">
          ends <Time at={key.expiresAt} />
        </span>
      )}
      {old && (
        <span className="muted">
          old secret ends <Time at={key.oldUntil} />
        </span>
      )}
    </span>
  );
}

type DialogProps = { onClose: () => void; onDone: (key: Schemas["NewKeyFacts"]) => void };

function CreateDialog({ first, onClose, onDone }: DialogProps & { first: boolean }) {
  const session = useSession();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Key["role"]>(first ? "admin" : "operator");
  const scope = useScope();
  const [expires, setExpires] = useState("");
  const body = { name: name.trim(), role, ...scope.body, expiresAt: fromLocal(expires) };
  const act = useAct(
    async () => {
      const made = (await unwrap(api.POST("/api/keys", { body }))).data;
      // The first key ends the access without one: this browser goes on with the new key.
      if (session.way === "local" && made.key) client.setQueryData(SESSION_KEY, await logIn(made.key));
      return made;
    },
    { touches: [KEYS], onDone, quiet: true },
  );
  const problem = act.error instanceof Problem ? act.error : null;
  return (
    <FormDialog
      title="Create an API key"
      verb="Create the key"
      act={act}
      disabled={!name.trim()}
      call={{ title: "Create a key", method: "POST", path: "/api/keys", body }}
      onClose={onClose}
    >
      {session.way === "local" && (
        <p className="settings-note">
          From this key on, every request needs a key or a session. This browser is logged in with it at once; programs
          that have used the service without a key need one.
        </p>
      )}
      <NameField value={name} onChange={setName} placeholder="deploys" error={problem?.about("name")} />
      <Select
        label="Role"
        value={role}
        options={first ? ROLES.slice(2) : ROLES}
        onChange={(event) => setRole(event.target.value as Key["role"])}
      />
      {!first && (
        <>
          <ScopeFields
            scope={scope}
            problem={problem}
            queues="Queues that it reaches"
            prefixes="Beginnings of job names that it reaches"
            hint="Without queues and prefixes, it reaches everything."
          />
          <TextField
            label="Ends (optional)"
            type="datetime-local"
            value={expires}
            onChange={(event) => setExpires(event.target.value)}
            error={problem?.about("expiresAt")}
          />
        </>
      )}
    </FormDialog>
  );
}

const GRACES: [string, string][] = [
  ["0s", "at once"],
  ["1h", "after an hour"],
  ["1d", "after a day"],
  ["7d", "after a week"],
];

function RotateDialog({ of: key, onClose, onDone }: DialogProps & { of: Key }) {
  const [grace, setGrace] = useState("1d");
  const act = useAct(
    async () =>
      (await unwrap(api.POST("/api/keys/{key_id}/rotate", { params: { path: { key_id: key.id } }, body: { grace } })))
        .data,
    { touches: [KEYS], onDone, quiet: true },
  );
  return (
    <FormDialog
      title={`Rotate ${key.name}`}
      verb="Make a new secret"
      act={act}
      call={{
        title: "Rotate it",
        method: "POST",
        path: `/api/keys/${encodeURIComponent(key.id)}/rotate`,
        body: { grace },
        python: `made = await scheduler.api_keys.rotate(${pythonLiteral(key.id)}, ${pythonLiteral(grace)})\nprint(made.text)`,
      }}
      onClose={onClose}
    >
      <p>The key keeps its id, role and scope, and gets a new secret. Until the old secret expires, both are valid.</p>
      <Select
        label="The old secret ends"
        value={grace}
        options={GRACES}
        onChange={(event) => setGrace(event.target.value)}
      />
    </FormDialog>
  );
}

function RevokeDialog({ of: key, onClose }: { of: Key; onClose: () => void }) {
  const session = useSession();
  const [made, setMade] = useState(false);
  const act = useAct(
    async () =>
      (await unwrap(api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: key.id }, query: { made } } }))).data,
    { touches: [KEYS], onDone: onClose, done: () => `The key ${key.name} is revoked.`, quiet: true },
  );
  return (
    <RemoveDialog
      title={`Revoke ${key.name}?`}
      verb="Revoke the key"
      act={act}
      call={{
        title: "Revoke it",
        method: "DELETE",
        path: `/api/keys/${encodeURIComponent(key.id)}${made ? "?made=true" : ""}`,
        python: ["revoke", ...(made ? ["revoke_made_with"] : [])]
          .map((verb) => `await scheduler.api_keys.${verb}(${pythonLiteral(key.id)})`)
          .join("\n"),
      }}
      onClose={onClose}
    >
      <div className="stack">
        <p>
          Requests with this key ({key.role}, {scopeWords(key.scope)}) are refused from now on, and its sessions end
          within a second. This cannot be undone.
        </p>
        {session.actor === `key:${key.id}` && <p className="settings-note">This is the key of your own session.</p>}
        <Checkbox
          label="Also revoke the keys that were created with it (after a leak)"
          checked={made}
          onChange={(event) => setMade(event.target.checked)}
        />
      </div>
    </RemoveDialog>
  );
}
