import type { ButtonHTMLAttributes, ReactNode } from "react";
import "./controls.css";

type Look = "plain" | "primary" | "danger" | "quiet";
type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: Look;
  small?: boolean;
  busy?: boolean;
  children: ReactNode;
};

/** A button. While it is busy it cannot be pressed again. */
export function Button({ look = "plain", small, busy, className = "", children, ...rest }: Props) {
  const classes = `button ${look === "plain" ? "" : `button-${look}`} ${small ? "button-small" : ""} ${className}`;
  return (
    <button type="button" {...rest} className={classes} disabled={busy || rest.disabled} aria-busy={busy || undefined}>
      {children}
    </button>
  );
}
