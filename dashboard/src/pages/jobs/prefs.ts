// What this browser remembers of the page of jobs: columns, density, page size, and named views.
import { useState } from "react";

export const COLUMNS = [
  "state",
  "name",
  "id",
  "queue",
  "priority",
  "when",
  "created",
  "tries",
  "took",
  "worker",
  "detail",
  "tags",
] as const;
export type ColumnName = (typeof COLUMNS)[number];
export const SIZES = ["50", "100"] as const;
export type Density = "dense" | "roomy";
export type View = { name: string; query: Record<string, string> };
export type Prefs = { columns: ColumnName[]; density: Density; size: (typeof SIZES)[number]; views: View[] };

const PLACE = "mainspring.jobs";
const MOST_VIEWS = 50;
export const DEFAULTS: Prefs = {
  columns: ["state", "name", "id", "queue", "priority", "when", "tries", "took", "worker", "detail"],
  density: "dense",
  size: "50",
  views: [],
};

/** Read what is stored; whatever does not fit is left out, so that no old or foreign value spoils the page. */
export function readPrefs(text: string | null): Prefs {
  let stored: unknown;
  try {
    stored = JSON.parse(text ?? "null");
  } catch {
    return DEFAULTS;
  }
  if (typeof stored !== "object" || stored === null) return DEFAULTS;
  const { columns, density, size, views } = stored as Record<string, unknown>;
  const chosen = Array.isArray(columns) ? COLUMNS.filter((one) => columns.includes(one)) : [];
  return {
    columns: chosen.length > 0 ? chosen : DEFAULTS.columns,
    density: density === "roomy" ? "roomy" : "dense",
    size: size === "100" ? "100" : "50",
    views: Array.isArray(views) ? views.filter(isView).slice(0, MOST_VIEWS) : [],
  };
}

function isView(value: unknown): value is View {
  if (typeof value !== "object" || value === null) return false;
  const { name, query } = value as Record<string, unknown>;
  if (typeof name !== "string" || name === "" || typeof query !== "object" || query === null) return false;
  return Object.values(query).every((one) => typeof one === "string");
}

/** The views with one more; one of the same name is replaced. */
export function withView(views: View[], view: View): View[] {
  return [...views.filter((one) => one.name !== view.name), view].slice(-MOST_VIEWS);
}

export function usePrefs(): [Prefs, (change: Partial<Prefs>) => void] {
  const [prefs, setPrefs] = useState<Prefs>(() => readPrefs(stored()));
  const change = (changes: Partial<Prefs>) => {
    const next = { ...prefs, ...changes };
    setPrefs(next);
    try {
      window.localStorage.setItem(PLACE, JSON.stringify(next));
    } catch {
      // A browser that stores nothing forgets it with the page.
    }
  };
  return [prefs, change];
}

function stored(): string | null {
  try {
    return window.localStorage.getItem(PLACE);
  } catch {
    return null;
  }
}
