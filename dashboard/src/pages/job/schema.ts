// The JSON Schema of a handler's data: what its form looks like, and what is wrong with what was typed so far.
// The check follows the service's own, which follows the handler: it accepts what the handler would convert.
import { ExactNumber } from "../../lib/json";

export type Schema = { [keyword: string]: unknown };
export type Path = (string | number)[];
export type Misfit = { path: Path; text: string };
export type Kind = "text" | "number" | "whole" | "boolean" | "choice" | "time" | "lines" | "object" | "json";

export const MISSING = "is missing.";
const DEEPEST = 40;
const MOST = 50;
const TRUTH = ["0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes"];
const TIMES = ["date-time", "date", "time", "duration"];
const CALLED: Record<string, string> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a document",
  null: "null",
};

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** A part of a schema with its reference followed, and without the alternative null. */
export function resolved(part: unknown, root: Schema, depth = 0): Schema {
  if (!isObject(part) || depth > 10) return {};
  const reference = part["$ref"];
  if (typeof reference === "string") {
    const defs = root["$defs"];
    const found = isObject(defs) ? defs[reference.replace("#/$defs/", "")] : undefined;
    const { $ref: _, ...beside } = part;
    return { ...resolved(found, root, depth + 1), ...beside };
  }
  if (Array.isArray(part["anyOf"])) {
    const others = part["anyOf"].filter((one) => !(isObject(one) && one["type"] === "null"));
    const { anyOf: _, ...beside } = part;
    if (others.length === 1) return { ...resolved(others[0], root, depth + 1), ...beside };
  }
  return part;
}

/** Which control a part of a schema gets. What has no control of its own is edited as JSON. */
export function kindOf(part: Schema, root: Schema): Kind {
  const schema = resolved(part, root);
  if (Array.isArray(schema["enum"]) && schema["enum"].every((one) => typeof one === "string")) return "choice";
  if (typeof schema["const"] === "string") return "choice";
  switch (schema["type"]) {
    case "string":
      return schema["format"] === "date-time" ? "time" : "text";
    case "integer":
      return "whole";
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "array":
      return resolved(schema["items"], root)["type"] === "string" && !schema["prefixItems"] ? "lines" : "json";
    case "object":
      return isObject(schema["properties"]) && Object.keys(schema["properties"]).length > 0 ? "object" : "json";
    default:
      return "json";
  }
}

export function choices(part: Schema, root: Schema): string[] {
  const schema = resolved(part, root);
  return Array.isArray(schema["enum"]) ? schema["enum"].map(String) : [String(schema["const"])];
}

/** Data to begin with: the required fields that have an obvious value, such as an empty list. Texts, numbers and choices
 * are left out, so that no job is made with a 0 that was never typed. */
export function blank(schema: Schema, root: Schema = schema): Record<string, unknown> {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const made: Record<string, unknown> = {};
  for (const name of required) {
    const part = properties[name];
    const value = isObject(part) ? blankValue(part, root) : undefined;
    if (value !== undefined) made[name] = value;
  }
  return made;
}

function blankValue(part: Schema, root: Schema): unknown {
  const schema = resolved(part, root);
  if ("default" in schema) return schema["default"];
  switch (kindOf(part, root)) {
    case "choice":
      return "const" in schema ? schema["const"] : undefined;
    case "lines":
      return [];
    case "object":
      return blank(schema, root);
    case "json":
      return schema["type"] === "array" ? [] : schema["type"] === "object" ? {} : undefined;
    default:
      return undefined;
  }
}

/** A typed text as the value of its kind; what is no number stays text, so that the check can say so. */
export function typedValue(kind: Kind, text: string): unknown {
  if (kind === "lines") return text.split("\n").filter((line) => line !== "");
  if (kind !== "number" && kind !== "whole") return text;
  const trimmed = text.trim();
  if (!/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed)) return text;
  const value = Number(trimmed);
  return /^-?\d+$/.test(trimmed) && !Number.isSafeInteger(value) ? new ExactNumber(trimmed) : value;
}

/** A value as the text of its control. */
export function shownText(kind: Kind, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (kind === "lines" && Array.isArray(value)) return value.map(String).join("\n");
  return typeof value === "object" && !(value instanceof ExactNumber) ? JSON.stringify(value) : String(value);
}

/** A document with another value at a place; undefined removes it. */
export function withValue(data: unknown, path: Path, value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (Array.isArray(data)) return data.map((one, place) => (place === step ? withValue(one, rest, value) : one));
  const base = isObject(data) ? { ...data } : {};
  const next = withValue(base[step], rest, value);
  if (next === undefined) delete base[step];
  else base[step] = next;
  return base;
}

export function valueAt(data: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) => (isObject(at) || Array.isArray(at) ? (at as Record<string | number, unknown>)[step] : undefined),
    data,
  );
}

/** A place as the service names it: `data.items[0].price`. */
export function fieldName(path: Path): string {
  return `data${path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("")}`;
}

// -- the check ---------------------------------------------------------------------------------------------------------

/** What is wrong with data by its schema, a bounded number of places. */
export function misfits(schema: Schema, data: unknown): Misfit[] {
  const found: Misfit[] = [];
  look(schema, data, [], schema, found);
  return found;
}

