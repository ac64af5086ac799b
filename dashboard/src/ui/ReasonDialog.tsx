// A confirmation before something is changed: what will be done, why, and the same as a call.
import { type ReactNode, useState } from "react";
import { Button } from "./Button";
import { type Call, CallButton } from "./Call";
import { Dialog } from "./Dialog";
import { TextField } from "./Field";

type ReasonProps = {
  title: string;
  /** What will be done, with numbers and names. */
  children: ReactNode;
  /** The word on the button. */
  verb: string;
  danger?: boolean;
  busy?: boolean;
  /** Why it was refused. The dialog is all that can be read and used while it is open: a toast would be behind it. */
  error?: string;
  /** Ask for a reason; `optional` lets it be empty. */
  reason?: "required" | "optional" | "none";
  /** The same as curl and Python, with the reason as far as it is typed. */
  call?: (reason: string) => Call | Call[];
  onClose: () => void;
  onConfirm: (reason: string) => void;
};

/** A confirmation that says what will be done, and asks why. */
export function ReasonDialog({ reason = "optional", ...props }: ReasonProps) {
  const [text, setText] = useState("");
  // An error of before it was opened is of another confirmation.
  const [sent, setSent] = useState(false);
  const missing = reason === "required" && text.trim() === "";
  return (
    <Dialog
      title={props.title}
      onClose={props.onClose}
      onSubmit={() => {
        if (missing) return;
        setSent(true);
        props.onConfirm(text.trim());
      }}
      footer={
        <>
          {props.call && <CallButton calls={props.call(text.trim() || "…")} />}
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
        {sent && props.error && (
          <p className="field-error" role="alert">
            {props.error}
          </p>
        )}
      </div>
    </Dialog>
  );
}
