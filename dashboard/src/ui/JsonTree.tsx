// A value as a tree: gated by size, exact numbers, redacted values marked, and text that is never anything but text.
import { type ReactNode, useMemo, useState } from "react";
import { ExactNumber } from "../lib/json";
import { Button } from "./Button";
import { CopyButton } from "./Copy";
import { bytes, count } from "../lib/text";
import { HIDDEN, measure } from "./measure";
import "./JsonTree.css";

export const LARGEST_TEXT = 256_000;
export const MOST_NODES = 5000;
const PAGE = 100;
const LONG = 400;

export function JsonTree({ value, name }: { value: unknown; name: string }) {
  const size = useMemo(() => measure(value), [value]);
  const [anyway, setAnyway] = useState(false);
  const large = size.text > LARGEST_TEXT || size.nodes > MOST_NODES;
  return (
    <div className="json" aria-label={name}>
      <div className="row spread json-head">
        <span className="muted">
          {bytes(size.text)}, {count(size.nodes)} {size.nodes === 1 ? "value" : "values"}
          {size.hidden > 0 && `, ${count(size.hidden)} hidden`}
        </span>
        <CopyButton text={() => JSON.stringify(value, null, 2)} label={`Copy ${name}`} />
      </div>
      {large && !anyway ? (
        <p>
          This is large, and drawing it may take a while.{" "}
          <Button small onClick={() => setAnyway(true)}>
            Show it
          </Button>
        </p>
      ) : (
        <Node value={value} depth={0} />
      )}
    </div>
  );
}

function Node({ value, depth, label }: { value: unknown; depth: number; label?: ReactNode }) {
  const entries = entriesOf(value);
  if (!entries) return <Leaf value={value} label={label} />;
  const array = Array.isArray(value);
  const brackets = array ? "[]" : "{}";
  if (entries.length === 0)
    return (
      <div className="json-line">
        {label}
        <span className="muted">{brackets}</span>
      </div>
    );
  return <Branch entries={entries} array={array} depth={depth} label={label} />;
}

function Branch({
  entries,
  array,
  depth,
  label,
}: {
  entries: [string, unknown][];
  array: boolean;
  depth: number;
  label?: ReactNode;
}) {
  const [open, setOpen] = useState(depth < 2 || entries.length === 1);
  const [shown, setShown] = useState(PAGE);
  return (
    <details className="json-branch" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {label}
        <span className="muted">{array ? `[${count(entries.length)}]` : `{${count(entries.length)}}`}</span>
      </summary>
      {open && (
        <div className="json-children">
          {entries.slice(0, shown).map(([key, one]) => (
            <Node key={key} value={one} depth={depth + 1} label={<span className="json-key">{key}: </span>} />
          ))}
          {entries.length > shown && (
            <Button small look="quiet" onClick={() => setShown(shown + PAGE * 10)}>
              {count(entries.length - shown)} more
            </Button>
          )}
        </div>
      )}
    </details>
  );
}

function Leaf({ value, label }: { value: unknown; label?: ReactNode }) {
  const [whole, setWhole] = useState(false);
  if (typeof value === "string") {
    if (HIDDEN.test(value))
      return (
        <div className="json-line">
          {label}
          <span className="json-hidden" title="The service hides this value.">
            {value}
          </span>
        </div>
      );
    const cut = value.length > LONG && !whole;
    return (
      <div className="json-line">
        {label}
        <span className="json-text">{JSON.stringify(cut ? value.slice(0, LONG) : value)}</span>
        {cut && (
          <Button small look="quiet" onClick={() => setWhole(true)}>
            {count(value.length - LONG)} more characters
          </Button>
        )}
      </div>
    );
  }
  return (
    <div className="json-line">
      {label}
      <span className="json-plain">{value instanceof ExactNumber ? value.text : String(value)}</span>
    </div>
  );
}

function entriesOf(value: unknown): [string, unknown][] | null {
  if (value instanceof ExactNumber || value === null || typeof value !== "object") return null;
  return Array.isArray(value) ? value.map((one, index) => [String(index), one]) : Object.entries(value).sort(byKey);
}

function byKey([one]: [string, unknown], [other]: [string, unknown]): number {
  return one < other ? -1 : 1;
}
