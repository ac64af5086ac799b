// Instants as the browser's own date and time fields write them: in the viewer's zone, to the minute.

/** "2030-01-01T09:00" in the viewer's zone. */
export function toLocal(ms: number): string {
  const date = new Date(ms);
  const pad = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

/** The instant of such a text; null while it is not one. */
export function fromLocal(text: string): string | null {
  const ms = text ? new Date(text).getTime() : Number.NaN;
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}
