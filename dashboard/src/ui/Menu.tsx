// Menus and popovers: the browser's own popover, placed beside its button.
import { type ReactNode, useId, useRef } from "react";
import { Button } from "./Button";
import "./Menu.css";

type PopoverProps = {
  label: ReactNode;
  name?: string;
  children: ReactNode | ((close: () => void) => ReactNode);
  look?: "plain" | "quiet";
  small?: boolean;
  role?: string;
};

/** A button that opens a small panel below itself. `name` is its accessible name, where the label is a sign. */
export function Popover({ label, name, children, look = "plain", small, role }: PopoverProps) {
  const id = useId();
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLSpanElement>(null);
  const close = () => panel.current?.hidePopover?.();
  const place = () => {
    const at = button.current?.getBoundingClientRect();
    const box = panel.current;
    if (!at || !box) return;
    const width = box.offsetWidth;
    const height = box.offsetHeight;
    box.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 8))}px`;
    const below = at.bottom + 4;
    box.style.top = `${below + height > window.innerHeight && at.top > height ? at.top - height - 4 : below}px`;
  };
  return (
    <>
      <span ref={button} className="popover-anchor">
        <Button
          look={look}
          small={small}
          popoverTarget={id}
          aria-haspopup={role === "menu" ? "menu" : "dialog"}
          aria-label={name}
        >
          {label}
        </Button>
      </span>
      <div
        ref={panel}
        id={id}
        popover="auto"
        role={role}
        aria-label={name}
        className="popover"
        onToggle={(event) => {
          if (event.newState !== "open") return;
          place();
          panel.current?.querySelector<HTMLElement>("[role=menuitem], input, select, button, a")?.focus();
        }}
      >
        {typeof children === "function" ? children(close) : children}
      </div>
    </>
  );
}

export type MenuItem =
  { label: ReactNode; onSelect: () => void; danger?: boolean; hint?: ReactNode } | null | false | undefined;

/** A menu of actions; arrow keys move in it. Items that the caller may not use are left out by the page. */
export function Menu({
  label,
  name,
  items,
  small,
  look,
}: {
  label: ReactNode;
  name?: string;
  items: MenuItem[];
  small?: boolean;
  look?: "plain" | "quiet";
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const all = [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[(at + step + all.length) % all.length]?.focus();
  };
  return (
    <Popover label={label} name={name} small={small} look={look} role="menu">
      {(close) => (
        <div
          ref={list}
          className="menu"
          role="presentation"
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              move(event.key === "ArrowDown" ? 1 : -1);
            }
          }}
        >
          {items
            .filter((one) => !!one)
            .map((item, index) => (
              <button
                key={index}
                type="button"
                role="menuitem"
                className={`menu-item ${item.danger ? "menu-item-danger" : ""}`}
                onClick={() => {
                  close();
                  item.onSelect();
                }}
              >
                <span>{item.label}</span>
                {item.hint && <span className="muted">{item.hint}</span>}
              </button>
            ))}
        </div>
      )}
    </Popover>
  );
}
