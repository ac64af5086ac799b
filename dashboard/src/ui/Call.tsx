// "Show me the call": what a page shows or does, as curl and as Python, to take into a script.
import { useState } from "react";
import { prefix } from "../api/client";
import { CopyButton } from "./Copy";
import { Dialog } from "./Dialog";
import { Tabs } from "./Field";
import { Button } from "./Button";
import { curl } from "./commands";

export type Call = {
  title?: string;
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path with its query, from /api on. */
  path: string;
  body?: unknown;
  /** In place of a body: a file whose text is sent. */
  file?: { name: string; type: string };
  /** The same with the Python library, with `scheduler` as the Scheduler. */
  python?: string;
};

export function CallButton({ calls, label = "Show me the call" }: { calls: Call | Call[]; label?: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {label}
      </Button>
      {open && <CallDialog calls={Array.isArray(calls) ? calls : [calls]} onClose={() => setOpen(false)} />}
    </>
  );
}

function CallDialog({ calls, onClose }: { calls: Call[]; onClose: () => void }) {
  const [tab, setTab] = useState<"curl" | "python">("curl");
  const origin = `${window.location.origin}${prefix}`;
  return (
    <Dialog title="The call behind this" onClose={onClose} wide>
      <div className="stack">
        <Tabs
          label="Language"
          value={tab}
          options={[
            ["curl", "curl"],
            ["python", "Python"],
          ]}
          onChange={setTab}
        />
        {calls.map((call) => {
          const text = tab === "curl" ? curl(origin, call) : (call.python ?? pythonOverHttp(origin, call));
          return (
            <div key={`${call.method}${call.path}${call.title}`}>
              <div className="row spread">
                <h3>{call.title ?? `${call.method ?? "GET"} ${call.path.split("?")[0]}`}</h3>
                <CopyButton text={text} />
              </div>
              <pre className="empty-command">{text}</pre>
            </div>
          );
        })}
        <p className="muted">
          {tab === "curl"
            ? "MAINSPRING_API_KEY is an API key; a service that was started without keys needs none."
            : "scheduler is a mainspring.Scheduler on the same database, inside an async function."}
        </p>
      </div>
    </Dialog>
  );
}

function pythonOverHttp(origin: string, call: Call): string {
  return `# This has no verb of its own in the library; over HTTP:\n# ${curl(origin, call).replaceAll("\n", "\n# ")}`;
}
