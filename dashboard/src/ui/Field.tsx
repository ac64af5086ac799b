// Fields of forms: a label, a control, a hint, and what is wrong with it.
import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
  useRef,
} from "react";
import "./controls.css";

type Around = { label: string; hint?: ReactNode; error?: string; hideLabel?: boolean };

function Surround({ label, hint, error, hideLabel, id, children }: Around & { id: string; children: ReactNode }) {
  return (
    <div className="field">
      <label className={hideLabel ? "visually-hidden" : "field-label"} htmlFor={id}>
        {label}
      </label>
      {children}
      {hint && (
        <span className="field-hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error && (
        <span className="field-error" id={`${id}-error`} role="alert">
          {error}
        </span>
      )}
    </div>
  );
}

function described(id: string, { hint, error }: Around): string | undefined {
  return [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
}

type InputProps = Around & InputHTMLAttributes<HTMLInputElement> & { options?: readonly string[] };

/** A line of text. `options` are offered while one types. */
export function TextField({ label, hint, error, hideLabel, options, className = "", ...rest }: InputProps) {
  const id = useId();
  const around = { label, hint, error, hideLabel };
  return (
    <Surround {...around} id={id}>
      <input
        autoComplete="off"
        {...rest}
        id={id}
        className={`input ${className}`}
        aria-invalid={error ? true : undefined}
        aria-describedby={described(id, around)}
        list={options ? `${id}-options` : undefined}
      />
      {options && (
        <datalist id={`${id}-options`}>
          {options.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </Surround>
  );
}

/** Several lines of text. */
export function TextArea({
  label,
  hint,
  error,
  hideLabel,
  className = "",
  ...rest
}: Around & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId();
  const around = { label, hint, error, hideLabel };
  return (
    <Surround {...around} id={id}>
      <textarea
        spellCheck={false}
        {...rest}
        id={id}
        className={`input ${className}`}
        aria-invalid={error ? true : undefined}
        aria-describedby={described(id, around)}
      />
    </Surround>
  );
}

type SelectProps = Around &
  SelectHTMLAttributes<HTMLSelectElement> & { options: readonly (string | [string, string])[] };

/** A choice of a few; an option is its value, or a value and its words. */
export function Select({ label, hint, error, hideLabel, options, className = "", ...rest }: SelectProps) {
  const id = useId();
  const around = { label, hint, error, hideLabel };
  return (
    <Surround {...around} id={id}>
      <select {...rest} id={id} className={`input ${className}`} aria-describedby={described(id, around)}>
        {options.map((one) => {
          const [value, words] = typeof one === "string" ? [one, one] : one;
          return (
            <option key={value} value={value}>
              {words}
            </option>
          );
        })}
      </select>
    </Surround>
  );
}

type CheckProps = InputHTMLAttributes<HTMLInputElement> & { label: ReactNode };

export function Checkbox({ label, ...rest }: CheckProps) {
  return (
    <label className="checkbox">
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  );
}

/** A few choices side by side, of which one is pressed. */
export function Segments<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (T | [T, ReactNode])[];
  onChange: (value: T) => void;
}) {
  return (
    <div className="segments" role="group" aria-label={props.label}>
      {props.options.map((one) => {
        const [value, words]: [T, ReactNode] = Array.isArray(one) ? one : [one, one];
        return (
          <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
            {words}
          </button>
        );
      })}
    </div>
  );
}

/** Tabs; the arrow keys move between them. */
export function Tabs<T extends string>(props: {
  label: string;
  value: T;
  options: readonly [T, ReactNode][];
  onChange: (value: T) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const at = props.options.findIndex(([value]) => value === props.value);
    const index = (at + step + props.options.length) % props.options.length;
    const next = props.options[index];
    if (!next) return;
    // The focus goes with the choice: a screen reader names the tab that has it.
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[index]?.focus();
    props.onChange(next[0]);
  };
  return (
    <div
      ref={list}
      className="tabs"
      role="tablist"
      aria-label={props.label}
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") move(1);
        if (event.key === "ArrowLeft") move(-1);
      }}
    >
      {props.options.map(([value, words]) => (
        <button
          key={value}
          type="button"
          role="tab"
          aria-selected={value === props.value}
          tabIndex={value === props.value ? 0 : -1}
          onClick={() => props.onChange(value)}
        >
          {words}
        </button>
      ))}
    </div>
  );
}
