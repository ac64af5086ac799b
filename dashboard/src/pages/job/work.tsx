// The work of a stored job as a form: the data of its handler by its schema, a webhook's request, or a mail.
import { useState } from "react";
import { Problem } from "../../api/client";
import { DataForm, useData } from "./DataForm";
import { type Detail, EMAIL, RESERVED, useHandler, WEBHOOK } from "./job";
import { MailFields, WebhookFields } from "./RequestFields";
import { mailChanges, mailOf, webhookChanges, webhookOf } from "./requests";
import type { Schema } from "./schema";

export type Work = {
  /** What was changed, as fields of the body; empty if nothing was. */
  body: Record<string, unknown>;
  bad: boolean;
  fields: (error: Error | null) => React.ReactNode;
};

/** `lenient`: data that was not changed need not fit, and a change is made for the version of the live handler. */
export function useWork(job: Detail, lenient: boolean): Work {
  const [hook, setHook] = useState(() => webhookOf(job));
  const [mail, setMail] = useState(() => mailOf(job));
  const data = useDataWork(job, lenient);
  if (job.name === WEBHOOK && job.request) {
    const { body, error } = webhookChanges(webhookOf(job), hook);
    return {
      body,
      bad: error !== undefined,
      fields: (refusal) => (
        <WebhookFields
          given={hook}
          onChange={setHook}
          error={error}
          problem={refusal instanceof Problem ? refusal : null}
        />
      ),
    };
  }
  if (job.name === EMAIL) {
    const { body, error } = mailChanges(job, mail);
    return {
      body,
      bad: error !== undefined,
      fields: (refusal) => (
        <MailFields
          given={mail}
          onChange={setMail}
          error={error}
          problem={refusal instanceof Problem ? refusal : null}
        />
      ),
    };
  }
  // A webhook without a readable request, or a kind of a newer version: its options can be changed.
  return job.name.startsWith(RESERVED) ? { body: {}, bad: false, fields: () => null } : data;
}

function useDataWork(job: Detail, lenient: boolean): Work {
  const handler = useHandler(job.name);
  const schema = (handler.data?.dataSchema ?? null) as Schema | null;
  const [changed, setChanged] = useState(false);
  const fits = lenient || handler.data?.version === job.dataVersion;
  const data = useData(job.data, fits ? schema : null, lenient ? changed : undefined);
  const edited = data.text !== JSON.stringify(job.data, null, 2);
  if (edited !== changed) setChanged(edited);
  const body: Record<string, unknown> = edited ? { data: data.value } : {};
  if (edited && lenient) body["dataVersion"] = handler.data?.version ?? job.dataVersion;
  return {
    body,
    bad: (edited || !lenient) && (data.broken !== undefined || data.misfits.length > 0),
    fields: (refusal) => <DataForm data={data} schema={schema} refused={aboutData(refusal)} />,
  };
}

function aboutData(error: Error | null): { detail: string } | undefined {
  const problem = error instanceof Problem ? error : null;
  const field = problem?.errors[0]?.field;
  return problem && (field === undefined || field.startsWith("data")) ? { detail: problem.message } : undefined;
}
