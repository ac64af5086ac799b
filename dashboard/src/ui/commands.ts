// Requests as commands for a shell.

type Request = { method?: string; path: string; body?: unknown; file?: { name: string; type: string } };

/** A word for a POSIX shell. */
export function quoted(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A request as a curl command; the key comes from the environment and is never written out. */
export function curl(origin: string, { method = "GET", path, body, file }: Request): string {
  const parts = [`curl ${method === "GET" ? "" : `-X ${method} `}${quoted(origin + path)}`];
  parts.push('-H "Authorization: Bearer $MAINSPRING_API_KEY"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  if (file) parts.push(`-H ${quoted(`Content-Type: ${file.type}`)}`, `--data-binary @${quoted(file.name)}`);
  return parts.join(" \\\n  ");
}

/** A value as Python source. */
export function pythonLiteral(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "object") {
    const plain = Object.entries(value as Record<string, unknown>);
    return `{${plain.map(([key, one]) => `${JSON.stringify(key)}: ${pythonLiteral(one)}`).join(", ")}}`;
  }
  return JSON.stringify(String(value));
}
