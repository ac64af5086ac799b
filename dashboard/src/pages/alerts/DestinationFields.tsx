// The destinations of an alert rule as fields: up to five, each an email, a chat or a webhook with its headers.
import { Button } from "../../ui/Button";
import { Select, TextArea, TextField } from "../../ui/Field";
import { BLANK, type Destination, misfitsOf, MOST, type Typed, TYPES } from "./destinations";

type Props = {
  given: readonly Typed[];
  onChange: (given: Typed[]) => void;
  /** Those that are stored, as they are shown. */
  before?: readonly Destination[];
  /** What the service says about them. */
  refused?: string;
};

export function DestinationFields({ given, onChange, before, refused }: Props) {
  const set = (place: number, typed: Typed) => onChange(given.map((one, at) => (at === place ? typed : one)));
  return (
    <div className="stack">
      {given.map((one, place) => (
        <fieldset key={place} className="fieldset stack">
          <legend>Destination {place + 1}</legend>
          <Fields typed={one} before={before} onChange={(typed) => set(place, typed)} />
          {given.length > 1 && (
            <div>
              <Button
                small
                look="quiet"
                aria-label={`Remove destination ${place + 1}`}
                onClick={() => onChange(given.filter((_, at) => at !== place))}
              >
                Remove
              </Button>
            </div>
          )}
        </fieldset>
      ))}
      {refused && (
        <span className="field-error" role="alert">
          {refused}
        </span>
      )}
      {given.length < MOST && (
        <div>
          <Button small onClick={() => onChange([...given, BLANK])}>
            Add a destination
          </Button>
        </div>
      )}
    </div>
  );
}

type FieldsProps = { typed: Typed; before?: readonly Destination[]; onChange: (typed: Typed) => void };

function Fields({ typed, before, onChange }: FieldsProps) {
  const set = (change: Partial<Typed>) => onChange({ ...typed, ...change });
  const misfits = misfitsOf(typed, before);
  return (
    <>
      <Select
        label="By"
        value={typed.type}
        options={TYPES}
        onChange={(event) => set({ type: event.target.value as Typed["type"] })}
      />
      {typed.type === "email" ? (
        <TextField
          label="Addresses"
          value={typed.to}
          required
          placeholder="ops@example.com"
          hint="Several addresses are separated by commas."
          error={typed.to ? misfits.to : undefined}
          onChange={(event) => set({ to: event.target.value })}
        />
      ) : (
        <TextField
          label="URL"
          value={typed.url}
          required
          placeholder="https://hooks.slack.com/secret://chat"
          hint="The path may be a stored secret, written as secret://name. A part that is shown as hidden keeps its value."
          error={typed.url ? misfits.url : undefined}
          onChange={(event) => set({ url: event.target.value })}
        />
      )}
      {typed.type === "webhook" && (
        <>
          <TextArea
            label="Headers (optional)"
            rows={2}
            className="mono"
            value={typed.headers}
            placeholder="Authorization: Bearer secret://name"
            hint="One per line. A value that is shown as [redacted] is kept."
            error={misfits.headers}
            onChange={(event) => set({ headers: event.target.value })}
          />
          <TextField
            label="Sign with (optional)"
            value={typed.signWith}
            hint="Names of stored secrets, separated by commas."
            onChange={(event) => set({ signWith: event.target.value })}
          />
        </>
      )}
    </>
  );
}
