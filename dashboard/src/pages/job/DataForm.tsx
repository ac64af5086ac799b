// The data of a job, as a form of its handler's schema or as raw JSON, with what is wrong shown while one types.
import { useMemo, useState } from "react";
import { parseExact } from "../../lib/json";
import { Segments, Select, TextArea, TextField } from "../../ui/Field";
import {
  choices,
  fieldName,
  isObject,
  kindOf,
  type Misfit,
  misfits,
  MISSING,
  type Path,
  resolved,
  type Schema,
  shownText,
  typedValue,
  valueAt,
  withValue,
} from "./schema";

const HIDDEN = /^\[(redacted|encrypted)\b.*\]$/;
const DEEPEST = 3;

export type Data = {
  text: string;
  setText: (text: string) => void;
  value: Record<string, unknown> | null;
  /** Why the text is no document. */
  broken: string | undefined;
  misfits: Misfit[];
};

/** The data under edit. The text is what counts; the form writes into it. `refuseHidden`: hidden values must be given. */
export function useData(initial: unknown, schema: Schema | null, refuseHidden = false): Data {
  const [text, setText] = useState(() => JSON.stringify(initial ?? {}, null, 2));
  const [value, broken] = useMemo(() => read(text), [text]);
  const found = useMemo(() => {
    if (value === null) return [];
    const hidden = refuseHidden ? hiddenPlaces(value, []) : [];
    return [...hidden, ...(schema ? misfits(schema, value) : [])];
  }, [value, schema, refuseHidden]);
  return { text, setText, value, broken, misfits: found };
}

function read(text: string): [Record<string, unknown> | null, string | undefined] {
  if (text.trim() === "") return [{}, undefined];
  try {
    const value = parseExact(text);
    return isObject(value) ? [value, undefined] : [null, "Data is a JSON object, such as {}."];
  } catch (error) {
    return [null, `This is not JSON: ${error instanceof Error ? error.message : "it cannot be read"}`];
  }
}

/** The places of words that stand for hidden values. */
export function hiddenPlaces(value: unknown, path: Path): Misfit[] {
  if (typeof value === "string" && HIDDEN.test(value))
    return [{ path, text: "is hidden here; enter the value again." }];
  if (Array.isArray(value)) return value.flatMap((one, place) => hiddenPlaces(one, [...path, place]));
  if (isObject(value)) return Object.entries(value).flatMap(([name, one]) => hiddenPlaces(one, [...path, name]));
  return [];
}

/** The editor. `refused` is what the service has said about a field. */
export function DataForm({
  data,
  schema,
  refused,
}: {
  data: Data;
  schema: Schema | null;
  refused?: { field?: string; detail: string };
}) {
  const properties = schema && isObject(schema["properties"]) ? schema["properties"] : {};
  const hasForm = Object.keys(properties).length > 0;
  const [chosen, setWay] = useState<"form" | "json">("form");
  const shown = hasForm ? chosen : "json";
  const elsewhere =
    shown === "form" ? data.misfits.filter((one) => !(String(one.path[0]) in properties)) : data.misfits;
  return (
    <div className="stack">
      {hasForm && (
        <Segments
          label="How to edit the data"
          value={chosen}
          options={[
            ["form", "Form"],
            ["json", "JSON"],
          ]}
          onChange={setWay}
        />
      )}
      {shown === "json" || data.value === null ? (
        <TextArea
          label="Data as JSON"
          rows={Math.min(24, Math.max(6, data.text.split("\n").length + 1))}
          className="mono"
          value={data.text}
          error={data.broken}
          onChange={(event) => data.setText(event.target.value)}
        />
      ) : (
        <Fields schema={schema ?? {}} root={schema ?? {}} path={[]} data={data} depth={0} />
      )}
      {elsewhere.length > 0 && (
        <ul className="field-error" aria-label="What does not fit" role="alert">
          {elsewhere.slice(0, 8).map((one) => (
            <li key={fieldName(one.path) + one.text} className="wrap">
              {fieldName(one.path)} {one.text}
            </li>
          ))}
        </ul>
      )}
      {refused && (
        <p className="field-error wrap" role="alert">
          {refused.detail}
        </p>
      )}
    </div>
  );
}

type Part = { schema: Schema; root: Schema; path: Path; data: Data; depth: number };

