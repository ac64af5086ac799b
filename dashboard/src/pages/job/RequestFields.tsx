// The fields of a webhook's request and of a mail, for a new job and for a change of a stored one.
import type { Problem } from "../../api/client";
import { Select, TextArea, TextField } from "../../ui/Field";
import type { Mail, Webhook } from "./requests";

const METHODS = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

export type FieldsProps<T> = {
  given: T;
  onChange: (given: T) => void;
  /** What is wrong with it so far. */
  error?: string;
  /** The refusal of the service. */
  problem: Problem | null;
};

export function WebhookFields({ given, onChange, error, problem }: FieldsProps<Webhook>) {
  const set = (change: Partial<Webhook>) => onChange({ ...given, ...change });
  return (
    <>
      <TextField
        label="URL *"
        type="url"
        value={given.endpoint}
        placeholder="https://api.example.com/webhook"
        error={given.endpoint ? (error ?? problem?.about("endpoint")) : undefined}
        onChange={(event) => set({ endpoint: event.target.value })}
      />
      <Select
        label="Method"
        value={given.method}
        options={METHODS}
        onChange={(event) => set({ method: event.target.value })}
      />
      <TextArea
        label="Headers"
        rows={3}
        className="mono"
        value={given.headers}
        placeholder="Authorization: Bearer secret://name"
        hint="One per line. A stored secret is written as secret://name."
        error={problem?.about("headers")}
        onChange={(event) => set({ headers: event.target.value })}
      />
      <TextArea
        label="Body"
        rows={6}
        className="mono"
        value={given.body}
        hint="JSON or text. Templates such as {{timestamp}} and {{job.id}} are filled in."
        error={problem?.about("body")}
        onChange={(event) => set({ body: event.target.value })}
      />
      <Refused problem={problem} />
    </>
  );
}

export function MailFields({ given, onChange, error, problem }: FieldsProps<Mail>) {
  const set = (change: Partial<Mail>) => onChange({ ...given, ...change });
  return (
    <>
      <TextField
        label="To *"
        value={given.to}
        hint="Several addresses are separated by commas."
        error={given.to ? error : undefined}
        onChange={(event) => set({ to: event.target.value })}
      />
      <TextField label="Subject" value={given.subject} onChange={(event) => set({ subject: event.target.value })} />
      <TextArea label="Text" rows={8} value={given.text} onChange={(event) => set({ text: event.target.value })} />
      <Refused problem={problem} />
    </>
  );
}

function Refused({ problem }: { problem: Problem | null }) {
  if (!problem) return null;
  return (
    <p className="field-error wrap" role="alert">
      {problem.message}
    </p>
  );
}
