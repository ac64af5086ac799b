// The slots of a worker as small squares, and the jobs that they run.
import { Link } from "@tanstack/react-router";
import { Duration } from "../../ui/Time";
import type { Worker } from "./words";

const SQUARES = 60;
const NAMED = 8;

/** One square for each slot; a filled one is a link to the job that it runs. */
export function Slots({ worker }: { worker: Worker }) {
  const running = worker.slots.slice(0, SQUARES);
  const unnamed = Math.max(0, Math.min(worker.running, SQUARES) - running.length);
  const free = Math.max(0, Math.min(worker.concurrency, SQUARES) - running.length - unnamed);
  return (
    <div className="slots">
      <div
        className="slots-squares"
        role="group"
        aria-label={`${worker.running} of ${worker.concurrency} slots in use`}
      >
        {running.map((slot) => (
          <Link
            key={slot.jobId}
            to="/jobs/$id"
            params={{ id: slot.jobId }}
            className="slot slot-busy"
            aria-label={`${slot.name}, queue ${slot.queue}`}
            title={`${slot.name} (${slot.queue})`}
          />
        ))}
        {Array.from({ length: unnamed }, (_, index) => (
          <span key={`busy${index}`} className="slot slot-busy" />
        ))}
        {Array.from({ length: free }, (_, index) => (
          <span key={`free${index}`} className="slot" />
        ))}
        {worker.concurrency > SQUARES && <span className="muted">of {worker.concurrency}</span>}
      </div>
      {running.length > 0 && (
        <ul className="slots-jobs">
          {running.slice(0, NAMED).map((slot) => (
            <li key={slot.jobId}>
              <Link to="/jobs/$id" params={{ id: slot.jobId }} className="wrap">
                {slot.name}
              </Link>{" "}
              <span className="muted">
                <Duration since={slot.since} />
              </span>
            </li>
          ))}
          {worker.running > NAMED && <li className="muted">and {worker.running - NAMED} more</li>}
        </ul>
      )}
    </div>
  );
}
