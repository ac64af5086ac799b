// What is selected, and what can be done to it: each action is an operation.
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { plural } from "../../lib/text";
import { Button } from "../../ui/Button";
import { OperationDialog } from "../operations/OperationDialog";
import { type Meant, type Verb, VERBS, verbsFor } from "../operations/operation";
import { type Filter, isEmpty, STATES, toBody } from "./filter";
import type { Job } from "./read";
import { atLeast } from "./rows";

type Props = {
  /** The selected jobs of this page. */
  jobs: Job[];
  selected: ReadonlySet<string>;
  matching: boolean;
  setMatching: (all: boolean) => void;
  filter: Filter;
  now: number | undefined;
  counts: Schemas["StateCountOut"][] | undefined;
  queues: readonly string[];
  onClear: () => void;
  onCreated: (operation: Schemas["OperationCreated"]) => void;
};

export function Selection(props: Props) {
  const [verb, setVerb] = useState<Verb | null>(null);
  const { filter, matching, selected } = props;
  const states = matching ? (filter.state ? [filter.state] : STATES) : props.jobs.map((job) => job.state);
  const meant: Meant = matching ? { filter: toBody(filter, props.now) } : { ids: [...selected] };
  return (
    <section className="jobs-selection" aria-label="Selection">
      <strong>
        {matching
          ? `All jobs that match: ${matchingCount(filter, props.counts)}`
          : `${plural(selected.size, "job")} selected`}
      </strong>
      {!matching && !isEmpty(filter) && (
        <Button small look="quiet" onClick={() => props.setMatching(true)}>
          Select all that match ({matchingCount(filter, props.counts)})
        </Button>
      )}
      <span className="row jobs-actions">
        {verbsFor(states).map((one) => (
          <Button key={one} small look={VERBS[one].danger ? "danger" : "plain"} onClick={() => setVerb(one)}>
            {VERBS[one].label}
          </Button>
        ))}
      </span>
      <Button small look="quiet" onClick={props.onClear}>
        Select none
      </Button>
      {verb && (
        <OperationDialog
          verb={verb}
          meant={meant}
          queues={props.queues}
          onClose={() => setVerb(null)}
          onCreated={(operation) => {
            setVerb(null);
            props.onCreated(operation);
          }}
        />
      )}
    </section>
  );
}

function matchingCount(filter: Filter, counts: Schemas["StateCountOut"][] | undefined): string {
  const meant = (counts ?? []).filter((one) => !filter.state || one.state === filter.state);
  const capped = meant.some((one) => one.capped) || meant.length === 0;
  const told = atLeast(
    meant.reduce((sum, one) => sum + one.count, 0),
    capped,
  );
  return told.count === 0 && told.capped ? "not counted yet" : plural(told.count, "job", "jobs", told.capped);
}