function Fields({ schema, root, path, data, depth }: Part) {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  return (
    <div className="data-fields">
      {Object.entries(properties).map(([name, part]) => (
        <One
          key={name}
          name={name}
          required={required.includes(name)}
          schema={isObject(part) ? part : {}}
          root={root}
          path={[...path, name]}
          data={data}
          depth={depth}
        />
      ))}
    </div>
  );
}

function One({ name, required, schema, root, path, data, depth }: Part & { name: string; required: boolean }) {
  const whole = resolved(schema, root);
  const kind = kindOf(schema, root);
  const value = valueAt(data.value, path);
  const [touched, setTouched] = useState(false);
  const change = (next: unknown) => {
    setTouched(true);
    data.setText(JSON.stringify(withValue(data.value, path, next), null, 2));
  };
  const own = data.misfits.find((one) => fieldName(one.path) === fieldName(path));
  const below = data.misfits.find((one) => fieldName(one.path).startsWith(fieldName(path)));
  const found = (own ?? (kind === "object" ? undefined : below))?.text;
  // A field that is still to be filled in is no fault yet; the star says that it is needed.
  const error = found === MISSING && !touched ? undefined : found;
  const about = {
    label: required ? `${name} *` : name,
    error: error ? `${name} ${error}` : undefined,
    hint: hintOf(whole, kind),
  };
  if (kind === "object" && depth < DEEPEST)
    return (
      <fieldset className="fieldset">
        <legend>{about.label}</legend>
        <Fields schema={whole} root={root} path={path} data={data} depth={depth + 1} />
        {about.error && <span className="field-error">{about.error}</span>}
      </fieldset>
    );
  if (kind === "choice" || kind === "boolean") {
    const options = kind === "boolean" ? ["true", "false"] : choices(schema, root);
    const chosen = value === undefined || value === null ? "" : String(value);
    const odd = chosen !== "" && !options.includes(chosen) ? [chosen] : [];
    return (
      <Select
        {...about}
        value={chosen}
        options={[
          ["", required ? "–" : "not given"],
          ...[...options, ...odd].map((one): [string, string] => [one, one]),
        ]}
        onChange={(event) => {
          const next = event.target.value;
          change(next === "" ? undefined : kind === "boolean" ? next === "true" : next);
        }}
      />
    );
  }
  if (kind === "json" || kind === "object") return <JsonField {...about} value={value} onChange={change} />;
  if (kind === "lines")
    return (
      <TextArea
        {...about}
        rows={3}
        value={shownText(kind, value)}
        onChange={(event) => {
          const lines = event.target.value.split("\n");
          change(event.target.value === "" && !required ? undefined : event.target.value === "" ? [] : lines);
        }}
      />
    );
  return (
    <TextField
      {...about}
      inputMode={kind === "whole" || kind === "number" ? "decimal" : undefined}
      value={shownText(kind, value)}
      onChange={(event) => {
        const text = event.target.value;
        const given = text !== "" || (required && kind === "text");
        change(given ? typedValue(kind, text) : undefined);
      }}
    />
  );
}

/** A part without a control of its own: JSON, which is written into the data as soon as it can be read. */
function JsonField(props: {
  label: string;
  error?: string;
  hint?: string;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const [text, setText] = useState(() => (props.value === undefined ? "" : JSON.stringify(props.value, null, 2)));
  const [broken, setBroken] = useState("");
  return (
    <TextArea
      label={props.label}
      hint={props.hint ?? "As JSON."}
      rows={Math.min(12, Math.max(3, text.split("\n").length))}
      className="mono"
      error={broken || props.error}
      value={text}
      onChange={(event) => {
        setText(event.target.value);
        try {
          props.onChange(event.target.value.trim() === "" ? undefined : parseExact(event.target.value));
          setBroken("");
        } catch (error) {
          setBroken(`This is not JSON: ${error instanceof Error ? error.message : ""}`);
        }
      }}
    />
  );
}

function hintOf(schema: Schema, kind: string): string | undefined {
  const said = schema["description"];
  const words = [typeof said === "string" ? said : ""];
  if (kind === "lines") words.push("One per line.");
  if (kind === "time") words.push("Such as 2031-01-01T09:00:00Z.");
  if (schema["default"] !== undefined && schema["default"] !== null && schema["default"] !== "")
    words.push(`${JSON.stringify(schema["default"])} if not given.`);
  return words.filter(Boolean).join(" ") || undefined;
}
