// Secrets: their names, where they may go and which jobs may use them; values are written and never shown.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, type Schemas, unwrap } from "../../api/client";
import { pythonLiteral } from "../../ui/commands";
import { Segments, Select, TextArea, TextField } from "../../ui/Field";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Panel";
import type { Column } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Once } from "./Once";
import { NameField, ScopeFields, useScope } from "./fields";
import { SECRETS, useSecrets, useSettings } from "./queries";
import { FormDialog, RemoveDialog, Shelf } from "./Shelf";
import { listed, scopeWords } from "./words";

type Secret = Schemas["SecretOut"];
type Open = { what: "put"; secret?: Secret } | { what: "delete"; secret: Secret } | null;

export function SecretsTab() {
  const secrets = useSecrets();
  const settings = useSettings();
  const [open, setOpen] = useState<Open>(null);
  const [made, setMade] = useState<{ name: string; text: string } | null>(null);
  const canStore = (settings.data?.encryption.keyIds.length ?? 0) > 0;
  const close = () => setOpen(null);
  return (
    <Shelf
      title="Secrets"
      calls={[
        { path: "/api/secrets", python: "secrets = await scheduler.secrets.all()" },
        {
          title: "Store a secret",
          method: "PUT",
          path: "/api/secrets/billing-token",
          body: { value: "…", origins: ["https://api.example.com"] },
          python: 'await scheduler.secrets.put("billing-token", value, origins=["https://api.example.com"])',
        },
      ]}
      add={canStore && "Store a secret"}
      onAdd={() => setOpen({ what: "put" })}
      query={secrets}
      caption="Secrets by name"
      id={(secret) => secret.name}
      columns={columns(setOpen, canStore)}
      empty={
        canStore ? (
          <Empty title="No secret is stored">
            Webhooks refer to a secret by name, as in the header Authorization: Bearer secret://billing-token.
          </Empty>
        ) : (
          <Empty title="Secrets need an encryption key" command="mainspring generate-key 2026a">
            Make a key and set MAINSPRING_KEYS for the service and its workers; then secrets can be stored here.
          </Empty>
        )
      }
    >
      {open?.what === "put" && (
        <PutDialog
          of={open.secret}
          onClose={close}
          onDone={(stored) => {
            close();
            if (stored.value) setMade({ name: stored.name, text: stored.value });
          }}
        />
      )}
      {open?.what === "delete" && <DeleteDialog of={open.secret} onClose={close} />}
      {made && <Once title={`The signing secret ${made.name}`} text={made.text} onClose={() => setMade(null)} />}
    </Shelf>
  );
}

function columns(open: (what: Open) => void, canStore: boolean): Column<Secret>[] {
  return [
    { key: "name", title: "Name", cell: (secret) => <span className="mono wrap">{secret.name}</span> },
    { key: "origins", title: "May be sent to", cell: (secret) => <span className="wrap">{origins(secret)}</span> },
    {
      key: "jobs",
      title: "Jobs that may use it",
      cell: (secret) => <span className="wrap">{scopeWords(secret)}</span>,
    },
    { key: "version", title: "Version", align: "right", cell: (secret) => secret.version, minor: true },
    { key: "key", title: "Encrypted with", cell: (secret) => <code>{secret.keyId}</code>, minor: true },
    { key: "updated", title: "Stored", cell: (secret) => <Time at={secret.updatedAt} />, minor: true },
    {
      key: "actions",
      title: <span className="visually-hidden">Actions</span>,
      align: "right",
      cell: (secret) => (
        <Menu
          small
          look="quiet"
          label="⋯"
          name={`Actions on the secret ${secret.name}`}
          items={[
            canStore && { label: "New value …", onSelect: () => open({ what: "put", secret }) },
            { label: "Delete …", danger: true, onSelect: () => open({ what: "delete", secret }) },
          ]}
        />
      ),
    },
  ];
}

function origins(secret: Secret): string {
  if (secret.origins.length === 0) return "nowhere";
  return secret.origins.includes("*") ? "everywhere" : secret.origins.join(", ");
}

