// The form of an alert rule, for a new one and for a change.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, unwrap } from "../../api/client";
import { Checkbox, Select, TextField } from "../../ui/Field";
import { NameField, ScopeFields, useScope } from "../settings/fields";
import { FormDialog } from "../settings/Shelf";
import { DestinationFields } from "./DestinationFields";
import { BLANK, destinationOf, misfitsOf, typedOf } from "./destinations";
import { ALERTS, type Kind, KINDS, type Rule, rulePath } from "./words";

const DEAD: Kind = "dead_letters";
const MOST_COUNTED = 150;

export function RuleDialog({ of: rule, onClose }: { of?: Rule; onClose: () => void }) {
  const [name, setName] = useState(rule?.name ?? "");
  const [kind, setKind] = useState<Kind>(rule?.kind ?? DEAD);
  const [to, setTo] = useState(() => rule?.to.map(typedOf) ?? [BLANK]);
  const scope = useScope(rule);
  const [after, setAfter] = useState(rule && rule.kind !== DEAD ? rule.after : "");
  const [threshold, setThreshold] = useState(String(rule?.threshold ?? 1));
  const [within, setWithin] = useState(rule?.within ?? "15m");
  const [window, setWindow] = useState(rule?.groupWindow ?? "30s");
  const [repeat, setRepeat] = useState(rule?.repeatEvery ?? "");
  const [queue, setQueue] = useState(rule?.queue ?? "");
  const [resolved, setResolved] = useState(rule?.sendResolved ?? true);
  const [enabled, setEnabled] = useState(rule?.enabled ?? true);
  const body = {
    name: name.trim(),
    to: to.map(destinationOf),
    ...scope.body,
    ...(kind === DEAD ? { threshold: Number(threshold), within: within.trim() } : { after: after.trim() || null }),
    groupWindow: window.trim() || "0s",
    repeatEvery: repeat.trim() || null,
    queue: queue.trim() || null,
    sendResolved: resolved,
    enabled,
  };
  const act = useAct(
    async () => {
      if (!rule) return (await unwrap(api.POST("/api/alerts", { body: { ...body, kind } }))).data;
      const params = { path: { rule_id: rule.id } };
      return (await unwrap(api.PATCH("/api/alerts/{rule_id}", { params, body }))).data;
    },
    { touches: [ALERTS], onDone: onClose, done: (stored) => `The rule ${stored.name} is stored.`, quiet: true },
  );
  const problem = act.error instanceof Problem ? act.error : null;
  const few = kind === DEAD ? countError(threshold) : undefined;
  const bad = few !== undefined || to.some((one) => Object.keys(misfitsOf(one, rule?.to)).length > 0);
  return (
    <FormDialog
      title={rule ? `Edit ${rule.name}` : "Create an alert rule"}
      verb="Store the rule"
      act={act}
      disabled={!name.trim() || bad}
      call={
        rule
          ? { title: "Change the rule", method: "PATCH", path: rulePath(rule), body }
          : { title: "Create the rule", method: "POST", path: "/api/alerts", body: { ...body, kind } }
      }
      onClose={onClose}
    >
      <NameField value={name} onChange={setName} error={problem?.about("name")} />
      {!rule && (
        <Select
          label="Problem"
          value={kind}
          options={KINDS}
          onChange={(event) => setKind(event.target.value as Kind)}
        />
      )}
      <DestinationFields given={to} onChange={setTo} before={rule?.to} refused={problem?.about("to")} />
      <ScopeFields scope={scope} problem={problem} queues="Queues" prefixes="Beginnings of job names" />
      {kind === DEAD ? (
        <>
          <TextField
            label="Dead letters with the same cause"
            type="number"
            min={1}
            max={MOST_COUNTED}
            value={threshold}
            hint="How many of them trigger the alert."
            onChange={(event) => setThreshold(event.target.value)}
            error={few ?? problem?.about("threshold")}
          />
          <TextField
            label="Counted within"
            value={within}
            required
            placeholder="15m"
            onChange={(event) => setWithin(event.target.value)}
            error={problem?.about("within")}
          />
        </>
      ) : (
        <TextField
          label="After (optional)"
          value={after}
          placeholder="5m"
          hint="How long the problem must last before it counts."
          onChange={(event) => setAfter(event.target.value)}
          error={problem?.about("after")}
        />
      )}
      <TextField
        label="Gather for"
        value={window}
        placeholder="30s"
        hint="Problems that begin within this time share a message."
        onChange={(event) => setWindow(event.target.value)}
        error={problem?.about("groupWindow")}
      />
      <TextField
        label="Tell again every (optional)"
        value={repeat}
        placeholder="4h"
        onChange={(event) => setRepeat(event.target.value)}
        error={problem?.about("repeatEvery")}
      />
      <TextField
        label="Queue of the jobs that send (optional)"
        value={queue}
        onChange={(event) => setQueue(event.target.value)}
        error={problem?.about("queue")}
      />
      <Checkbox
        label="Tell when it is over"
        checked={resolved}
        onChange={(event) => setResolved(event.target.checked)}
      />
      <Checkbox label="Enabled" checked={enabled} onChange={(event) => setEnabled(event.target.checked)} />
    </FormDialog>
  );
}

function countError(text: string): string | undefined {
  const count = Number(text);
  const fits = Number.isInteger(count) && count >= 1 && count <= MOST_COUNTED;
  return fits ? undefined : `Give a whole number from 1 to ${MOST_COUNTED}.`;
}
