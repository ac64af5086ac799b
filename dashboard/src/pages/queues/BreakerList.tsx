// Breakers with their story: when each opened, because of which failures, and when it lets the next probe through.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { count, sentence } from "../../lib/text";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import { breakerCall } from "./calls";
import { type Breaker, useBreakers } from "./data";
import { breakerState, ruleWords, targetFirst } from "./words";

const TONES = { closed: "good", open: "bad", half_open: "warn" } as const;
const ORDER = { open: 0, half_open: 1, closed: 2 } as const;

export function breakerKey(breaker: Breaker): string {
  return [breaker.scope, breaker.target, breaker.queue, breaker.key, JSON.stringify(breaker.value)].join("\u001f");
}

/** All breakers, open ones first, and before them those of one target where it is named. */
export function BreakerList({ target }: { target?: string }) {
  const query = useBreakers();
  return (
    <Loaded query={query} rows={5}>
      {(breakers) =>
        breakers.length === 0 ? (
          <Panel>
            <Empty
              title="No breaker is declared"
              command={'@scheduler.job("charge", breaker=Breaker(errors=0.5, window=60, open_for=30))'}
            >
              A breaker stops starting the jobs of a name for a while when too many of their attempts fail.
            </Empty>
          </Panel>
        ) : (
          <div className="stack">
            {targetFirst(
              breakers.toSorted((one, other) => ORDER[one.state] - ORDER[other.state]),
              target,
            ).map((breaker) => (
              <BreakerPanel key={breakerKey(breaker)} breaker={breaker} />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

function BreakerPanel({ breaker }: { breaker: Breaker }) {
  const value = breaker.key !== null && breaker.value !== null;
  const title = (
    <span className="row">
      <span className="muted">{breaker.scope === "queue" ? "Queue" : "Job"}</span>
      <span className="wrap">{breaker.target}</span>
      {breaker.queue && <span className="muted">in {breaker.queue}</span>}
      {breaker.key && (
        <code className="wrap">
          {breaker.key}
          {value ? `=${String(breaker.value)}` : ""}
        </code>
      )}
      <Badge tone={TONES[breaker.state]}>{breakerState(breaker.state)}</Badge>
    </span>
  );
  return (
    <Panel title={title} actions={<BreakerActions breaker={breaker} />}>
      <p className="sentence wrap">
        <Now breaker={breaker} /> <LastFailure breaker={breaker} />
      </p>
      <p className="muted wrap">{ruleWords(breaker.rule)}</p>
      {breaker.story.length > 0 && <Story breaker={breaker} />}
    </Panel>
  );
}

function Now({ breaker }: { breaker: Breaker }) {
  const attempts = breaker.good + breaker.bad;
  const counted =
    attempts > 0 ? ` ${count(breaker.bad)} of the last ${count(attempts)} attempts that it counted failed.` : "";
  if (breaker.state === "closed") return <>Its jobs run.{counted}</>;
  const by = breaker.actor ? ` by ${breaker.actor}` : "";
  const why = breaker.reason ? ` ${sentence(breaker.reason)}` : "";
  if (breaker.state === "half_open")
    return (
      <>
        It lets one job at a time through as a probe, since <Time at={breaker.since} />. A probe that succeeds closes
        it.
      </>
    );
  return (
    <>
      Opened <Time at={breaker.since} />
      {by}: none of its jobs is started.{why}{" "}
      {breaker.openUntil ? (
        <>
          The next probe is <Time at={breaker.openUntil} />.
        </>
      ) : (
        "It stays open until it is closed."
      )}
    </>
  );
}

function LastFailure({ breaker }: { breaker: Breaker }) {
  const last = breaker.lastFailure;
  if (!last) return null;
  return (
    <>
      The last failure was <code className="wrap">{last.errorType}</code>{" "}
      <Link to="/jobs/$id" params={{ id: last.jobId }}>
        <Time at={last.at} />
      </Link>
      .
    </>
  );
}

function Story({ breaker }: { breaker: Breaker }) {
  return (
    <details className="breaker-story" open={breaker.state !== "closed"}>
      <summary>Its story</summary>
      <ol>
        {breaker.story.map((step) => (
          <li key={`${step.at}${step.state}`} className="wrap">
            <Time at={step.at} /> <strong>{breakerState(step.state).toLowerCase()}</strong>
            {step.actor && ` by ${step.actor}`}
            {step.reason && `: ${step.reason}`}
          </li>
        ))}
      </ol>
    </details>
  );
}

function BreakerActions({ breaker }: { breaker: Breaker }) {
  const [asking, setAsking] = useState(false);
  const { can } = useRole();
  const { scope, target, key, queue } = breaker;
  const path = { scope, target };
  const which = {
    ...(key !== null && breaker.value !== null ? { key: { [key]: breaker.value as string } } : {}),
    ...(scope === "name" && queue ? { queue } : {}),
  };
  const options = { onDone: () => setAsking(false), quiet: true };
  const open = useAct(
    (reason: string) =>
      unwrap(api.POST("/api/breakers/{scope}/{target}/open", { params: { path }, body: { ...which, reason } })),
    { ...options, done: () => `The breaker of ${target} is open.` },
  );
  const close = useAct(
    (reason: string) =>
      unwrap(api.POST("/api/breakers/{scope}/{target}/close", { params: { path }, body: { ...which, reason } })),
    { ...options, done: () => `The breaker of ${target} is closed.` },
  );
  // A breaker by key that no value has yet cannot be opened: its value is not known.
  if (!can("operator") || (key !== null && breaker.value === null)) return null;
  const opens = breaker.state === "closed";
  return (
    <>
      <Button small onClick={() => setAsking(true)}>
        {opens ? "Open…" : "Close…"}
      </Button>
      {asking && (
        <ReasonDialog
          title={`${opens ? "Open" : "Close"} the breaker of ${target}`}
          verb={opens ? "Open it" : "Close it"}
          danger={opens}
          busy={open.isPending || close.isPending}
          error={(opens ? open : close).error?.message}
          onClose={() => setAsking(false)}
          call={(reason) => breakerCall(opens ? "open" : "close", path, which, reason)}
          onConfirm={(reason) => (opens ? open : close).mutate(reason)}
        >
          {opens
            ? "Workers start none of its jobs until it is closed. Running jobs continue."
            : "Workers start its jobs again at once, and it counts attempts from zero."}
        </ReasonDialog>
      )}
    </>
  );
}
