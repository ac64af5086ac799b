// Pages about numbers that no event announces, such as heartbeats, are read again at an interval.
import { usePause } from "./live";

/** The interval for a query that is read again and again; none while the viewer has paused the page. */
export function useInterval(ms: number): number | false {
  const { paused } = usePause();
  return paused ? false : ms;
}
