// Matching of what is typed into the palette.
export type Place = { title: string; hint: string; run: () => void };

/** The places whose title has the letters in their order; those that begin with the text come first. */
export function matching<T extends { title: string }>(places: readonly T[], text: string): T[] {
  const wanted = text.toLowerCase();
  const rank = (title: string) => {
    const lower = title.toLowerCase();
    if (lower.startsWith(wanted)) return 0;
    if (lower.includes(wanted)) return 1;
    return inOrder(lower, wanted) ? 2 : 3;
  };
  return places.filter((one) => rank(one.title) < 3).toSorted((one, other) => rank(one.title) - rank(other.title));
}

function inOrder(text: string, letters: string): boolean {
  let at = 0;
  for (const letter of text) if (letter === letters[at]) at += 1;
  return at >= letters.length;
}
