// The search parameters of an address: read as text, changed one by one, and kept by reload, back and forward.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { Search } from "./routes";

export type Change = (change: Record<string, string | null | undefined>, options?: { replace?: boolean }) => void;

/** The search parameters, and a function that changes some of them; null or an empty text removes one. */
export function useParameters(): [Search, Change] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = useCallback<Change>(
    (changes, options) => {
      void navigate({
        to: ".",
        search: (before: Search) => merge(before, changes),
        replace: options?.replace ?? false,
      } as never);
    },
    [navigate],
  );
  return [search, change];
}

export function merge(before: Search, changes: Record<string, string | null | undefined>): Search {
  const after: Search = { ...before };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") delete after[key];
    else after[key] = value;
  }
  return after;
}
