// Alert rules: which problems are told where, which ones there are now, and making, changing, silencing and testing.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import { absolute } from "../../lib/time";
import { Badge } from "../../ui/Badge";
import { pythonLiteral } from "../../ui/commands";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Panel";
import type { Column } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { RemoveDialog, Shelf } from "../settings/Shelf";
import { scopeWords } from "../settings/words";
import { destinationWords } from "./destinations";
import { RuleDialog } from "./RuleDialog";
import { SilenceDialog } from "./SilenceDialog";
import { TestDialog } from "./TestDialog";
import "./alerts.css";
import { ALERTS, kindWords, type Rule, rulePath, statusWords } from "./words";

type Open = { what: "put"; rule?: Rule } | { what: "silence" | "test" | "delete"; rule: Rule } | null;

export default function AlertsPage() {
  const rules = useQuery({
    queryKey: ALERTS,
    queryFn: async () => (await unwrap(api.GET("/api/alerts"))).data,
    refetchInterval: 10_000,
  });
  const may = useRole().can("operator");
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  return (
    <>
      <PageHead title="Alerts" />
      <Shelf
        title="Rules"
        calls={[
          { path: "/api/alerts", python: "rules = await scheduler.alerts.all()" },
          {
            title: "Create a rule",
            method: "POST",
            path: "/api/alerts",
            body: {
              name: "Dead letters",
              kind: "dead_letters",
              to: [{ type: "chat", url: "https://hooks.slack.com/secret://chat" }],
            },
            python:
              'await scheduler.alerts.create("Dead letters", "dead_letters", [{"type": "chat", "url": "https://hooks.slack.com/secret://chat"}])',
          },
        ]}
        add={may && "Create a rule"}
        onAdd={() => setOpen({ what: "put" })}
        query={rules}
        caption="Alert rules"
        id={(rule) => rule.id}
        columns={columns(may, setOpen)}
        empty={
          <Empty
            title="No alert rule yet"
            command='mainspring alerts add "No worker" no_worker --email ops@example.com'
          >
            A rule reports a problem by email, webhook or chat: once when it begins, and once when it is over.
          </Empty>
        }
      >
        {open?.what === "put" && <RuleDialog of={open.rule} onClose={close} />}
        {open?.what === "silence" && <SilenceDialog of={open.rule} onClose={close} />}
        {open?.what === "test" && <TestDialog of={open.rule} onClose={close} />}
        {open?.what === "delete" && <DeleteDialog of={open.rule} onClose={close} />}
      </Shelf>
    </>
  );
}

function columns(may: boolean, open: (what: Open) => void): Column<Rule>[] {
  return [
    { key: "status", title: "Status", cell: (rule) => <Status rule={rule} /> },
    { key: "name", title: "Rule", cell: (rule) => <Name rule={rule} /> },
    { key: "subjects", title: "Now", cell: (rule) => <Subjects rule={rule} /> },
    {
      key: "to",
      title: "Tells",
      cell: (rule) => <span className="wrap alert-words">{rule.to.map(destinationWords).join("; ")}</span>,
      minor: true,
    },
    {
      key: "scope",
      title: "About",
      cell: (rule) => <span className="alert-words">{scopeWords(rule)}</span>,
      minor: true,
    },
    { key: "told", title: "Last message", cell: (rule) => <LastMessage rule={rule} />, minor: true },
    {
      key: "actions",
      title: <span className="visually-hidden">Actions</span>,
      align: "right",
      cell: (rule) =>
        may && (
          <Menu
            small
            look="quiet"
            label="⋯"
            name={`Actions on the rule ${rule.name}`}
            items={[
              { label: "Test …", onSelect: () => open({ what: "test", rule }) },
              { label: "Silence …", onSelect: () => open({ what: "silence", rule }) },
              { label: "Edit …", onSelect: () => open({ what: "put", rule }) },
              { label: "Delete …", danger: true, onSelect: () => open({ what: "delete", rule }) },
            ]}
          />
        ),
    },
  ];
}

function Name({ rule }: { rule: Rule }) {
  const kind = kindWords(rule.kind);
  return (
    <span className="alert-words">
      {rule.name}
      {kind !== rule.name && <span className="muted alert-kind">{kind}</span>}
    </span>
  );
}

function Status({ rule }: { rule: Rule }) {
  const tone = rule.status === "firing" ? "bad" : rule.status === "pending" ? "warn" : "good";
  return (
    <span className="row alert-status">
      <Badge tone={rule.enabled ? tone : "neutral"}>{statusWords(rule)}</Badge>
      {rule.enabled && rule.silence && (
        <Badge title={`Until ${absolute(rule.silence.until)}: ${rule.silence.reason}`}>silenced</Badge>
      )}
    </span>
  );
}

function Subjects({ rule }: { rule: Rule }) {
  if (rule.subjects.length === 0) return <span className="muted">nothing</span>;
  const more = rule.subjects.length - 3;
  return (
    <ul className="alert-subjects">
      {rule.subjects.slice(0, 3).map((one) => (
        <li key={one.key}>{one.text}</li>
      ))}
      {more > 0 && <li className="muted">and {more} more</li>}
    </ul>
  );
}

function LastMessage({ rule }: { rule: Rule }) {
  const last = rule.jobs[0];
  if (!rule.toldAt || !last) return <span className="muted">none yet</span>;
  return (
    <Link to="/jobs/$id" params={{ id: last }}>
      <Time at={rule.toldAt} />
    </Link>
  );
}

function DeleteDialog({ of: rule, onClose }: { of: Rule; onClose: () => void }) {
  const act = useAct(
    async () => (await unwrap(api.DELETE("/api/alerts/{rule_id}", { params: { path: { rule_id: rule.id } } }))).data,
    { touches: [ALERTS], onDone: onClose, done: () => `The rule ${rule.name} is deleted.`, quiet: true },
  );
  return (
    <RemoveDialog
      title={`Delete ${rule.name}?`}
      verb="Delete the rule"
      act={act}
      call={{
        title: "Delete it",
        method: "DELETE",
        path: rulePath(rule),
        python: `await scheduler.alerts.delete(${pythonLiteral(rule.id)})`,
      }}
      onClose={onClose}
    >
      <p>The rule no longer reports this problem. Messages that are already on their way are still sent.</p>
    </RemoveDialog>
  );
}
