import { type Counts, countWords, endedWords, segments } from "./graph";

/** Jobs by state as a bar, with the numbers for all who cannot see it. */
export function CountBar({ counts, atLeast = false, words }: { counts: Counts; atLeast?: boolean; words?: boolean }) {
  const parts = segments(counts);
  const told = countWords(counts, atLeast);
  return (
    <span className="count-bar-around">
      <span className="count-bar" role="img" aria-label={told} title={told}>
        {parts.map((one) => (
          <span
            key={one.state}
            className="count-bar-part"
            style={{ flexGrow: one.value, background: `var(--${one.state}, var(--muted))` }}
          />
        ))}
      </span>
      {words && <span className="muted count-bar-words">{parts.length ? endedWords(counts, atLeast) : ""}</span>}
    </span>
  );
}
