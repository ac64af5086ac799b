import { useState } from "react";
import { Button } from "./Button";

/** Copy text; plain HTTP has no clipboard of its own, so the old way is tried there. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // fall through to the old way
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "visually-hidden";
  // Inside an open dialog, only its own elements can have the focus.
  const place = document.querySelector("dialog[open]") ?? document.body;
  const before = document.activeElement as HTMLElement | null;
  place.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  before?.focus?.();
  return copied;
}

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    const copied = await copyText(typeof text === "string" ? text : text());
    setSaid(copied ? "Copied" : "Select and copy it by hand");
    window.setTimeout(() => setSaid(""), 2000);
  };
  return (
    <Button small look="quiet" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </Button>
  );
}
