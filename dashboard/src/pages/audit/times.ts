// Instants in fields of the browser's own kind, which have the viewer's time and no zone.

/** The value of a field datetime-local for an instant; empty where it is none. */
export function toLocal(instant: string | null | undefined): string {
  const at = instant ? new Date(instant) : null;
  if (!at || Number.isNaN(at.getTime())) return "";
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The instant of such a field; null where it is empty or none. */
export function fromLocal(value: string): string | null {
  const at = value ? new Date(value) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : null;
}
