// The lines of two logs beside each other: what only one of them has.

export type Line = { text: string; side: "both" | "before" | "after" };
const MOST = 400;

/** A diff of lines by their longest common part; of long logs, the last lines. */
export function diffLines(before: readonly string[], after: readonly string[]): Line[] {
  const one = before.slice(-MOST);
  const other = after.slice(-MOST);
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1)
    for (let j = other.length - 1; j >= 0; j -= 1)
      lengths[i * width + j] =
        one[i] === other[j]
          ? (lengths[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(lengths[(i + 1) * width + j] ?? 0, lengths[i * width + j + 1] ?? 0);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      lines.push({ text: one[i] ?? "", side: "both" });
      i += 1;
      j += 1;
    } else if (
      j >= other.length ||
      (i < one.length && (lengths[(i + 1) * width + j] ?? 0) >= (lengths[i * width + j + 1] ?? 0))
    ) {
      lines.push({ text: one[i] ?? "", side: "before" });
      i += 1;
    } else {
      lines.push({ text: other[j] ?? "", side: "after" });
      j += 1;
    }
  }
  return lines;
}
