import { useEffect, useState } from "react";

/** A value that follows another one when that has been still for a moment. Values are compared by their JSON. */
export function useDebounced<T>(value: T, ms = 350): T {
  const [settled, setSettled] = useState(value);
  const text = JSON.stringify(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(JSON.parse(text) as T), ms);
    return () => window.clearTimeout(timer);
  }, [text, ms]);
  return settled;
}
