// The latest jobs of the same name as bars: how each ended and how long it took, so that a job is seen among its like.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { serverNow } from "../../lib/time";
import { Loaded, Panel } from "../../ui/Panel";
import { colour, glyph } from "../../ui/states";
import { type Detail, jobKey } from "./job";
import { barsOf, MOST, sameNameWords } from "./sameName";

export function SameName({ job }: { job: Detail }) {
  const query = useQuery({
    queryKey: [...jobKey(job.id), "same-name", job.state],
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/search", { params: { query: { name: job.name, limit: MOST } } }))).data,
  });
  if (query.data && !query.data.some((one) => one.id !== job.id)) return null;
  return (
    <Panel
      title="The latest of this name"
      actions={
        <Link to="/jobs" search={{ name: job.name }}>
          All of them
        </Link>
      }
    >
      <Loaded query={query} rows={2}>
        {(jobs) => {
          const bars = barsOf(jobs, job, serverNow());
          return (
            <>
              <ol className="same-name">
                {bars.map((bar) => (
                  <li key={bar.id}>
                    <Link
                      to="/jobs/$id"
                      params={{ id: bar.id }}
                      className="same-name-bar"
                      style={{ color: colour(bar.state) }}
                      title={bar.words}
                      aria-label={bar.words}
                    >
                      <i style={{ height: `${bar.height}px` }} />
                      <span aria-hidden="true">{glyph(bar.state)}</span>
                    </Link>
                  </li>
                ))}
              </ol>
              <p className="muted same-name-words">{sameNameWords(bars)}</p>
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
