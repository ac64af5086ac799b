// A new job: a handler of a live worker with a form of its schema, a webhook or a mail; and the same as a call.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { PageHead } from "../../app/PageHead";
import { api, prefix, Problem, unwrap } from "../../api/client";
import { useAct } from "../../api/act";
import { useRole } from "../../api/session";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/Copy";
import { Segments, Select, Tabs } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { curl } from "../../ui/commands";
import { DataForm, useData } from "./DataForm";
import { type Handler, useHandlers } from "./job";
import { NO_OPTIONS, optionErrors, type Options, optionsBody, pythonCall } from "./options";
import { OptionFields } from "./OptionFields";
import { type FieldsProps, MailFields, WebhookFields } from "./RequestFields";
import { type Made, mailBody, NO_MAIL, NO_WEBHOOK, webhookBody } from "./requests";
import { blank, MISSING, type Schema } from "./schema";
import "./job.css";

type Kind = "handler" | "webhook" | "email";

export default function NewJobPage() {
  const role = useRole();
  const search = useSearch({ strict: false }) as { handler?: string; kind?: string };
  const [kind, setKind] = useState<Kind>(
    search.kind === "webhook" || search.kind === "email" ? search.kind : "handler",
  );
  const handlers = useHandlers();
  return (
    <>
      <PageHead title="New job" />
      {!role.can("operator") ? (
        <Empty title="Not allowed">Making jobs needs the role operator; this key has the role viewer.</Empty>
      ) : (
        <div className="stack">
          <Segments
            label="What the job does"
            value={kind}
            options={[
              ["handler", "Run a handler"],
              ["webhook", "Call a webhook"],
              ["email", "Send an email"],
            ]}
            onChange={setKind}
          />
          {kind === "handler" && (
            <Loaded query={handlers} rows={6}>
              {(found) => <ChooseHandler handlers={found.data} first={search.handler} />}
            </Loaded>
          )}
          {kind === "webhook" && (
            <RequestForm key={kind} first={NO_WEBHOOK} queue="http" bodyOf={webhookBody} fields={WebhookFields} />
          )}
          {kind === "email" && (
            <RequestForm key={kind} first={NO_MAIL} queue="email" bodyOf={mailBody} fields={MailFields} />
          )}
        </div>
      )}
    </>
  );
}

function ChooseHandler({ handlers, first }: { handlers: readonly Handler[]; first?: string }) {
  const [name, setName] = useState(
    handlers.some((one) => one.name === first) ? (first ?? "") : (handlers[0]?.name ?? ""),
  );
  const chosen = handlers.find((one) => one.name === name);
  if (!chosen)
    return (
      <Empty
        title="No live worker has a handler"
        command={
          '@scheduler.job("hello")\nasync def hello(name: str) -> None: ...\n\nmainspring worker my_app:scheduler'
        }
      >
        Start a worker whose code has handlers; they appear here with a form made of their parameters.
      </Empty>
    );
  return (
    <>
      <Select
        label="Handler"
        value={name}
        options={handlers.map((one): [string, string] => [
          one.name,
          one.description ? `${one.name} – ${one.description}` : one.name,
        ])}
        hint={`${plural(chosen.workers, "live worker")} ${chosen.workers === 1 ? "has" : "have"} it; its jobs go to the queue ${chosen.queue}.`}
        onChange={(event) => setName(event.target.value)}
      />
      <HandlerForm key={name} handler={chosen} />
    </>
  );
}

function HandlerForm({ handler }: { handler: Handler }) {
  const schema = (handler.dataSchema ?? null) as Schema | null;
  const initial = useMemo(() => (schema ? blank(schema) : {}), [schema]);
  const data = useData(initial, schema);
  const [options, setOptions] = useState(NO_OPTIONS);
  const body: Record<string, unknown> = { name: handler.name, data: data.value ?? {}, ...optionsBody(options) };
  if (handler.version > 1) body["dataVersion"] = handler.version;
  const { name: _, data: given, ...rest } = body;
  return (
    <Make
      body={body}
      bad={data.broken !== undefined || data.misfits.length > 0}
      missing={data.misfits.filter((one) => one.text === MISSING).map((one) => one.path.join("."))}
      options={options}
      python={pythonCall(handler.name, given, rest)}
      optionFields={(refused) => (
        <OptionFields
          options={options}
          onChange={setOptions}
          usual={{ queue: handler.queue, priority: handler.priority }}
          queues={handler.queues ?? undefined}
          refused={refused}
        />
      )}
    >
      {(problem) => (
        <>
          {!schema && <p className="muted">Its parameters have no schema: enter the data as JSON.</p>}
          <DataForm
            data={data}
            schema={schema}
            refused={
              problem && !problem.errors[0]?.field?.match(/^(queue|delay|runAt|dedupeKey|tags)$/)
                ? { detail: problem.message }
                : undefined
            }
          />
        </>
      )}
    </Make>
  );
}

