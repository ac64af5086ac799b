// Testing an alert rule: one message to each destination, and what has become of it.
import { Link } from "@tanstack/react-router";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { pythonLiteral } from "../../ui/commands";
import { FormDialog } from "../settings/Shelf";
import { destinationWords } from "./destinations";
import { ALERTS, type Rule, rulePath } from "./words";

export function TestDialog({ of: rule, onClose }: { of: Rule; onClose: () => void }) {
  const act = useAct(
    async () => {
      const params = { path: { rule_id: rule.id } };
      return (await unwrap(api.POST("/api/alerts/{rule_id}/test", { params }))).data;
    },
    { touches: [ALERTS], quiet: true },
  );
  return (
    <FormDialog
      title={`Test ${rule.name}`}
      verb="Send a test message"
      act={act}
      call={{
        title: "Test it",
        method: "POST",
        path: `${rulePath(rule)}/test`,
        python: `await scheduler.alerts.test(${pythonLiteral(rule.id)})`,
      }}
      onClose={onClose}
    >
      <p>Each destination gets one message, marked as a test.</p>
      {act.data && (
        <ul role="status">
          {act.data.map((one) => (
            <li key={one.jobId} className="wrap">
              {destinationWords(one.to)}:{" "}
              <Link to="/jobs/$id" params={{ id: one.jobId }}>
                {one.arrived ? "arrived" : one.state}
              </Link>
              {one.error && <span className="field-error"> {one.error}</span>}
            </li>
          ))}
        </ul>
      )}
    </FormDialog>
  );
}
