// Making and changing a schedule. While one types, the service says the rule in words, its next firings and what is wrong.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCanGoBack, useNavigate, useParams, useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";
import { PageHead } from "../../app/PageHead";
import { useAct } from "../../api/act";
import { api, Problem, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { viewerZone } from "../../lib/time";
import { Button } from "../../ui/Button";
import { type Call, CallButton } from "../../ui/Call";
import { pythonLiteral } from "../../ui/commands";
import { Segments, Select, TextArea, TextField } from "../../ui/Field";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import {
  BLANK,
  bodyOf,
  changesOf,
  type Faults,
  fieldOf,
  type Form,
  formOf,
  type RuleKind,
  TEMPLATES,
  type Work,
} from "./form";
import { CalendarsField } from "./CalendarsField";
import { Firings } from "./parts";
import { MISFIRES, OVERLAPS } from "./policies";
import { ROOT, type Schedule, schedulePath, useSchedule } from "./queries";
import { useDebounced } from "./useDebounced";
import { ZONES } from "./zones";
import "./Schedules.css";

export default function EditSchedulePage() {
  const { id } = useParams({ strict: false }) as { id?: string };
  const role = useRole();
  if (!role.can("operator"))
    return (
      <>
        <PageHead title={id ? `Edit ${id}` : "New schedule"} />
        <Empty title="Not allowed">To create or change schedules, log in with a key of the role operator.</Empty>
      </>
    );
  return id === undefined ? <Editor stored={null} /> : <EditStored id={id} />;
}

function EditStored({ id }: { id: string }) {
  const schedule = useSchedule(id);
  return (
    <>
      {!schedule.data && <PageHead title={`Edit ${id}`} />}
      <Loaded query={schedule} rows={12}>
        {(one) => <Editor key={one.id} stored={one} />}
      </Loaded>
    </>
  );
}

function Editor({ stored }: { stored: Schedule | null }) {
  const navigate = useNavigate();
  const router = useRouter();
  const canGoBack = useCanGoBack();
  // The page may be the first one of its tab, which has nothing to go back to.
  const leave = () => {
    if (canGoBack) router.history.back();
    else if (stored) void navigate({ to: "/schedules/$id", params: { id: stored.id } });
    else void navigate({ to: "/schedules" });
  };
  // The schedule as it was when the form was opened: what fires meanwhile does not overwrite what was typed.
  const [before] = useState<Form>(() => (stored ? formOf(stored) : { ...BLANK, timezone: viewerZone }));
  const [form, setForm] = useState(before);
  const [touched, setTouched] = useState<ReadonlySet<keyof Form>>(new Set());
  const set = (change: Partial<Form>) => {
    setForm((now) => ({ ...now, ...change }));
    setTouched((now) => new Set([...now, ...(Object.keys(change) as (keyof Form)[])]));
  };
  const made = stored ? changesOf(before, form) : bodyOf(form);
  const preview = usePreview(form, stored);
  const save = useAct(
    async () => {
      if (stored) {
        const params = { path: { schedule_id: stored.id } };
        return (await unwrap(api.PATCH("/api/schedules/{schedule_id}", { params, body: made.body as never }))).data.id;
      }
      const answer = await unwrap(api.POST("/api/jobs", { body: made.body as never }));
      return (answer.data as { _id?: string; jobId?: string }).jobId ?? form.id;
    },
    {
      touches: [ROOT, ["jobs"]],
      quiet: true,
      done: () => (stored ? "The schedule is changed." : "The schedule is stored."),
      onDone: (id) => void navigate({ to: "/schedules/$id", params: { id } }),
    },
  );
  const faults = faultsOf(made.faults, form, touched, [preview.error, save.error], preview.data?.problems);
  const unchanged = stored !== null && Object.keys(made.body).length === 0;
  const broken = Object.keys(made.faults).length > 0;
  const [refused, setRefused] = useState(0);
  const place = useRef<HTMLFormElement>(null);
  // The form is longer than the screen: a refusal leads to the field that it is about.
  useEffect(() => {
    if (refused > 0) place.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [refused]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTouched(new Set(Object.keys(form) as (keyof Form)[]));
    if (broken) setRefused((times) => times + 1);
    else if (!unchanged) save.mutate(undefined, { onError: () => setRefused((times) => times + 1) });
  };
  const title = stored ? `Edit ${stored.id}` : "New schedule";
  return (
    <>
      <PageHead title={title}>
        <CallButton calls={callOf(stored, made.body)} />
      </PageHead>
      <form ref={place} className="schedules-form" onSubmit={submit} aria-label={title} noValidate>
        <div className="stack">
          {!stored && <Templates onChoose={(change) => set(change)} />}
          <Panel title="What it does">
            <WorkFields form={form} set={set} faults={faults} stored={stored !== null} />
          </Panel>
          <Panel title="When it fires">
            <RuleFields form={form} set={set} faults={faults} stored={stored} />
          </Panel>
          <Panel title="How it behaves">
            <PolicyFields form={form} set={set} faults={faults} stored={stored !== null} />
          </Panel>
          {save.error && (
            <p className="field-error" role="alert">
              {save.error instanceof Problem ? save.error.message : String(save.error)}
            </p>
          )}
          <div className="row">
            <Button look="primary" type="submit" busy={save.isPending} disabled={unchanged}>
              {stored ? "Save the changes" : "Make the schedule"}
            </Button>
            <Button onClick={leave}>Cancel</Button>
            {unchanged && <span className="muted">Nothing is changed yet.</span>}
          </div>
        </div>
        <div className="schedules-aside">
          <Panel title="Next firings">
            <Preview preview={preview} kept={form.kind === "kept"} />
          </Panel>
        </div>
      </form>
    </>
  );
}

type Previewed = ReturnType<typeof usePreview>;

/** The service's view of the form, a moment after the last key. */
function usePreview(form: Form, stored: Schedule | null) {
  const body = useDebounced(useMemo(() => bodyOf(form).body, [form]));
  return useQuery({
    queryKey: [...ROOT, "preview", body],
    enabled: "repeat" in body,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: () => {
      // A stored schedule keeps what the service hides from this form: only its times are looked at.
      const times = ["repeat", "startAt", "endAt", "maxRuns", "jitter"];
      const kept = Object.fromEntries(Object.entries(body).filter(([key]) => times.includes(key)));
      return unwrap(
        api.POST("/api/schedules/preview", { body: (stored ? { ...kept, id: stored.id } : body) as never }),
      );
    },
  });
}

function Preview({ preview, kept }: { preview: Previewed; kept: boolean }) {
  if (kept) return <p className="muted">The rule stays as it is.</p>;
  const error = preview.error;
  return (
    <div className="stack" aria-live="polite">
      {error ? (
        <pre className="field-error" role="alert">
          {error instanceof Problem ? error.message : String(error)}
        </pre>
      ) : preview.data ? (
        <>
          <p className="schedules-lead wrap">Fires {preview.data.description}.</p>
          <Firings firings={preview.data.data} zone={preview.data.zone} />
        </>
      ) : (
        <p className="muted">…</p>
      )}
    </div>
  );
}

function faultsOf(
  own: Faults,
  form: Form,
  touched: ReadonlySet<keyof Form>,
  errors: unknown[],
  problems: readonly { field: string | null; detail: string }[] | undefined,
): Faults {
  const faults: Faults = {};
  const told = errors.flatMap((error) => (error instanceof Problem ? error.errors : []));
  for (const { field, detail } of [...told, ...(problems ?? [])]) {
    const place = fieldOf(field, form, detail);
    // Further lines point at a place of the expression; the preview shows them.
    if (place) faults[place] ??= detail.split("\n")[0];
  }
  Object.assign(faults, own);
  // A field that is still to be filled in is no fault yet.
  for (const key of Object.keys(faults) as (keyof Form)[])
    if (!touched.has(key) && form[key].trim() === "") delete faults[key];
  return faults;
}

function callOf(stored: Schedule | null, body: Record<string, unknown>): Call {
  if (stored) return { method: "PATCH", path: schedulePath(stored.id), body };
  const { name, data, repeat, id, endpoint, ...rest } = body;
  const python =
    endpoint || !repeat
      ? undefined
      : `await scheduler.schedule(\n    ${[
          pythonLiteral(name),
          data === undefined ? "" : pythonLiteral(data),
          `repeat=${pythonLiteral(repeat)}`,
          id ? `schedule_id=${pythonLiteral(id)}` : "",
          ...Object.entries(rest).map(([key, value]) => `${snake(key)}=${pythonLiteral(value)}`),
        ]
          .filter(Boolean)
          .join(",\n    ")},\n)`;
  return { method: "POST", path: "/api/jobs", body, python };
}

function snake(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

// -- the fields ----------------------------------------------------------------------------------------------------

type Fields = { form: Form; set: (change: Partial<Form>) => void; faults: Faults };

function Templates({ onChoose }: { onChoose: (change: Partial<Form>) => void }) {
  return (
    <Panel title="Begin with">
      <div className="row">
        {TEMPLATES.map((one) => (
          <Button key={one.title} small onClick={() => onChoose(one.form)}>
            {one.title}
          </Button>
        ))}
      </div>
    </Panel>
  );
}

/** The names of handlers that workers have, to be offered; a key with a scope does not see workers. */
function useHandlerNames(): string[] {
  const role = useRole();
  const workers = useQuery({
    queryKey: ["workers", "names"],
    enabled: role.everything,
    retry: false,
    queryFn: async () => (await unwrap(api.GET("/api/workers"))).data,
  });
  const names = (workers.data ?? []).flatMap((one) => one.handlers ?? []);
  return [...new Set(names)].filter((name) => !name.startsWith("mainspring:")).sort();
}

function WorkFields({ form, set, faults, stored }: Fields & { stored: boolean }) {
  const text = textOf(form, set, faults);
  const names = useHandlerNames();
  return (
    <div className="stack">
      {!stored && (
        <Segments<Work>
          label="Kind of work"
          value={form.work}
          onChange={(work) => set({ work })}
          options={[
            ["webhook", "Call a URL"],
            ["handler", "Run a handler"],
          ]}
        />
      )}
      {form.work === "webhook" && (
        <>
          <div className="schedules-pair">
            <TextField {...text("endpoint")} label="URL" placeholder="https://api.example.com/hook" />
            <Select
              label="Method"
              value={form.method}
              onChange={(event) => set({ method: event.target.value })}
              options={["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"]}
            />
          </div>
          <TextArea
            {...area("headers", form, set, faults)}
            label="Headers (JSON)"
            placeholder='{"Authorization": "secret://token"}'
            hint="secret://NAME stands for a stored secret."
            rows={2}
          />
          <TextArea
            {...area("body", form, set, faults)}
            label="Body"
            hint="JSON or text; {{timestamp}} and other templates are filled in."
            rows={3}
          />
        </>
      )}
      {form.work === "handler" && (
        <>
          <TextField
            {...text("name")}
            options={names}
            label="Handler"
            placeholder="sync-orders"
            disabled={stored}
            hint={
              stored
                ? "It cannot be changed; create a new schedule for another handler."
                : "The name under which a worker registers it."
            }
          />
          <TextArea
            {...area("data", form, set, faults)}
            label="Data (JSON)"
            placeholder='{"customer": 4711}'
            rows={4}
          />
        </>
      )}
      {form.work === "kept" && (
        <p className="muted">This work is changed over the API alone; its times can be changed here.</p>
      )}
      <div className="schedules-pair">
        {!stored && (
          <TextField {...text("id")} label="Id" placeholder="chosen by the service" hint="H and jitter depend on it." />
        )}
        <TextField
          {...text("queue")}
          label="Queue"
          placeholder={form.work === "handler" ? "that of the handler" : "default"}
        />
        <TextField
          {...text("priority")}
          label="Priority"
          placeholder="5"
          hint="1 runs first, 10 last."
          inputMode="numeric"
        />
        <TextField {...text("tags")} label="Tags" placeholder="a, b" />
      </div>
    </div>
  );
}

const KINDS: readonly [RuleKind, string][] = [
  ["cron", "Cron"],
  ["every", "Every"],
  ["rrule", "RRULE"],
  ["at", "At instants"],
];

function RuleFields({ form, set, faults, stored }: Fields & { stored: Schedule | null }) {
  const text = textOf(form, set, faults);
  const kept: [RuleKind, string][] = stored && formOf(stored).kind === "kept" ? [["kept", "As it is"]] : [];
  return (
    <div className="stack">
      <Segments<RuleKind>
        label="Kind of rule"
        value={form.kind}
        onChange={(kind) => set({ kind })}
        options={[...kept, ...KINDS]}
      />
      {form.kind === "kept" && (
        <p className="wrap">
          {stored?.description}.{" "}
          <span className="muted">This rule was created in code and has parts that this form cannot show.</span>
        </p>
      )}
      {form.kind === "cron" && (
        <TextField
          {...text("cron")}
          label="Cron expression"
          className="mono"
          spellCheck={false}
          hint="minute hour day month weekday; six fields begin with seconds; H spreads by the id"
        />
      )}
      {form.kind === "rrule" && (
        <TextArea {...area("rrule", form, set, faults)} label="RRULE" rows={2} hint="As in RFC 5545." />
      )}
      {form.kind === "every" && (
        <div className="schedules-pair">
          <TextField {...text("every")} label="Interval" hint="30s, 5m, 1h30m, 2d" />
          <Select
            label="Counted from"
            value={form.after}
            onChange={(event) => set({ after: event.target.value })}
            options={[
              ["start", "the start: a grid that never drifts"],
              ["end", "the end of each run"],
            ]}
          />
        </div>
      )}
      {form.kind === "at" && (
        <TextArea
          {...area("at", form, set, faults)}
          label="Instants, one per line"
          placeholder="2030-01-01T09:00:00Z"
          rows={3}
        />
      )}
      {(form.kind === "cron" || form.kind === "rrule") && (
        <TextField
          {...text("timezone")}
          label="Time zone"
          options={ZONES}
          placeholder="UTC"
          hint={`An IANA name; yours is ${viewerZone}.`}
        />
      )}
      {form.kind !== "kept" && form.after !== "end" && <CalendarsField {...text("calendars")} />}
    </div>
  );
}

function PolicyFields({ form, set, faults, stored }: Fields & { stored: boolean }) {
  const text = textOf(form, set, faults);
  // A stored schedule has its policies: leaving one out of a change would keep it.
  const usual = (label: string): [string, string][] => (stored ? [] : [["", label]]);
  return (
    <div className="stack">
      <div className="schedules-pair">
        <Select
          label="While a run is going"
          value={form.overlap}
          onChange={(event) => set({ overlap: event.target.value })}
          options={[...usual("Usual for this work"), ...OVERLAPS]}
        />
        <Select
          label="Missed firings"
          value={form.misfire}
          onChange={(event) => set({ misfire: event.target.value })}
          options={[...usual("Usual: one run for all"), ...MISFIRES]}
        />
      </div>
      <div className="schedules-pair">
        <TextField
          {...text("jitter")}
          label="Jitter"
          placeholder="none"
          hint="Delays each firing by up to this time: 30s, 5m"
        />
        <TextField
          {...text("pauseAfter")}
          label="Pause after failures in a row"
          placeholder="never"
          inputMode="numeric"
        />
        <TextField {...text("maxRuns")} label="Most runs" placeholder="no limit" inputMode="numeric" />
        <TextField {...text("startAt")} label="Not before" placeholder="2030-01-01T00:00:00Z" />
        <TextField {...text("endAt")} label="Not after" placeholder="2030-12-31T23:59:59Z" />
      </div>
    </div>
  );
}

function textOf(form: Form, set: Fields["set"], faults: Faults) {
  return (field: keyof Form) => ({
    value: form[field],
    error: faults[field],
    onChange: (event: { target: { value: string } }) => set({ [field]: event.target.value }),
  });
}

function area(field: keyof Form, form: Form, set: Fields["set"], faults: Faults) {
  return { ...textOf(form, set, faults)(field), className: "mono" };
}