function look(part: unknown, value: unknown, path: Path, root: Schema, found: Misfit[]): void {
  if (!isObject(part) || part["x-any"] || path.length > DEEPEST || found.length >= MOST) return;
  const reference = part["$ref"];
  if (typeof reference === "string") {
    const defs = root["$defs"];
    const target = isObject(defs) ? defs[reference.replace("#/$defs/", "")] : undefined;
    if (!isObject(target) || target["$ref"] === reference) return;
    look(target, value, path, root, found);
    return;
  }
  const options = part["anyOf"] ?? part["oneOf"];
  if (Array.isArray(options)) {
    lookAny(options, value, path, root, found);
    return;
  }
  if ("const" in part || Array.isArray(part["enum"])) {
    const allowed = "const" in part ? [part["const"]] : (part["enum"] as unknown[]);
    if (!allowed.some((one) => String(one) === String(value)))
      found.push({ path, text: `must be ${allowed.length > 1 ? "one of " : ""}${allowed.slice(0, 20).join(", ")}.` });
    return;
  }
  const kind = part["type"];
  if (typeof kind !== "string") return;
  if (!isOf(kind, value, part)) {
    found.push({ path, text: `must be ${CALLED[kind] ?? kind}.` });
    return;
  }
  if (kind === "object" && isObject(value)) lookObject(part, value, path, root, found);
  if (kind === "array" && Array.isArray(value)) lookList(part, value, path, root, found);
  if (kind === "string" && typeof value === "string")
    lookLength(part, value.length, "characters", "Length", path, found);
  if ((kind === "integer" || kind === "number") && typeof value === "number") lookBounds(part, value, path, found);
}

function lookAny(options: unknown[], value: unknown, path: Path, root: Schema, found: Misfit[]): void {
  let best: Misfit[] | null = null;
  const words: string[] = [];
  for (const option of options.slice(0, 50)) {
    const tried: Misfit[] = [];
    look(option, value, path, root, tried);
    if (tried.length === 0) return;
    words.push(tried[0]?.text.replace(/^must be /, "").replace(/\.$/, "") ?? "");
    const depth = Math.max(...tried.map((one) => one.path.length));
    const before = best ? Math.max(...best.map((one) => one.path.length)) : -1;
    if (depth > before) best = tried;
  }
  if (!best) return;
  const deep = best.some((one) => one.path.length > path.length);
  found.push(...(deep ? best : [{ path, text: `must be ${[...new Set(words)].join(" or ")}.` }]));
}

function lookObject(part: Schema, value: Record<string, unknown>, path: Path, root: Schema, found: Misfit[]): void {
  const properties = isObject(part["properties"]) ? part["properties"] : {};
  for (const name of Array.isArray(part["required"]) ? part["required"].map(String) : []) {
    if (!(name in value)) found.push({ path: [...path, name], text: MISSING });
  }
  const other = part["additionalProperties"] ?? true;
  for (const [name, one] of Object.entries(value)) {
    if (name in properties) look(properties[name], one, [...path, name], root, found);
    else if (other === false) {
      const known = Object.keys(properties).join(", ") || "none";
      found.push({ path: [...path, name], text: `is not known here; known are ${known}.` });
    } else look(other, one, [...path, name], root, found);
  }
}

function lookList(part: Schema, value: unknown[], path: Path, root: Schema, found: Misfit[]): void {
  if (!part["uniqueItems"]) lookLength(part, value.length, "items", "Items", path, found);
  const heads = Array.isArray(part["prefixItems"]) ? part["prefixItems"] : [];
  value.forEach((one, place) => look(heads[place] ?? part["items"], one, [...path, place], root, found));
}

function lookLength(part: Schema, size: number, what: string, suffix: string, path: Path, found: Misfit[]): void {
  const least = part[`min${suffix}`];
  const most = part[`max${suffix}`];
  if (typeof least === "number" && size < least) found.push({ path, text: `must have at least ${least} ${what}.` });
  if (typeof most === "number" && size > most) found.push({ path, text: `must have at most ${most} ${what}.` });
}

function lookBounds(part: Schema, value: number, path: Path, found: Misfit[]): void {
  const rules: [string, (limit: number) => boolean, string][] = [
    ["minimum", (limit) => value < limit, "at least"],
    ["maximum", (limit) => value > limit, "at most"],
    ["exclusiveMinimum", (limit) => value <= limit, "more than"],
    ["exclusiveMaximum", (limit) => value >= limit, "less than"],
  ];
  for (const [keyword, fails, words] of rules) {
    const limit = part[keyword];
    if (typeof limit === "number" && fails(limit)) found.push({ path, text: `must be ${words} ${limit}.` });
  }
}

function isOf(kind: string, value: unknown, part: Schema): boolean {
  switch (kind) {
    case "null":
      return value === null;
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "boolean":
      return (
        typeof value === "boolean" ||
        value === 0 ||
        value === 1 ||
        (typeof value === "string" && TRUTH.includes(value.toLowerCase()))
      );
    case "integer":
    case "number":
      return isNumber(value, kind === "integer");
    case "string":
      return typeof value === "string" || (TIMES.includes(String(part["format"])) && isNumber(value, false));
    default:
      return true;
  }
}

function isNumber(value: unknown, whole: boolean): boolean {
  if (typeof value === "boolean") return true;
  if (value instanceof ExactNumber) return !whole || /^-?\d+$/.test(value.text);
  const number = typeof value === "string" ? (value.trim() === "" ? Number.NaN : Number(value)) : value;
  return typeof number === "number" && Number.isFinite(number) && (!whole || Number.isInteger(number));
}
