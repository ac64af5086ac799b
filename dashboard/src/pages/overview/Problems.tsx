// Problems in sentences, the worst first: each sentence leads to the view that proves it, each cure is a button.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAct } from "../../api/act";
import { api, Problem as Refused, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/Copy";
import { ReasonDialog } from "../../ui/ReasonDialog";
import { Boundary } from "../../ui/Panel";
import { Duration } from "../../ui/Time";
import { callOf, type Cure, lookOf, placeOf, type Problem, sentenceOf, wordOf } from "./problems";

const SHOWN = 8;
/** The kinds whose sentences tell a time themselves. */
const SAID = ["failing", "late", "unserved", "stuck"];

export function Problems({ problems, checks }: { problems: readonly Problem[]; checks: readonly string[] }) {
  const [all, setAll] = useState(false);
  if (problems.length === 0) return <Well checks={checks} />;
  const shown = all ? problems : problems.slice(0, SHOWN);
  const hidden = problems.length - shown.length;
  return (
    <>
      <ul className="problems">
        {shown.map((problem) => (
          <li key={`${problem.kind} ${problem.text} ${JSON.stringify(problem.target)}`}>
            <Boundary>
              <Item problem={problem} />
            </Boundary>
          </li>
        ))}
      </ul>
      {(hidden > 0 || all) && problems.length > SHOWN && (
        <p className="problems-more">
          <Button small look="quiet" onClick={() => setAll(!all)}>
            {all ? "Show the worst only" : `Show ${hidden} more`}
          </Button>
        </p>
      )}
    </>
  );
}

function Well({ checks }: { checks: readonly string[] }) {
  return (
    <div className="problems-well">
      <p className="problems-well-head">
        <span aria-hidden="true">✓</span> All is well
      </p>
      <ul>
        {checks.map((check) => (
          <li key={check}>{check}</li>
        ))}
      </ul>
    </div>
  );
}

function Item({ problem }: { problem: Problem }) {
  const { can } = useRole();
  const look = lookOf(problem.severity);
  return (
    <div className={`problem problem-${look.tone}`}>
      <span className="problem-glyph" title={look.word}>
        <span aria-hidden="true">{look.glyph}</span>
        <span className="visually-hidden">{look.word}: </span>
      </span>
      <div className="problem-words">
        <Link {...(placeOf(problem) as unknown as { to: "/" })} className="problem-text">
          {problem.text}
        </Link>
        {(problem.reason || problem.actor || problem.since) && (
          <span className="problem-why">
            {problem.reason && <q>{problem.reason}</q>}
            {problem.actor && <span>by {problem.actor}</span>}
            {problem.since && !SAID.includes(problem.kind) && (
              <span>
                for <Duration since={problem.since} />
              </span>
            )}
          </span>
        )}
      </div>
      <div className="problem-cures">
        {problem.cures.map((cure) => (
          <CureView key={`${cure.verb} ${cure.target.id}`} cure={cure} allowed={can("operator")} />
        ))}
      </div>
    </div>
  );
}

function CureView({ cure, allowed }: { cure: Cure; allowed: boolean }) {
  const [asked, setAsked] = useState(false);
  const word = wordOf(cure);
  const act = useAct((reason: string) => send(cure, reason), {
    done: () => `${word}: done.`,
    onDone: () => setAsked(false),
    quiet: true,
  });
  if (cure.command)
    return (
      <span className="problem-command">
        <code>{cure.command}</code> <CopyButton text={cure.command} />
      </span>
    );
  if (word === null || !allowed) return null;
  return (
    <>
      <Button small onClick={() => setAsked(true)}>
        {word}
      </Button>
      {asked && (
        <ReasonDialog
          title={word}
          verb={word}
          busy={act.isPending}
          error={act.error instanceof Refused ? act.error.message : act.error ? String(act.error) : undefined}
          reason={cure.verb === "resume" ? "none" : "optional"}
          call={(reason) => callOf(cure, cure.verb === "resume" ? "" : reason)}
          onClose={() => setAsked(false)}
          onConfirm={(reason) => act.mutate(reason)}
        >
          <p className="wrap">{sentenceOf(cure)}</p>
        </ReasonDialog>
      )}
    </>
  );
}

/** The same request as `callOf` shows. */
function send(cure: Cure, reason: string): Promise<unknown> {
  const { target } = cure;
  const body = (callOf(cure, reason).body ?? {}) as never;
  if (cure.verb === "close_breaker") {
    const path = { scope: target.scope === "queue" ? ("queue" as const) : ("name" as const), target: target.id };
    return unwrap(api.POST("/api/breakers/{scope}/{target}/close", { params: { path }, body }));
  }
  if (cure.verb === "retry_dead_letters") return unwrap(api.POST("/api/dead-letters/retry", { body }));
  if (target.kind === "schedule") {
    const path = { schedule_id: target.id };
    return unwrap(api.POST("/api/schedules/{schedule_id}/resume", { params: { path } }));
  }
  return unwrap(api.POST("/api/pauses/resume", { body }));
}
