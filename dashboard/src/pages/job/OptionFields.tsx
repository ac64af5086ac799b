import { Select, TextField } from "../../ui/Field";
import { viewerZone } from "../../lib/time";
import { optionErrors, type Options } from "./options";

type Props = {
  options: Options;
  onChange: (options: Options) => void;
  /** The queue and priority if none is given. */
  usual?: { queue?: string; priority?: number };
  queues?: readonly string[];
  refused?: (field: string) => string | undefined;
  dedupe?: boolean;
};

/** When a job runs, how urgent it is, where, and under which key. */
export function OptionFields({ options, onChange, usual, queues, refused, dedupe = true }: Props) {
  const errors = optionErrors(options);
  const set = (change: Partial<Options>) => onChange({ ...options, ...change });
  return (
    <div className="data-fields">
      <Select
        label="When"
        value={options.when}
        options={[
          ["now", "At once"],
          ["delay", "After a delay"],
          ["at", "At a time"],
        ]}
        onChange={(event) => set({ when: event.target.value as Options["when"] })}
      />
      {options.when === "delay" && (
        <TextField
          label="Delay"
          value={options.delay}
          placeholder="5m"
          error={errors.delay ?? refused?.("delay")}
          onChange={(event) => set({ delay: event.target.value })}
        />
      )}
      {options.when === "at" && (
        <TextField
          label="Run at"
          type="datetime-local"
          step="1"
          value={options.at}
          hint={`In your zone, ${viewerZone}.`}
          error={errors.at ?? refused?.("runAt")}
          onChange={(event) => set({ at: event.target.value })}
        />
      )}
      <Select
        label="Priority"
        value={options.priority}
        options={[
          ["", usual?.priority ? `${usual.priority}, as usual` : "As usual"],
          ...Array.from({ length: 10 }, (_, n): [string, string] => [
            String(n + 1),
            n === 0 ? "1, most urgent" : n === 9 ? "10, least urgent" : String(n + 1),
          ]),
        ]}
        onChange={(event) => set({ priority: event.target.value })}
      />
      <TextField
        label="Queue"
        value={options.queue}
        placeholder={usual?.queue ?? "default"}
        options={queues}
        maxLength={200}
        error={refused?.("queue")}
        onChange={(event) => set({ queue: event.target.value })}
      />
      {dedupe && (
        <TextField
          label="Dedupe key"
          value={options.dedupeKey}
          maxLength={200}
          hint="While a job with this key waits or runs, no second one is created."
          error={refused?.("dedupeKey")}
          onChange={(event) => set({ dedupeKey: event.target.value })}
        />
      )}
      <TextField
        label="Tags"
        value={options.tags}
        hint="Separated by commas."
        error={refused?.("tags")}
        onChange={(event) => set({ tags: event.target.value })}
      />
    </div>
  );
}
