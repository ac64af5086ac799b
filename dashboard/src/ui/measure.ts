import { ExactNumber } from "../lib/json";

/** The words that the service puts in place of values that the viewer must not see. */
export const HIDDEN = /^\[(redacted|encrypted)\b.*\]$/;

/** The size of a value as text, its number of values, and how many of them are hidden. Deep values need no stack. */
export function measure(value: unknown): { text: number; nodes: number; hidden: number } {
  const size = { text: 0, nodes: 0, hidden: 0 };
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const one = waiting.pop();
    size.nodes += 1;
    if (typeof one === "string") {
      size.text += one.length + 2;
      if (HIDDEN.test(one)) size.hidden += 1;
    } else if (one === null || typeof one !== "object" || one instanceof ExactNumber) {
      size.text += String(one).length;
    } else {
      const entries = Array.isArray(one) ? one : Object.values(one);
      if (!Array.isArray(one)) for (const key of Object.keys(one)) size.text += key.length + 4;
      size.text += entries.length + 2;
      for (const child of entries) waiting.push(child);
    }
  }
  return size;
}
