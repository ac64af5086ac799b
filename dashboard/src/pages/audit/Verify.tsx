// "Verify the chain": the rows are checked part by part, and the verdict names the first row that is broken.
import { useState } from "react";
import { api, Problem, unwrap } from "../../api/client";
import { count, plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { CallButton } from "../../ui/Call";
import { CopyButton } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { TextField } from "../../ui/Field";
import { Moment } from "../../ui/Time";
import { readKnown, type Verdict, verifyInParts } from "./verify";

type State = { running: boolean; checked: number; of: number; verdict: Verdict | null; error: string };
const IDLE: State = { running: false, checked: 0, of: 0, verdict: null, error: "" };

async function newestRow(): Promise<number> {
  const page = await unwrap(api.GET("/api/audit", { params: { query: { limit: 1 } } }));
  return page.data[0]?.n ?? 0;
}

/** The button of the page, and the dialog that it opens. */
export function VerifyButton() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button small look="primary" onClick={() => setOpen(true)}>
        Verify the chain
      </Button>
      {open && <VerifyDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function VerifyDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [state, setState] = useState<State>(IDLE);
  const known = readKnown(text);
  const wrong = text.trim() !== "" && !known;
  const run = async () => {
    setState({ ...IDLE, running: true });
    try {
      const newest = await newestRow();
      setState((before) => ({ ...before, of: newest }));
      const verdict = await verifyInParts(
        newest,
        known,
        async (part) => (await unwrap(api.GET("/api/audit/verify", { params: { query: part } }))).data,
        (checked) => setState((before) => ({ ...before, checked })),
      );
      setState((before) => ({ ...before, running: false, verdict }));
    } catch (error) {
      setState({ ...IDLE, error: error instanceof Problem ? error.message : String(error) });
    }
  };
  return (
    <Dialog
      title="Verify the chain"
      onClose={onClose}
      onSubmit={() => void run()}
      footer={
        <>
          <CallButton
            calls={{
              path: "/api/audit/verify",
              python: "verdict = await scheduler.audit.verify()\nprint(verdict.ok, verdict.reason)",
            }}
          />
          <Button look="primary" type="submit" busy={state.running} disabled={wrong}>
            {state.verdict ? "Verify again" : "Verify"}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p className="muted">
          Each row has a hash of itself and of the row before. A row that was edited, removed or added breaks the chain.
        </p>
        <TextField
          label="A head that you kept elsewhere (optional)"
          placeholder="1041:9f2c…"
          className="mono"
          value={text}
          maxLength={100}
          onChange={(event) => setText(event.target.value)}
          hint="The log must contain it: so a log that was put back or written anew is found."
          error={wrong ? "A head is ROW:HASH, as an earlier verdict or `mainspring audit head` shows it." : undefined}
        />
        <div aria-live="polite">
          {state.running && (
            <p className="audit-progress">
              Checked {count(state.checked)} of {plural(state.of, "row")} …
            </p>
          )}
          {state.error && <p className="field-error">{state.error}</p>}
          {state.verdict && <Shown verdict={state.verdict} />}
        </div>
      </div>
    </Dialog>
  );
}

function Shown({ verdict }: { verdict: Verdict }) {
  const head = `${verdict.last.n}:${verdict.last.hash}`;
  return (
    <div className={`audit-verdict ${verdict.ok ? (verdict.keyed ? "audit-good" : "audit-plain") : "audit-bad"}`}>
      <h3>{verdict.ok ? `${plural(verdict.checked, "row")} in order` : `Broken: ${verdict.reason}`}</h3>
      <p>{words(verdict)}</p>
      {verdict.last.n > 0 && (
        <div>
          <div className="row spread">
            <span className="muted">
              {verdict.ok ? "The head" : "The last row in order"}, written <Moment at={verdict.last.at} />
            </span>
            <CopyButton text={head} label="Copy the head" />
          </div>
          <code className="wrap">{head}</code>
        </div>
      )}
    </div>
  );
}

function words(verdict: Verdict): string {
  if (!verdict.ok)
    return `The ${plural(verdict.checked, "row")} before it are in order. Find out which program has written to the database.`;
  if (verdict.keyed) return "All of them are signed with a key that is not in the database. Keep the head elsewhere.";
  return "Not all of them are signed: a program that can write to the database could write a whole new log. Set MAINSPRING_AUDIT_KEYS, and keep the head elsewhere.";
}
