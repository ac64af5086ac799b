// Sending a signal to a job whose handler waits for one.
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { TextArea } from "../../ui/Field";
import { jobKey, jobPath } from "./job";
import { readPayload } from "./payload";
import "./job.css";

type Props = { id: string; signal: string; touches?: string[][] };

/** A form that sends one signal to one job. */
export function SignalForm({ id, signal, touches = [] }: Props) {
  const [text, setText] = useState("");
  const payload = readPayload(text);
  const send = useAct(
    () =>
      unwrap(
        api.POST("/api/jobs/{job_id}/signals/{name}", {
          params: { path: { job_id: id, name: signal } },
          body: { payload: payload.value as never },
        }),
      ),
    { touches: [jobKey(id), ["jobs"], ...touches], quiet: true, done: () => `The signal ${signal} was sent.` },
  );
  const body = { payload: payload.value };
  return (
    <form
      className="signal-form"
      aria-label={`Send the signal ${signal}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (!payload.error) send.mutate();
      }}
    >
      <TextArea
        label={`Payload of ${signal}`}
        hint="A JSON value for the handler; an empty field is null."
        rows={2}
        value={text}
        error={payload.error ?? send.error?.message}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="row">
        <Button look="primary" type="submit" busy={send.isPending} disabled={payload.error !== undefined}>
          Send the signal
        </Button>
        <CallButton
          calls={{
            title: `Send the signal ${signal}`,
            method: "POST",
            path: `${jobPath(id)}/signals/${encodeURIComponent(signal)}`,
            body,
            python: `await scheduler.signal(${[id, signal, payload.value].map(pythonLiteral).join(", ")})`,
          }}
        />
      </div>
    </form>
  );
}
