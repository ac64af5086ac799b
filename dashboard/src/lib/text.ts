// Numbers and names as text.

const whole = new Intl.NumberFormat("en-GB");

/** A count with separators; a count that was capped has a plus. */
export function count(value: number | null | undefined, capped = false): string {
  return value === null || value === undefined ? "–" : `${whole.format(value)}${capped ? "+" : ""}`;
}

/** "1 job", "12 jobs". */
export function plural(value: number, one: string, many = `${one}s`, capped = false): string {
  return `${count(value, capped)} ${value === 1 && !capped ? one : many}`;
}

/** How often something happens, as exact as a reader needs: "120 per minute", "2.5 per minute", "12 per hour". */
export function rate(perMinute: number | null | undefined): string {
  if (perMinute === null || perMinute === undefined || Number.isNaN(perMinute)) return "–";
  if (perMinute <= 0) return "none";
  if (perMinute >= 10) return `${whole.format(Math.round(perMinute))} per minute`;
  if (perMinute >= 1) return `${Number(perMinute.toFixed(1))} per minute`;
  const perHour = Math.round(perMinute * 60);
  return perHour >= 1 ? `${perHour} per hour` : "under 1 per hour";
}

/** A text that people typed, as a sentence: with one full stop. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;
}

/** Bytes as text. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** The name of a handler; those of Mainspring itself have words. */
export function shownName(name: string): string {
  return (
    {
      "mainspring:http": "Webhook",
      "mainspring:email": "Email",
      "mainspring:flow": "Flow",
      "mainspring:batch": "Batch",
    }[name] ??
    (name || "(no name)")
  );
}

/** The last part of an id, enough to recognise it. */
export function shortId(id: string): string {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}
