// Groups of dead letters in words, and the filter of the page.

export type Filter = { name?: string; queue?: string; error?: string; text?: string };

/** The filter in the address. */
export function filterOf(search: Record<string, string | undefined>): Filter {
  const filter: Filter = {};
  for (const key of ["name", "queue", "error", "text"] as const) {
    const value = search[key]?.trim();
    if (value) filter[key] = value;
  }
  return filter;
}

/** How many failed in the last hours, in words. */
export function trendWords(trend: readonly number[]): string {
  const sum = trend.reduce((total, one) => total + one, 0);
  return `${sum} failed in the last ${trend.length} hours, ${trend.at(-1) ?? 0} of them in this one`;
}
