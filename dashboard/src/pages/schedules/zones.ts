/** The time zones that the browser knows, to be offered while one types. */
export const ZONES: readonly string[] = (() => {
  try {
    return ["UTC", ...Intl.supportedValuesOf("timeZone")];
  } catch {
    return ["UTC"];
  }
})();
