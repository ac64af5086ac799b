// Fields that the forms of keys, secrets, calendars and alert rules share: a name, and a scope of queues and names.
import { useState } from "react";
import type { Problem } from "../../api/client";
import { TextField } from "../../ui/Field";
import { listed } from "./words";

type NameProps = Omit<Parameters<typeof TextField>[0], "label" | "value" | "onChange"> & {
  value: string;
  onChange: (name: string) => void;
};

/** The name of the thing that a form makes; the first field of the form. */
export function NameField({ value, onChange, ...rest }: NameProps) {
  return (
    <TextField
      label="Name"
      value={value}
      required
      autoFocus
      maxLength={200}
      onChange={(event) => onChange(event.target.value)}
      {...rest}
    />
  );
}

type Scope = { queues?: string[] | null; prefixes?: string[] | null };
type Typed = { queues: string; prefixes: string };

/** A scope as it is typed, and as a part of a request's body. */
export function useScope(first?: Scope) {
  const [typed, setTyped] = useState<Typed>({
    queues: first?.queues?.join(", ") ?? "",
    prefixes: first?.prefixes?.join(", ") ?? "",
  });
  return { typed, setTyped, body: { queues: listed(typed.queues), prefixes: listed(typed.prefixes) } };
}

type ScopeProps = {
  scope: ReturnType<typeof useScope>;
  /** The refusal of the service. */
  problem: Problem | null;
  queues: string;
  prefixes: string;
  hint?: string;
};

/** `queues` and `prefixes` are the labels. */
export function ScopeFields({ scope: { typed, setTyped }, problem, queues, prefixes, hint }: ScopeProps) {
  return (
    <>
      <TextField
        label={`${queues} (optional)`}
        value={typed.queues}
        placeholder="billing, mail"
        hint={hint}
        onChange={(event) => setTyped({ ...typed, queues: event.target.value })}
        error={problem?.about("queues")}
      />
      <TextField
        label={`${prefixes} (optional)`}
        value={typed.prefixes}
        placeholder="invoice-"
        onChange={(event) => setTyped({ ...typed, prefixes: event.target.value })}
        error={problem?.about("prefixes")}
      />
    </>
  );
}
