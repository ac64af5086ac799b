// Setting the limits of a queue or a job name at run time, in place of those that its code declares.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem, unwrap } from "../../api/client";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { Dialog } from "../../ui/Dialog";
import { TextField } from "../../ui/Field";
import { removeLimitCall, setLimitCall } from "./calls";
import type { Limit } from "./data";
import { type AskedLimit, limitBody, limitWords } from "./words";

export type Target = { scope: "queue" | "name"; target: string };

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

export function LimitDialog({ target, limit, onClose }: { target: Target; limit?: Limit; onClose: () => void }) {
  const { scope, target: name } = target;
  const { concurrency, rate } = limit?.counts ?? {};
  const [asked, setAsked] = useState<AskedLimit>({
    concurrency: text(concurrency?.limit),
    concurrencyKey: text(concurrency?.key),
    rate: text(rate?.rate),
    rateKey: text(rate?.key),
    reason: "",
  });
  const set = useAct(
    () => {
      const path = { scope, target: name };
      return unwrap(api.PUT("/api/limits/{scope}/{target}", { params: { path }, body: limitBody(asked) }));
    },
    { done: () => `The limits of ${name} are set. They count within two seconds.`, onDone: onClose, quiet: true },
  );
  const problem = set.error instanceof Problem ? set.error : null;
  const change = (field: keyof AskedLimit) => (event: { target: { value: string } }) =>
    setAsked({ ...asked, [field]: event.target.value });
  return (
    <Dialog
      title={`Limits of the ${scope === "queue" ? "queue" : "job"} ${name}`}
      onClose={onClose}
      onSubmit={() => set.mutate()}
      footer={
        <>
          <CallButton
            calls={[setLimitCall(target, limitBody(asked)), ...(limit?.override ? [removeLimitCall(target)] : [])]}
          />
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" type="submit" busy={set.isPending} disabled={!asked.concurrency && !asked.rate.trim()}>
            Set the limits
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>
          An override replaces the limits that the code declares ({limitWords(limit?.declared ?? NONE)}), until you
          remove it. If you leave a field empty, the declared limit applies.
        </p>
        <div className="columns">
          <TextField
            label="Jobs at once"
            type="number"
            min={1}
            value={asked.concurrency}
            onChange={change("concurrency")}
            error={problem?.about("concurrency")}
          />
          <TextField
            label="for each value of"
            placeholder="a path in the data, such as tenant"
            value={asked.concurrencyKey}
            onChange={change("concurrencyKey")}
          />
          <TextField
            label="Starts"
            placeholder="100/minute"
            value={asked.rate}
            onChange={change("rate")}
            error={problem?.about("rate")}
          />
          <TextField
            label="for each value of "
            placeholder="a path in the data, such as tenant"
            value={asked.rateKey}
            onChange={change("rateKey")}
          />
        </div>
        <TextField
          label="Reason (optional)"
          hint="It is stored in the audit log and shown next to the limit."
          value={asked.reason}
          maxLength={1000}
          onChange={change("reason")}
        />
        {set.error && (
          <p className="field-error" role="alert">
            {set.error.message}
          </p>
        )}
      </div>
    </Dialog>
  );
}

const NONE = { concurrency: null, rate: null };

/** Removing an override, after which the declared limits count again. */
export function useRemoveOverride({ scope, target }: Target) {
  return useAct(() => unwrap(api.DELETE("/api/limits/{scope}/{target}", { params: { path: { scope, target } } })), {
    done: () => `The declared limits of ${target} count again.`,
  });
}
