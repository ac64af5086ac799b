// A text that is shown once: a new key, or a secret that the service has made.
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";

export function Once({
  title,
  text,
  children,
  onClose,
}: {
  title: string;
  text: string;
  children?: string;
  onClose: () => void;
}) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I have stored it
        </Button>
      }
    >
      <div className="stack">
        <p>This is shown once. It cannot be read again, only replaced.</p>
        <div className="settings-once">
          <code data-testid="once">{text}</code>
          <CopyButton text={text} />
        </div>
        {children && <p className="muted">{children}</p>}
      </div>
    </Dialog>
  );
}
