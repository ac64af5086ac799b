// The frame that the tabs of keys, secrets and calendars share: a list with its call and its button, and dialogs.
import { type ReactNode, useEffect, useRef } from "react";
import { Button } from "../../ui/Button";
import { type Call, CallButton } from "../../ui/Call";
import { Dialog } from "../../ui/Dialog";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Loaded, Panel } from "../../ui/Panel";
import { type Column, Table } from "../../ui/Table";

type ShelfProps<T> = {
  title: string;
  calls: Parameters<typeof CallButton>[0]["calls"];
  /** The words of the button that adds one; none where the viewer may not. */
  add: string | false;
  onAdd: () => void;
  query: Parameters<typeof Loaded<T[]>>[0]["query"];
  caption: string;
  id: (one: T) => string;
  columns: Column<T>[];
  empty: ReactNode;
  /** The dialog that is open. */
  children: ReactNode;
};

export function Shelf<T>({ title, calls, add, onAdd, query, caption, id, columns, empty, children }: ShelfProps<T>) {
  return (
    <Panel
      title={title}
      flush
      actions={
        <>
          <CallButton calls={calls} />
          {add && (
            <Button small look="primary" onClick={onAdd}>
              {add}
            </Button>
          )}
        </>
      }
    >
      <Loaded query={query} rows={4}>
        {(found) => <Table caption={caption} rows={found} id={id} columns={columns} empty={empty} />}
      </Loaded>
      {children}
    </Panel>
  );
}

type Act = { mutate: () => void; isPending: boolean; error: Error | null };
type FormProps = {
  title: string;
  verb: string;
  act: Act;
  disabled?: boolean;
  /** The same as curl and Python. */
  call?: Call;
  onClose: () => void;
  children: ReactNode;
};

/** Fields, a button that sends them, and the refusal. */
export function FormDialog({ title, verb, act, disabled, call, onClose, children }: FormProps) {
  const form = useRef<HTMLDivElement>(null);
  // The refused field may be out of sight in a long form.
  useEffect(() => {
    if (act.error) form.current?.querySelector('[role="alert"]')?.scrollIntoView?.({ block: "center" });
  }, [act.error]);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => act.mutate()}
      footer={
        <>
          {call && <CallButton calls={call} />}
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" busy={act.isPending} disabled={disabled}>
            {verb}
          </Button>
        </>
      }
    >
      <div className="stack" ref={form}>
        {children}
        {act.error && (
          <p className="field-error" role="alert">
            {act.error.message}
          </p>
        )}
      </div>
    </Dialog>
  );
}

/** A question before something goes. */
export function RemoveDialog({ title, verb, act, call, onClose, children }: Omit<FormProps, "disabled">) {
  return (
    <ReasonDialog
      title={title}
      verb={verb}
      danger
      reason="none"
      busy={act.isPending}
      error={act.error?.message}
      call={call && (() => call)}
      onClose={onClose}
      onConfirm={() => act.mutate()}
    >
      {children}
    </ReasonDialog>
  );
}
