// Setting a limit on a queue or a job name that has none yet.
import { useState } from "react";
import { useRole } from "../../api/session";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Segments, TextField } from "../../ui/Field";
import { useLimits } from "./data";
import { LimitDialog, type Target } from "./LimitDialog";

export function NewLimit() {
  const [step, setStep] = useState<"closed" | "target" | "limits">("closed");
  const [target, setTarget] = useState<Target>({ scope: "name", target: "" });
  const limits = useLimits().data;
  const { can } = useRole();
  if (!can("operator")) return null;
  const named = { ...target, target: target.target.trim() };
  const known = limits?.find((one) => one.scope === named.scope && one.target === named.target);
  return (
    <>
      <Button onClick={() => setStep("target")}>Set a limit…</Button>
      {step === "target" && (
        <Dialog
          title="Set a limit"
          onClose={() => setStep("closed")}
          onSubmit={() => named.target && setStep("limits")}
          footer={
            <>
              <Button onClick={() => setStep("closed")}>Keep as it is</Button>
              <Button look="primary" type="submit" disabled={!named.target}>
                Go on
              </Button>
            </>
          }
        >
          <div className="stack">
            <Segments
              label="What the limit is for"
              value={target.scope}
              options={[
                ["name", "Job name"],
                ["queue", "Queue"],
              ]}
              onChange={(scope) => setTarget({ ...target, scope })}
            />
            <TextField
              label={target.scope === "queue" ? "Queue" : "Job name"}
              value={target.target}
              maxLength={200}
              autoFocus
              onChange={(event) => setTarget({ ...target, target: event.target.value })}
            />
          </div>
        </Dialog>
      )}
      {step === "limits" && <LimitDialog target={named} limit={known} onClose={() => setStep("closed")} />}
    </>
  );
}
