// Throughput, waiting and run time on one x-axis. A range that was dragged, or marked by keys, filters what is below.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, unwrap } from "../../api/client";
import { usePause } from "../../live/live";
import { count } from "../../lib/text";
import { absolute, serverNow, viewerZone } from "../../lib/time";
import { Button } from "../../ui/Button";
import { Chart } from "../../ui/Chart";
import { Empty, Loaded, Panel } from "../../ui/Panel";
import { chartsOf, isQuiet, type Series, STEPS, stepWords, tick } from "./series";
import { partOf, refreshOf, spanOf, type View } from "./view";

type Props = {
  view: View;
  onPart: (part: { from: string; to: string }) => void;
  onZoom: () => void;
  onClear: () => void;
};

export function Charts({ view, onPart, onZoom, onClear }: Props) {
  const { paused } = usePause();
  const fixed = view.zoomed ? view.part : null;
  const series = useQuery({
    queryKey: ["stats", view.range, view.queue, fixed],
    queryFn: async () => {
      const { start, end } = fixed ?? spanOf(view.range, serverNow());
      return (await unwrap(api.GET("/api/stats", { params: { query: { start, end, queue: view.queue } } }))).data;
    },
    refetchInterval: paused || fixed ? false : refreshOf(view.range),
    placeholderData: (before) => before,
  });
  return (
    <Panel
      title="Attempts, waiting and run time"
      actions={
        view.part ? (
          <>
            <span className="muted">
              {absolute(view.part.start, undefined, false)} – {absolute(view.part.end, undefined, false)}
            </span>
            <Button small onClick={onZoom} aria-pressed={view.zoomed}>
              {view.zoomed ? "Zoom out" : "Zoom in"}
            </Button>
            <Button small onClick={onClear}>
              Clear the range
            </Button>
          </>
        ) : (
          <span className="muted overview-hint">
            Drag over a chart to choose a range, or focus it and use the arrow keys
          </span>
        )
      }
    >
      <div className="charts">
        <Loaded query={series} rows={14}>
          {(found) => <Drawn series={found} view={view} onPart={onPart} onClear={onClear} />}
        </Loaded>
      </div>
    </Panel>
  );
}

type DrawnProps = Pick<Props, "view" | "onPart" | "onClear"> & { series: Series };

function Drawn({ series, view, onPart, onClear }: DrawnProps) {
  const charts = useMemo(() => chartsOf(series), [series]);
  const marks = useMemo(() => marksOf(series, view), [series, view.part, view.zoomed]);
  if (isQuiet(series))
    return (
      <Empty title="No attempts in this time" command={'await scheduler.schedule("hello")'}>
        Workers count the attempts that they make; choose a longer range, or schedule a job.
      </Empty>
    );
  const common = {
    at: charts.at,
    sync: "overview",
    marks,
    onRange: (start: number, end: number) => onPart(partOf(start, end)),
    onClear: view.part ? onClear : undefined,
  };
  return (
    <>
      <Chart {...common} title={`Attempts per ${stepWords(series.step)}`} lines={charts.ended} format={count} />
      <Chart {...common} title="Waiting, from due to start" lines={charts.waits} format={tick} steps={STEPS} />
      <Chart {...common} title="Run time" lines={charts.runs} format={tick} steps={STEPS} />
      <p className="muted charts-note">
        Times in {viewerZone}. Percentiles of each step; “oldest waiting” is the due job that has waited for longest, by
        a look once a minute.
        {series.deploys.length > 0 && " Dashed lines mark the first worker with a new release or version."}
      </p>
    </>
  );
}

function marksOf(series: Series, view: View): { at: number; label: string }[] {
  const deploys = series.deploys.map((deploy) => ({ at: Date.parse(deploy.at) / 1000, label: deploy.version }));
  if (!view.part || view.zoomed) return deploys;
  const ends = [
    { at: Date.parse(view.part.start) / 1000, label: "from" },
    { at: Date.parse(view.part.end) / 1000, label: "to" },
  ];
  return [...deploys, ...ends];
}