const KEEP: [string, string][] = [
  ["0s", "no"],
  ["1h", "for an hour"],
  ["1d", "for a day"],
  ["7d", "for a week"],
];

function PutDialog({
  of: secret,
  onClose,
  onDone,
}: {
  of?: Secret;
  onClose: () => void;
  onDone: (stored: Schemas["SecretPut"]) => void;
}) {
  const [name, setName] = useState(secret?.name ?? "");
  const [way, setWay] = useState<"value" | "generate">("value");
  const [value, setValue] = useState("");
  const [to, setTo] = useState(secret?.origins.join("\n") ?? "");
  const scope = useScope(secret);
  const [keepOld, setKeepOld] = useState("0s");
  const rest = { origins: listed(to) ?? [], ...scope.body, keepOld };
  const act = useAct(
    async () => {
      const given = way === "value" ? { value } : { generate: "signing" as const };
      const body = { ...given, ...rest };
      return (await unwrap(api.PUT("/api/secrets/{name}", { params: { path: { name: name.trim() } }, body }))).data;
    },
    {
      touches: [SECRETS],
      onDone,
      done: (stored) => `The secret ${stored.name} is stored, version ${stored.version}.`,
      quiet: true,
    },
  );
  const problem = act.error instanceof Problem ? act.error : null;
  return (
    <FormDialog
      title={secret ? `A new value of ${secret.name}` : "Store a secret"}
      verb="Store it"
      act={act}
      disabled={!name.trim() || (way === "value" && !value)}
      call={{
        title: "Store it",
        method: "PUT",
        path: secretPath(name.trim() || "NAME"),
        // The value itself is not shown: a call is made to be copied.
        body: { ...(way === "value" ? { value: "…" } : { generate: "signing" }), ...rest },
      }}
      onClose={onClose}
    >
      {!secret && (
        <NameField
          value={name}
          onChange={setName}
          maxLength={64}
          pattern="[A-Za-z0-9_\-]+"
          placeholder="billing-token"
          hint="Letters, digits, - and _."
        />
      )}
      <Segments
        label="Where the value comes from"
        value={way}
        options={[
          ["value", "A value of mine"],
          ["generate", "Make a signing secret"],
        ]}
        onChange={setWay}
      />
      {way === "value" && (
        <TextField
          label="Value"
          type="password"
          value={value}
          required
          autoComplete="new-password"
          onChange={(event) => setValue(event.target.value)}
          error={problem?.about("value")}
        />
      )}
      <TextArea
        label="Origins that it may be sent to"
        rows={2}
        required
        value={to}
        placeholder="https://api.example.com"
        hint="One per line; a single * allows every origin."
        onChange={(event) => setTo(event.target.value)}
        error={problem?.about("origins")}
      />
      <ScopeFields
        scope={scope}
        problem={problem}
        queues="Queues whose jobs may use it"
        prefixes="Beginnings of job names"
      />
      {secret && (
        <Select
          label="Also sign with the old value"
          value={keepOld}
          options={KEEP}
          onChange={(event) => setKeepOld(event.target.value)}
        />
      )}
    </FormDialog>
  );
}

function secretPath(name: string): string {
  return `/api/secrets/${encodeURIComponent(name)}`;
}

function DeleteDialog({ of: secret, onClose }: { of: Secret; onClose: () => void }) {
  const act = useAct(
    async () => (await unwrap(api.DELETE("/api/secrets/{name}", { params: { path: { name: secret.name } } }))).data,
    { touches: [SECRETS], onDone: onClose, done: () => `The secret ${secret.name} is deleted.`, quiet: true },
  );
  return (
    <RemoveDialog
      title={`Delete ${secret.name}?`}
      verb="Delete the secret"
      act={act}
      call={{
        title: "Delete it",
        method: "DELETE",
        path: secretPath(secret.name),
        python: `await scheduler.secrets.delete(${pythonLiteral(secret.name)})`,
      }}
      onClose={onClose}
    >
      <p>All its values are deleted. Webhooks that refer to it fail from then on. This cannot be undone.</p>
    </RemoveDialog>
  );
}
