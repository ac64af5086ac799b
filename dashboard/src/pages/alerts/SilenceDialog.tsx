// Silencing an alert rule for some time, and ending that.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import type { Call } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Select, TextField } from "../../ui/Field";
import { FormDialog } from "../settings/Shelf";
import { ALERTS, type Rule, rulePath } from "./words";

const TIMES: [string, string][] = [
  ["1h", "for an hour"],
  ["4h", "for four hours"],
  ["1d", "for a day"],
  ["7d", "for a week"],
  ["", "no longer: end the silence"],
];

export function SilenceDialog({ of: rule, onClose }: { of: Rule; onClose: () => void }) {
  const [duration, setDuration] = useState("1h");
  const [reason, setReason] = useState("");
  const act = useAct(
    async () => {
      const params = { path: { rule_id: rule.id } };
      if (!duration) return (await unwrap(api.POST("/api/alerts/{rule_id}/unsilence", { params }))).data;
      const body = { duration, reason: reason.trim() };
      return (await unwrap(api.POST("/api/alerts/{rule_id}/silence", { params, body }))).data;
    },
    {
      touches: [ALERTS],
      onDone: onClose,
      done: (after) => `The rule ${after.name} is ${after.silence ? "silenced" : "not silenced any more"}.`,
      quiet: true,
    },
  );
  return (
    <FormDialog
      title={`Silence ${rule.name}`}
      verb={duration ? "Silence the rule" : "End the silence"}
      act={act}
      call={duration ? silenceCall(rule, duration, reason.trim() || "…") : unsilenceCall(rule)}
      onClose={onClose}
    >
      <Select label="Silent" value={duration} options={TIMES} onChange={(event) => setDuration(event.target.value)} />
      {duration && (
        <TextField label="Reason" value={reason} maxLength={2000} onChange={(event) => setReason(event.target.value)} />
      )}
      <p className="muted">
        Nothing is sent meanwhile. When the silence ends, the rule reports the current state of its alert.
      </p>
    </FormDialog>
  );
}

function silenceCall(rule: Rule, duration: string, reason: string): Call {
  return {
    title: "Silence it",
    method: "POST",
    path: `${rulePath(rule)}/silence`,
    body: { duration, reason },
    python: `await scheduler.alerts.silence(${pythonLiteral(rule.id)}, ${pythonLiteral(duration)}, reason=${pythonLiteral(reason)})`,
  };
}

function unsilenceCall(rule: Rule): Call {
  return {
    title: "End the silence",
    method: "POST",
    path: `${rulePath(rule)}/unsilence`,
    python: `await scheduler.alerts.unsilence(${pythonLiteral(rule.id)})`,
  };
}