type RequestProps<T> = {
  first: T;
  queue: string;
  bodyOf: (given: T) => Made;
  fields: (props: FieldsProps<T>) => React.ReactNode;
};

/** The form of a job that Mainspring runs itself: its request, and the options. */
function RequestForm<T>({ first, queue, bodyOf, fields: Fields }: RequestProps<T>) {
  const [given, setGiven] = useState(first);
  const [options, setOptions] = useState(NO_OPTIONS);
  const made = bodyOf(given);
  return (
    <Make
      body={{ ...made.body, ...optionsBody(options) }}
      bad={made.error !== undefined}
      options={options}
      optionFields={(refused) => (
        <OptionFields options={options} onChange={setOptions} usual={{ queue }} refused={refused} />
      )}
    >
      {(problem) => <Fields given={given} onChange={setGiven} error={made.error} problem={problem} />}
    </Make>
  );
}

type MakeProps = {
  body: Record<string, unknown>;
  bad: boolean;
  /** The names of fields that are still to be filled in. */
  missing?: string[];
  options: Options;
  python?: string;
  optionFields: (refused: (field: string) => string | undefined) => React.ReactNode;
  children: (problem: Problem | null) => React.ReactNode;
};

/** The form's frame: what was typed, the options, the button, and the call that does the same. */
function Make({ body, bad, missing = [], options, python, optionFields, children }: MakeProps) {
  const navigate = useNavigate();
  const make = useAct(() => unwrap(api.POST("/api/jobs", { body: body as never })), {
    quiet: true,
    touches: [["jobs"]],
    done: (answer) =>
      answer.data.deduplicated ? "A job with this dedupe key already exists; this is it." : "The job is created.",
    onDone: (answer) => void navigate({ to: "/jobs/$id", params: { id: answer.data.jobId } }),
  });
  const problem = make.error instanceof Problem ? make.error : null;
  const stopped = bad || Object.keys(optionErrors(options)).length > 0;
  return (
    <form
      className="new-job"
      onSubmit={(event) => {
        event.preventDefault();
        if (!stopped) make.mutate();
      }}
    >
      <div className="stack">
        <Panel title="Data">
          <div className="stack">{children(problem)}</div>
        </Panel>
        <Panel title="Options">{optionFields((field) => problem?.about(field))}</Panel>
        <div className="row">
          <Button look="primary" type="submit" busy={make.isPending} disabled={stopped}>
            Make the job
          </Button>
          {stopped && (
            <span className="muted wrap">
              {missing.length > 0
                ? `Still to be filled in: ${missing.join(", ")}.`
                : "A field above is missing or invalid."}
            </span>
          )}
        </div>
      </div>
      <Preview body={body} python={python} />
    </form>
  );
}

function Preview({ body, python }: { body: Record<string, unknown>; python?: string }) {
  const [tab, setTab] = useState<"curl" | "python">("curl");
  const shown = python ? tab : "curl";
  const text =
    shown === "curl"
      ? curl(`${window.location.origin}${prefix}`, { method: "POST", path: "/api/jobs", body })
      : (python ?? "");
  return (
    <div className="new-job-call">
      <Panel title="The same as a call" actions={<CopyButton text={text} label="Copy call" />}>
        {python && (
          <Tabs
            label="Language"
            value={tab}
            options={[
              ["curl", "curl"],
              ["python", "Python"],
            ]}
            onChange={setTab}
          />
        )}
        <pre className="empty-command" tabIndex={0} role="group" aria-label="The call">
          {text}
        </pre>
      </Panel>
    </div>
  );
}
