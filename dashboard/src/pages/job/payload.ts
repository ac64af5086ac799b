/** The value of a typed payload; nothing is null. */
export function readPayload(text: string): { value: unknown; error?: string } {
  if (text.trim() === "") return { value: null };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { value: null, error: 'This is not JSON. Put text in quotes: "yes".' };
  }
}
