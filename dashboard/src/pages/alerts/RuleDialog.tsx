// The form of an alert rule, for a new one and for a change.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, unwrap } from "../../api/client";
import { Checkbox, Select, TextArea, TextField } from "../../ui/Field";
import { FormDialog } from "../settings/Shelf";
import { listed } from "../settings/words";
import { ALERTS, destinationsOf, destinationWords, type Kind, KINDS, type Rule } from "./words";

export function RuleDialog({ of: rule, onClose }: { of?: Rule; onClose: () => void }) {
  const [name, setName] = useState(rule?.name ?? "");
  const [kind, setKind] = useState<Kind>(rule?.kind ?? "dead_letters");
  const [to, setTo] = useState(rule?.to.map(destinationWords).join("\n") ?? "");
  const [queues, setQueues] = useState(rule?.queues?.join(", ") ?? "");
  const [prefixes, setPrefixes] = useState(rule?.prefixes?.join(", ") ?? "");
  const [after, setAfter] = useState(rule && rule.kind !== "dead_letters" ? rule.after : "");
  const [window, setWindow] = useState(rule?.groupWindow ?? "30s");
  const [repeat, setRepeat] = useState(rule?.repeatEvery ?? "");
  const [queue, setQueue] = useState(rule?.queue ?? "");
  const [resolved, setResolved] = useState(rule?.sendResolved ?? true);
  const [enabled, setEnabled] = useState(rule?.enabled ?? true);
  const act = useAct(
    async () => {
      const body = {
        name: name.trim(),
        to: destinationsOf(to, rule?.to),
        queues: listed(queues),
        prefixes: listed(prefixes),
        ...(kind === "dead_letters" ? {} : { after: after.trim() || null }),
        groupWindow: window.trim() || "0s",
        repeatEvery: repeat.trim() || null,
        queue: queue.trim() || null,
        sendResolved: resolved,
        enabled,
      };
      if (!rule) return (await unwrap(api.POST("/api/alerts", { body: { ...body, kind } }))).data;
      const params = { path: { rule_id: rule.id } };
      return (await unwrap(api.PATCH("/api/alerts/{rule_id}", { params, body }))).data;
    },
    { touches: [ALERTS], onDone: onClose, done: (stored) => `The rule ${stored.name} is stored.`, quiet: true },
  );
  const problem = act.error instanceof Problem ? act.error : null;
  return (
    <FormDialog
      title={rule ? `Edit ${rule.name}` : "Create an alert rule"}
      verb="Store the rule"
      act={act}
      disabled={!name.trim() || !to.trim()}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={name}
        required
        autoFocus
        maxLength={200}
        onChange={(event) => setName(event.target.value)}
      />
      {!rule && (
        <Select
          label="Problem"
          value={kind}
          options={KINDS}
          onChange={(event) => setKind(event.target.value as Kind)}
        />
      )}
      <TextArea
        label="Destinations"
        rows={3}
        required
        value={to}
        placeholder={"ops@example.com\nchat https://hooks.slack.com/secret://chat"}
        hint="One to a line: addresses, or chat or webhook and a URL. A line that you leave keeps its hidden values."
        onChange={(event) => setTo(event.target.value)}
        error={problem?.about("to")}
      />
      <TextField
        label="Queues (optional)"
        value={queues}
        onChange={(event) => setQueues(event.target.value)}
        error={problem?.about("queues")}
      />
      <TextField
        label="Beginnings of job names (optional)"
        value={prefixes}
        onChange={(event) => setPrefixes(event.target.value)}
        error={problem?.about("prefixes")}
      />
      {kind !== "dead_letters" && (
        <TextField
          label="After (optional)"
          value={after}
          placeholder="5m"
          hint="How long the problem lasts before it counts."
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
