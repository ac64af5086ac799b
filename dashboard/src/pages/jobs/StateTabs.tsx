// The states as tabs, each with how many jobs of the filter are in it.
import type { Schemas } from "../../api/client";
import { count } from "../../lib/text";
import { Tabs } from "../../ui/Field";
import { colour, glyph } from "../../ui/states";
import { type Filter, STATES, withPart, without } from "./filter";
import { atLeast } from "./rows";

type Props = { filter: Filter; counts: Schemas["StateCountOut"][] | undefined; onChange: (filter: Filter) => void };

export function StateTabs({ filter, counts, onChange }: Props) {
  const blocked = filter.state === "blocked" || (counts?.find((one) => one.state === "blocked")?.count ?? 0) > 0;
  const shown = STATES.filter((state) => state !== "blocked" || blocked);
  const options: [string, React.ReactNode][] = [["all", "All"]];
  for (const state of shown)
    options.push([state, <Tab key={state} state={state} counted={counts?.find((one) => one.state === state)} />]);
  return (
    <Tabs
      label="States"
      value={filter.state ?? "all"}
      options={options}
      onChange={(state) =>
        onChange(state === "all" ? without(filter, "state", filter.state ?? "") : withPart(filter, "state", state))
      }
    />
  );
}

function Tab({ state, counted }: { state: string; counted: Schemas["StateCountOut"] | undefined }) {
  const told = counted ? atLeast(counted.count, counted.capped) : null;
  return (
    <>
      <span aria-hidden="true" style={{ color: colour(state) }}>
        {glyph(state)}
      </span>{" "}
      {state}{" "}
      <span className="jobs-count">
        {told && (told.count > 0 || !told.capped) ? count(told.count, told.capped) : ""}
      </span>
    </>
  );
}
