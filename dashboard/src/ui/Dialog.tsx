// Dialogs: the browser's own <dialog>, which keeps the focus inside, closes on Escape and returns the focus.
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button } from "./Button";
import { TextField } from "./Field";
import "./Dialog.css";

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  footer?: ReactNode;
  onSubmit?: () => void;
};

/** A dialog; it is open for as long as it is drawn. With `onSubmit` it is a form. */
export function Dialog({ title, onClose, children, wide, footer, onSubmit }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal?.();
    return () => dialog?.close?.();
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit?.();
  };
  const content = (
    <>
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button look="quiet" small aria-label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      <div className="dialog-body">{children}</div>
      {footer && <footer className="dialog-foot">{footer}</footer>}
    </>
  );
  return (
    <dialog
      ref={ref}
      className={`dialog ${wide ? "dialog-wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      {onSubmit ? <form onSubmit={submit}>{content}</form> : content}
    </dialog>
  );
}

type ReasonProps = {
  title: string;
  /** What will be done, with numbers and names. */
  children: ReactNode;
  /** The word on the button. */
  verb: string;
  danger?: boolean;
  busy?: boolean;
  error?: string;
  /** Ask for a reason; `optional` lets it be empty. */
  reason?: "required" | "optional" | "none";
  onClose: () => void;
  onConfirm: (reason: string) => void;
};

/** A confirmation that says what will be done, and asks why. */
export function ReasonDialog({ reason = "optional", ...props }: ReasonProps) {
  const [text, setText] = useState("");
  const missing = reason === "required" && text.trim() === "";
  return (
    <Dialog
      title={props.title}
      onClose={props.onClose}
      onSubmit={() => {
        if (!missing) props.onConfirm(text.trim());
      }}
      footer={
        <>
          <Button onClick={props.onClose}>Keep as it is</Button>
          <Button look={props.danger ? "danger" : "primary"} type="submit" busy={props.busy} disabled={missing}>
            {props.verb}
          </Button>
        </>
      }
    >
      <div className="stack">
        <div>{props.children}</div>
        {reason !== "none" && (
          <TextField
            label={reason === "required" ? "Reason" : "Reason (optional)"}
            hint="It is kept in the audit log and shown wherever the effect is felt."
            value={text}
            maxLength={1000}
            onChange={(event) => setText(event.target.value)}
            autoFocus
          />
        )}
        {props.error && (
          <p className="field-error" role="alert">
            {props.error}
          </p>
        )}
      </div>
    </Dialog>
  );
}
