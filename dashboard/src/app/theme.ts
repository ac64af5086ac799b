// Light, dark, or as the system is, followed live.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "mainspring.theme";
const watchers = new Set<() => void>();
const dark = typeof window.matchMedia === "function" ? window.matchMedia("(prefers-color-scheme: dark)") : null;

export function chosenTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

function apply(): void {
  const chosen = chosenTheme();
  document.documentElement.dataset.theme = chosen === "system" ? (dark?.matches ? "dark" : "light") : chosen;
}

export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A browser that keeps nothing still shows the theme until the page is closed.
  }
  apply();
  for (const watcher of watchers) watcher();
}

export function startTheme(): void {
  apply();
  dark?.addEventListener("change", apply);
}

export function useTheme(): Theme {
  return useSyncExternalStore((watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, chosenTheme);
}
