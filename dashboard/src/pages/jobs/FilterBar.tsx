// The filter: typed in one line with completion, picked from a menu, and shown as conditions that can be removed.
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { Button } from "../../ui/Button";
import { Select, TextField } from "../../ui/Field";
import { Popover } from "../../ui/Menu";
import {
  type Field,
  FIELDS,
  type Filter,
  HINTS,
  type Known,
  completions,
  format,
  inWords,
  parse,
  parts,
  valuesOf,
  withPart,
  without,
  words,
} from "./filter";
import "./FilterBar.css";

type Props = { filter: Filter; problems: string[]; known: Known; onChange: (filter: Filter) => void; inputId: string };

export function FilterBar({ filter, problems, known, onChange, inputId }: Props) {
  const shown = format(filter);
  const [text, setText] = useState(shown);
  const [wrong, setWrong] = useState<string[]>(problems);
  useEffect(() => {
    setText(shown);
    setWrong(problems);
    // Only what is in the address counts: an equal filter leaves what is being typed alone.
  }, [shown, problems.join()]);
  const apply = (typed: string) => {
    const read = parse(typed);
    setWrong(read.problems);
    if (read.problems.length === 0) onChange(read.filter);
  };
  return (
    <div className="filter">
      <div className="filter-line">
        <Typed text={text} setText={setText} known={known} onApply={apply} inputId={inputId} />
        <Picked filter={filter} known={known} onChange={onChange} />
        {shown && (
          <Button look="quiet" onClick={() => onChange({ data: {} })}>
            Clear
          </Button>
        )}
      </div>
      {wrong.length > 0 && (
        <ul className="filter-wrong" role="alert">
          {wrong.map((one) => (
            <li key={one} className="field-error">
              {one}
            </li>
          ))}
        </ul>
      )}
      {parts(filter).length > 0 && (
        <ul className="filter-parts" aria-label="Conditions">
          {parts(filter).map(({ key, value }) => (
            <li key={`${key}:${value}`} className="filter-part">
              <span className="wrap">{inWords(key, value)}</span>
              <button
                type="button"
                aria-label={`Remove ${key}: ${value}`}
                onClick={() => onChange(without(filter, key, value))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

type TypedProps = {
  text: string;
  setText: (text: string) => void;
  known: Known;
  onApply: (text: string) => void;
  inputId: string;
};

/** The line that is typed: a combobox, whose list has what may come next. */
function Typed({ text, setText, known, onApply, inputId }: TypedProps) {
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  const [caret, setCaret] = useState(text.length);
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const word = useMemo(() => words(text).find((one) => one.start < caret && caret <= one.end), [text, caret]);
  const offered = useMemo(() => (open ? completions(word, known) : []), [open, word, known]);

  const take = (index: number) => {
    const chosen = offered[index];
    if (!chosen) return;
    const start = word?.start ?? caret;
    const end = word?.end ?? caret;
    const next = `${text.slice(0, start)}${chosen.text}${chosen.whole ? " " : ""}${text.slice(end)}`;
    const at = start + chosen.text.length + (chosen.whole ? 1 : 0);
    // The caret moves before the next key: a frame later it could move between two letters of what is typed next.
    flushSync(() => {
      setText(next);
      setCaret(at);
      setActive(-1);
    });
    input.current?.setSelectionRange(at, at);
  };
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && offered.length > 0) {
      event.preventDefault();
      setActive((active + step + offered.length) % offered.length);
    } else if ((event.key === "Tab" && active >= 0) || (event.key === "Enter" && active >= 0)) {
      event.preventDefault();
      take(active);
    } else if (event.key === "Enter") {
      event.preventDefault();
      setOpen(false);
      onApply(text);
    } else if (event.key === "Escape") {
      if (open) setOpen(false);
      else input.current?.blur();
    }
  };
  return (
    <div className="filter-typed">
      <input
        ref={input}
        id={inputId}
        className="input mono"
        role="combobox"
        aria-label="Filter of jobs"
        aria-expanded={offered.length > 0}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 ? `${list}-${active}` : undefined}
        placeholder='state:failed name:send error:"CardDeclined" data.customer.id:42 created:>1h'
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        maxLength={4000}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCaret(event.target.selectionStart ?? event.target.value.length);
          setActive(-1);
          setOpen(true);
        }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={press}
      />
      <ul id={list} role="listbox" aria-label="Completions" className="filter-list" hidden={offered.length === 0}>
        {offered.map((one, index) => (
          <li
            key={one.text}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === active}
            // The press of the mouse would take the focus from the line before the click arrives.
            onMouseDown={(event) => {
              event.preventDefault();
              take(index);
            }}
          >
            <span className="mono wrap">{one.text}</span>
            <span className="muted">{one.hint}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The same, picked: a field, and a value of it. */
function Picked({ filter, known, onChange }: { filter: Filter; known: Known; onChange: (filter: Filter) => void }) {
  return (
    <Popover label="Add a condition">
      {(close) => (
        <PickedForm
          known={known}
          onAdd={(key, value) => {
            onChange(withPart(filter, key, value));
            close();
          }}
        />
      )}
    </Popover>
  );
}

function PickedForm({ known, onAdd }: { known: Known; onAdd: (key: string, value: string) => void }) {
  const [field, setField] = useState<Field | "data">("state");
  const [path, setPath] = useState("");
  const [value, setValue] = useState("");
  const choices = field === "data" ? [] : valuesOf(field, known);
  const key = field === "data" ? `data.${path}` : field;
  const wrong = value === "" ? [] : parse(`${key}:"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`).problems;
  const add = () => {
    if (value !== "" && wrong.length === 0 && (field !== "data" || path !== "")) onAdd(key, value);
  };
  return (
    <form
      className="filter-form"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <Select
        label="Field"
        value={field}
        options={[...FIELDS, ["data", "a field of the data"]]}
        onChange={(event) => {
          setField(event.target.value as Field | "data");
          setValue("");
        }}
      />
      {field === "data" && (
        <TextField
          label="Path"
          placeholder="customer.id"
          value={path}
          onChange={(event) => setPath(event.target.value)}
        />
      )}
      {field === "state" ? (
        <Select
          label="Value"
          value={value}
          options={[["", "choose …"], ...choices]}
          onChange={(event) => setValue(event.target.value)}
        />
      ) : (
        <TextField
          label="Value"
          value={value}
          options={choices}
          hint={field === "data" ? "A number is compared as a number and as text." : HINTS[field]}
          error={wrong[0]}
          onChange={(event) => setValue(event.target.value)}
        />
      )}
      <Button type="submit" look="primary" disabled={value === ""}>
        Add
      </Button>
    </form>
  );
}
