// The overview reads much at once, so that it follows changes every few seconds at most, and the clock now and then.
import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { usePause } from "../../live/live";
import { readAgain } from "../../live/readAgain";
import { listen } from "../../live/stream";

const EVERY = 3000;
const AT_LEAST = 20_000;

/** Read queries again some seconds after a change, and every twenty seconds, since lateness grows without a change. */
export function useCalmLive(keys: QueryKey[]): void {
  const client = useQueryClient();
  const { paused } = usePause();
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    if (paused) return;
    let changed = false;
    let last = Date.now();
    const silence = listen(() => {
      changed = true;
    });
    const timer = window.setInterval(() => {
      const due = Date.now() - last >= AT_LEAST;
      if (document.hidden || !(changed || due)) return;
      changed = false;
      last = Date.now();
      readAgain(client, latest.current);
    }, EVERY);
    return () => {
      silence();
      window.clearInterval(timer);
    };
  }, [client, paused]);
}
