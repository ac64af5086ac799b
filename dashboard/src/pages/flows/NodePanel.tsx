// One node of a flow: what it waits for, its jobs by state, and some of them.
import { Link } from "@tanstack/react-router";
import { count } from "../../lib/text";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Loaded, Panel } from "../../ui/Panel";
import { colour, glyph } from "../../ui/states";
import { Duration, Time } from "../../ui/Time";
import { useNodeJobs } from "./flows";
import { type Box, type Flow, type Line, segments, total, waitWords } from "./graph";
import { BoxBadge } from "./NodeTable";

type Props = { flow: Flow; box: Box; lines: readonly Line[]; onClose: () => void };

export function NodePanel({ flow, box, lines, onClose }: Props) {
  const waits = waitWords(box, lines);
  return (
    <Panel
      title={box.name ?? box.title}
      actions={
        <Button small look="quiet" aria-label="Close the node" onClick={onClose}>
          ✕
        </Button>
      }
    >
      <div className="stack node-panel">
        <div className="row">
          <BoxBadge box={box} />
          {box.job && <span className="muted wrap">{box.job}</span>}
          {box.startedAt && (
            <span className="muted">
              {box.finishedAt ? (
                <>
                  took <Duration ms={Date.parse(box.finishedAt) - Date.parse(box.startedAt)} />,{" "}
                  <Time at={box.finishedAt} />
                </>
              ) : (
                <>
                  for <Duration since={box.startedAt} />
                </>
              )}
            </span>
          )}
        </div>
        {waits && <p className="wrap">{waits}</p>}
        {box.error && <p className="wrap field-error">{box.error}</p>}
        {box.because && (
          <p className="sentence">
            Decided by the end of{" "}
            <Link to="/jobs/$id" params={{ id: box.because }} className="wrap">
              {nodeOf(flow, box.because) ?? "this job"}
            </Link>
            .
          </p>
        )}
        {total(box.counts) > 0 && (
          <div>
            <h3>Jobs below it</h3>
            <ul className="node-states">
              {segments(box.counts).map((one) => (
                <li key={one.state}>
                  <Link to="/jobs" search={search(flow, box, one.state)}>
                    <span aria-hidden="true" style={{ color: colour(one.state) }}>
                      {glyph(one.state)}
                    </span>{" "}
                    {count(one.value, box.atLeast)} {one.state}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        )}
        {box.name === null ? (
          <p className="sentence">
            <Link to="/jobs/$id" params={{ id: flow.id }}>
              The job that waits for the others
            </Link>
          </p>
        ) : (
          <Jobs flow={flow} box={box} name={box.name} />
        )}
      </div>
    </Panel>
  );
}

function search(flow: Flow, box: Box, state?: string): Record<string, string> {
  const found: Record<string, string> = { flow: flow.id };
  if (box.name !== null) found["node"] = box.name;
  if (state) found["state"] = state;
  return found;
}

/** The name of the node whose job has an id. */
function nodeOf(flow: Flow, id: string): string | undefined {
  return flow.nodes.find((node) => node.id === id)?.name;
}

function Jobs({ flow, box, name }: { flow: Flow; box: Box; name: string }) {
  const query = useNodeJobs(flow.id, name);
  return (
    <div>
      <h3>Jobs of this node</h3>
      <Loaded query={query} rows={2}>
        {(found) => (
          <>
            {found.data.length === 0 && <p className="muted">None is stored yet.</p>}
            <ul className="node-jobs">
              {found.data.map((job) => (
                <li key={job.id} className="row">
                  <StateBadge job={job} />
                  <Link to="/jobs/$id" params={{ id: job.id }} className="wrap">
                    {job.label ?? job.name}
                  </Link>
                  <span className="muted">
                    <Time at={job.finishedAt ?? job.startedAt ?? job.createdAt} />
                  </span>
                </li>
              ))}
            </ul>
            <Link to="/jobs" search={search(flow, box)}>
              All jobs of this node
            </Link>
          </>
        )}
      </Loaded>
    </div>
  );
}
