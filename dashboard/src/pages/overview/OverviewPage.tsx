// The overview: what is wrong and what ends it, then how the system does, then its parts.
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { useRole } from "../../api/session";
import { PageHead } from "../../app/PageHead";
import { useParameters } from "../../app/search";
import { serverNow } from "../../lib/time";
import { CallButton } from "../../ui/Call";
import { Segments, Select } from "../../ui/Field";
import { Loaded, Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import { Charts } from "./Charts";
import { Firings } from "./Firings";
import { useCalmLive } from "./live";
import { Names } from "./Names";
import { Problems } from "./Problems";
import { countsOf } from "./problems";
import { Queues, useQueues } from "./Queues";
import { callsOf, RANGES, readView } from "./view";
import { Workers } from "./Workers";
import "./overview.css";

export default function OverviewPage() {
  const [search, change] = useParameters();
  const { everything } = useRole();
  const view = readView(search);
  const overview = useQuery({
    queryKey: ["overview"],
    queryFn: async () => (await unwrap(api.GET("/api/overview"))).data,
  });
  const queues = useQueues();
  useCalmLive([["overview"], ["queues"], ...(everything ? [["workers"]] : [])]);
  const names = (queues.data ?? []).map((queue) => queue.name);
  const options = view.queue && !names.includes(view.queue) ? [view.queue, ...names] : names;
  return (
    <>
      <PageHead title="Overview">
        <CallButton calls={callsOf(view, serverNow(), everything)} />
      </PageHead>
      <div className="stack">
        <Panel
          title={
            overview.data && overview.data.problems.length > 0
              ? `Problems: ${countsOf(overview.data.problems)}`
              : "Problems"
          }
          actions={
            overview.data && (
              <span className="muted">
                checked <Time at={overview.data.at} />
              </span>
            )
          }
          flush
        >
          <Loaded query={overview} rows={4}>
            {(found) => <Problems problems={found.problems} checks={found.checks} />}
          </Loaded>
        </Panel>
        <div className="overview-controls">
          <Segments
            label="Range"
            value={view.range}
            options={RANGES}
            onChange={(range) => change({ range: range === "1h" ? null : range, from: null, to: null, zoom: null })}
          />
          <Select
            label="Queue"
            hideLabel
            value={view.queue ?? ""}
            options={[["", "All queues"], ...options.map((name): [string, string] => [name, name])]}
            onChange={(event) => change({ queue: event.target.value })}
          />
        </div>
        <Charts
          view={view}
          onPart={(part) => change({ ...part, zoom: null })}
          onZoom={() => change({ zoom: view.zoomed ? null : "1" })}
          onClear={() => change({ from: null, to: null, zoom: null })}
        />
        <div className="columns">
          <Names view={view} order="failing" />
          <Names view={view} order="slowest" />
        </div>
        <Queues />
        <div className="columns">
          {overview.data && <Firings firings={overview.data.nextFirings} />}
          {everything && <Workers />}
        </div>
      </div>
    </>
  );
}
