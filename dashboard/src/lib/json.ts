// JSON without loss: numbers that a double cannot hold exactly keep their digits, as `ExactNumber`.

/** A number of JSON with all its digits, for those that a JavaScript number would round. */
export class ExactNumber {
  constructor(readonly text: string) {}

  toJSON(): unknown {
    // Engines with raw JSON write the digits back; the others write the rounded number.
    const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;
    return raw ? raw(this.text) : Number(this.text);
  }

  toString(): string {
    return this.text;
  }
}

type Context = { source?: string };

/** Parse JSON; a whole number beyond 2^53, or a decimal with too many digits, becomes an `ExactNumber`. */
export function parseExact(text: string): unknown {
  const revive = (_key: string, value: unknown, context?: Context): unknown =>
    typeof value === "number" && context?.source !== undefined && !isExact(value, context.source)
      ? new ExactNumber(context.source)
      : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

function isExact(value: number, source: string): boolean {
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value);
  const digits = source
    .replace(/[eE].*$/, "")
    .replace(/[^0-9]/g, "")
    .replace(/^0+/, "");
  return digits.length <= 15 || String(value) === source;
}
