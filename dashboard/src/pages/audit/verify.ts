// Checking the chain of the audit log in parts, so that no request reads a long log at once.
import type { Schemas } from "../../api/client";

export type Verdict = Schemas["AuditVerdict"];
export type Known = { n: number; hash: string };
export type Ask = (part: { first: number; last?: number; knownN?: number; knownHash?: string }) => Promise<Verdict>;

/** The rows that one request checks. */
export const PART = 1000;

/** Check all rows up to the newest; the last part also checks the head. `tell` gets the rows that were checked. */
export async function verifyInParts(
  newest: number,
  known: Known | null,
  ask: Ask,
  tell: (checked: number) => void = () => undefined,
): Promise<Verdict> {
  let checked = 0;
  let keyed = true;
  for (let first = 1; ; first += PART) {
    const isFinal = first + PART > newest;
    const here = known !== null && (isFinal || (known.n >= first && known.n < first + PART));
    const verdict = await ask({
      first,
      ...(isFinal ? {} : { last: first + PART - 1 }),
      ...(here ? { knownN: known.n, knownHash: known.hash } : {}),
    });
    checked += verdict.checked;
    keyed &&= verdict.keyed;
    tell(checked);
    if (!verdict.ok || isFinal) return { ...verdict, checked, keyed };
  }
}

/** A head of the log as `mainspring audit head` prints it, ROW:HASH. */
export function readKnown(text: string): Known | null {
  const found = /^\s*([1-9][0-9]{0,15}):([0-9a-f]{64})\s*$/.exec(text);
  return found ? { n: Number(found[1]), hash: found[2] ?? "" } : null;
}
