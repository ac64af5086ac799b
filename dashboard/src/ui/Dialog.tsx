// Dialogs: the browser's own <dialog>, which keeps the focus inside, closes on Escape and returns the focus.
import { type FormEvent, type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { Button } from "./Button";
import "./Dialog.css";

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  footer?: ReactNode;
  onSubmit?: () => void;
};

const FIRST_FIELD = ".dialog-body :is(input, select, textarea):not([type=checkbox], [type=radio], :disabled)";

/** A dialog; it is open for as long as it is drawn. With `onSubmit` it is a form. */
export function Dialog({ title, onClose, children, wide, footer, onSubmit }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // A layout effect: it is undone while the dialog is in the document. A dialog that is closed later returns no focus.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) {
      dialog.showModal?.();
      // The browser gives the focus to the first button, which closes; React's autoFocus comes before the dialog shows.
      dialog.querySelector<HTMLElement>(FIRST_FIELD)?.focus();
    }
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
        // React hands the event of a dialog within this one on to this one.
        if (event.target !== ref.current) return;
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
