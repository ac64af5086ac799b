import { expect, test } from "vitest";
import { type Ask, PART, readKnown, type Verdict, verifyInParts } from "./verify";

const HASH = "a".repeat(64);

/** A log of so many rows, of which one may be broken; notes what it was asked. */
function log(rows: number, broken?: number) {
  const asked: Parameters<Ask>[0][] = [];
  const ask: Ask = (part) => {
    asked.push(part);
    const last = part.last ?? rows;
    const bad = broken !== undefined && broken >= part.first && broken <= last;
    const verdict: Verdict = {
      ok: !bad,
      checked: (bad ? broken - 1 : last) - part.first + 1,
      broken: bad ? broken : null,
      reason: bad ? `row ${broken} was changed` : "",
      keyed: part.first > 1,
      last: { n: bad ? broken - 1 : last, hash: HASH, at: "2026-01-01T00:00:00.000Z" },
    };
    return Promise.resolve(verdict);
  };
  return { ask, asked };
}

test("a long log is checked in parts, and only the last part has no end", async () => {
  const { ask, asked } = log(2 * PART + 1);
  const told: number[] = [];
  const verdict = await verifyInParts(2 * PART + 1, null, ask, (checked) => told.push(checked));
  expect(asked).toEqual([{ first: 1, last: PART }, { first: PART + 1, last: 2 * PART }, { first: 2 * PART + 1 }]);
  expect(told).toEqual([PART, 2 * PART, 2 * PART + 1]);
  expect(verdict).toMatchObject({ ok: true, checked: 2 * PART + 1, last: { n: 2 * PART + 1 } });
});

test("a log is signed only if all of its parts are", async () => {
  expect((await verifyInParts(PART + 5, null, log(PART + 5).ask)).keyed).toBe(false);
});

test("the first broken row ends the check", async () => {
  const { ask, asked } = log(3 * PART, PART + 7);
  const verdict = await verifyInParts(3 * PART, null, ask);
  expect(asked).toHaveLength(2);
  expect(verdict).toMatchObject({ ok: false, broken: PART + 7, checked: PART + 6 });
});

test("a known head is asked for in its part and in the last one", async () => {
  const { ask, asked } = log(3 * PART);
  await verifyInParts(3 * PART, { n: PART + 2, hash: HASH }, ask);
  expect(asked.map((part) => part.knownN)).toEqual([undefined, PART + 2, PART + 2]);
});

test("an empty log is checked with one request", async () => {
  const { ask, asked } = log(0);
  await verifyInParts(0, null, ask);
  expect(asked).toEqual([{ first: 1 }]);
});

test("a head is read as the command prints it", () => {
  expect(readKnown(` 1041:${HASH} `)).toEqual({ n: 1041, hash: HASH });
  for (const text of ["", "1041", `0:${HASH}`, `1041:${HASH}0`, `x:${HASH}`]) expect(readKnown(text)).toBeNull();
});
