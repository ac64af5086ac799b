// Keyboard shortcuts: one listener, a list that the help shows, and nothing while one types.
import { useEffect, useRef } from "react";

export type Shortcut = { keys: string; what: string; run: () => void };
const stack: Shortcut[][] = [];
let pending = "";
let timer: number | undefined;

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, textarea, select, [contenteditable=true], dialog[open]");
}

/** Whether the key presses what has the focus: Enter on a button or a link is never a shortcut. */
function pressing(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" && event.key !== " ") return false;
  return !!(event.target as HTMLElement | null)?.closest?.("a[href], button, summary");
}

function press(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || pressing(event)) return;
  const tried = pending ? `${pending} ${event.key}` : event.key;
  const all = stack.flat();
  const found = all.findLast((one) => one.keys === tried);
  window.clearTimeout(timer);
  pending = "";
  if (found) {
    event.preventDefault();
    found.run();
  } else if (all.some((one) => one.keys.startsWith(`${tried} `))) {
    pending = tried;
    timer = window.setTimeout(() => {
      pending = "";
    }, 1200);
  }
}

/** Offer shortcuts for as long as the component is drawn. Keys are as in `KeyboardEvent.key`; "g j" is one after the other. */
export function useShortcuts(shortcuts: Shortcut[]): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  const names = shortcuts.map((one) => `${one.keys}=${one.what}`).join(",");
  useEffect(() => {
    const offered = latest.current.map((one, index) => ({ ...one, run: () => latest.current[index]?.run() }));
    if (stack.length === 0) window.addEventListener("keydown", press);
    stack.push(offered);
    return () => {
      stack.splice(stack.indexOf(offered), 1);
      if (stack.length === 0) window.removeEventListener("keydown", press);
    };
    // The names stand for the list: what a shortcut does is read from `latest`.
  }, [names]);
}

/** All shortcuts that are offered now. */
export function offeredShortcuts(): Shortcut[] {
  return stack.flat();
}
