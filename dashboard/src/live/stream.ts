// One stream of events per browser: the tab that holds the lock opens it and tells the others. A browser has six
// connections per site over HTTP/1.1, and a stream in each of seven tabs would leave none for requests.
import { prefix } from "../api/client";
import type { Digest } from "./digest";

export type Status = "connecting" | "live" | "lost" | "unsupported" | "ended";
type Message = { digest?: Digest; status?: Status; ask?: boolean };
type Listener = (digest: Digest) => void;

const NAME = `mainspring-live${prefix}`;
const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
let status: Status = "connecting";
let channel: BroadcastChannel | null = null;
let stop: (() => void) | null = null;

/** Hear every digest until the returned function is called. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function watchStatus(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function currentStatus(): Status {
  return status;
}

function become(next: Status): void {
  if (next === status) return;
  status = next;
  for (const watcher of watchers) watcher();
}

function hear(message: Message): void {
  if (message.status) become(message.status);
  if (message.digest) for (const listener of listeners) listener(message.digest);
}

function tell(message: Message): void {
  hear(message);
  channel?.postMessage(message);
}

/** Start this tab's part: it listens to the tab that has the stream, and takes over when that tab is closed. */
export function startLive(): () => void {
  if (stop) return stop;
  const ending = new AbortController();
  channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(NAME);
  if (channel) {
    channel.onmessage = (event: MessageEvent<Message>) => {
      if (event.data.ask && source) tell({ status });
      else hear(event.data);
    };
    channel.postMessage({ ask: true });
  }
  const lead = () => open(ending.signal);
  // Without locks (plain HTTP on another machine than localhost) each tab has a stream of its own.
  if (navigator.locks) navigator.locks.request(NAME, { signal: ending.signal }, lead).catch(() => undefined);
  else void lead();
  stop = () => {
    ending.abort();
    channel?.close();
    channel = null;
    stop = null;
  };
  return stop;
}

let source: EventSource | null = null;

function open(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let failures = 0;
    let timer: number | undefined;
    const connect = () => {
      source = new EventSource(`${prefix}/api/events?digest=1s`);
      source.onopen = () => {
        failures = 0;
        // What changed after a page was read and before the stream was open is in no digest.
        tell({ status: "live", digest: everything() });
      };
      source.addEventListener("digest", (event) => tell({ digest: JSON.parse((event as MessageEvent<string>).data) }));
      source.addEventListener("gap", () => tell({ digest: everything() }));
      source.addEventListener("end", () => {
        source?.close();
        tell({ status: "ended", digest: everything() });
      });
      source.onerror = () => {
        tell({ status: "lost" });
        // The browser reconnects by itself after a cut; it gives up after a refusal.
        if (source?.readyState === EventSource.CLOSED) {
          failures += 1;
          timer = window.setTimeout(connect, Math.min(30_000, 1000 * 2 ** failures));
        }
      };
    };
    connect();
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      source?.close();
      source = null;
      resolve();
    });
  });
}

function everything(): Digest {
  const none = { ids: null, names: null, queues: null, schedules: null };
  return { at: new Date().toISOString(), jobs: 0, created: 0, ...none, controls: true, gap: true };
}
