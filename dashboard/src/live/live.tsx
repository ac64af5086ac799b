// Live pages: a digest makes the queries that it concerns read again, once a second at most, unless the viewer paused.
import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { serverNow } from "../lib/time";
import { concerns, type Filter } from "./digest";
import { readAgain } from "./readAgain";
import { currentStatus, listen, startLive, type Status, watchStatus } from "./stream";

type Live = { paused: boolean; setPaused: (paused: boolean) => void; pausedAt: number | null };
const Context = createContext<Live>({ paused: false, setPaused: () => undefined, pausedAt: null });

export function LiveProvider({ children }: { children: ReactNode }) {
  const [pausedAt, setPausedAt] = useState<number | null>(null);
  useEffect(() => startLive(), []);
  const live = {
    paused: pausedAt !== null,
    pausedAt,
    setPaused: (on: boolean) => setPausedAt(on ? serverNow() : null),
  };
  return <Context value={live}>{children}</Context>;
}

export function usePause(): Live {
  return useContext(Context);
}

/** Whether the stream is open. */
export function useLiveStatus(): Status {
  return useSyncExternalStore(watchStatus, currentStatus);
}

/** Read these queries again when something that they show has changed; not while paused, frozen or hidden. */
export function useLive(filter: Filter, keys: QueryKey[], options: { frozen?: boolean } = {}): void {
  const client = useQueryClient();
  const { paused } = usePause();
  const still = paused || options.frozen === true;
  const latest = useRef({ filter, keys });
  latest.current = { filter, keys };
  useEffect(() => {
    if (still) return;
    let missed = false;
    const refresh = () => readAgain(client, latest.current.keys);
    const silence = listen((digest) => {
      if (!concerns(digest, latest.current.filter)) return;
      if (document.hidden) missed = true;
      else refresh();
    });
    const shown = () => {
      if (!document.hidden && missed) {
        missed = false;
        refresh();
      }
    };
    document.addEventListener("visibilitychange", shown);
    return () => {
      silence();
      document.removeEventListener("visibilitychange", shown);
    };
  }, [client, still]);
}

/** While a list is frozen, count what was created, for a pill "37 new"; the count is 0 while it is not frozen. */
export function useFrozen(filter: Filter, frozen: boolean): { fresh: number; reset: () => void } {
  const [fresh, setFresh] = useState(0);
  const latest = useRef(filter);
  latest.current = filter;
  useEffect(() => {
    setFresh(0);
    if (!frozen) return;
    return listen((digest) => {
      if (concerns(digest, latest.current) && digest.created > 0) setFresh((seen) => seen + digest.created);
    });
  }, [frozen]);
  return { fresh, reset: () => setFresh(0) };
}
