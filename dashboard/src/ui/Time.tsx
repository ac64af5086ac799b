import { useEffect, useState } from "react";
import { absolute, duration, relative, serverNow, viewerZone } from "../lib/time";

const tickers = new Set<() => void>();
let timer: number | undefined;

function tick(listener: () => void): () => void {
  tickers.add(listener);
  timer ??= window.setInterval(() => {
    if (!document.hidden) for (const one of tickers) one();
  }, 1000);
  return () => {
    tickers.delete(listener);
    if (tickers.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The server's time, renewed every second with one timer for the whole page; every ten where seconds do not show. */
export function useNow(step = 1000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(
    () =>
      tick(() => {
        const next = Math.floor(serverNow() / step) * step;
        setNow((before) => (next - before >= step ? next : before));
      }),
    [step],
  );
  return now;
}

/** An instant: relative, with the absolute time of the viewer's zone and UTC when pointed at. */
export function Time({ at, zone }: { at: string | null | undefined; zone?: string }) {
  const ms = at ? Date.parse(at) : Number.NaN;
  const near = Math.abs(ms - serverNow()) < 3_600_000;
  useNow(near ? 1000 : 60_000);
  if (!at) return <span className="muted">–</span>;
  if (Number.isNaN(ms)) return <span title="This is not an instant.">{at}</span>;
  const title = `${absolute(at, zone)} ${zone ?? viewerZone}\n${new Date(ms).toISOString()}`;
  return (
    <time className="nowrap" dateTime={at} title={title}>
      {relative(ms)}
    </time>
  );
}

/** An instant: absolute, with the relative time when pointed at. */
export function Moment({ at, zone }: { at: string | null | undefined; zone?: string }) {
  if (!at) return <span className="muted">–</span>;
  return (
    <time className="nowrap" dateTime={at} title={`${relative(at)}\n${at}`}>
      {absolute(at, zone)}
    </time>
  );
}

/** A duration, or the time since an instant while it goes on. */
export function Duration({ ms, since }: { ms?: number | null; since?: string | null }) {
  const now = useNow(since ? 1000 : 3_600_000);
  if (since) return <span className="nowrap">{duration(Math.max(0, now - Date.parse(since)))}</span>;
  return <span className="nowrap">{duration(ms)}</span>;
}
