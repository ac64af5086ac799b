// What the pages of queues and limits read.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../api/client";
import { useInterval } from "../../live/interval";

export type Queue = Schemas["QueueOut"];
export type Limit = Schemas["LimitOut"];
export type Breaker = Schemas["BreakerOut"];

const EVERY = 3000;

/** The queues, page by page; what is shown is read again every few seconds. */
export function useQueues() {
  return useInfiniteQuery({
    queryKey: ["queues"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => unwrap(api.GET("/api/queues", { params: { query: { cursor: pageParam } } })),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: useInterval(EVERY),
  });
}

export function useQueue(queue: string) {
  return useQuery({
    queryKey: ["queues", "one", queue],
    queryFn: async () => (await unwrap(api.GET("/api/queues/{queue}", { params: { path: { queue } } }))).data,
    refetchInterval: useInterval(EVERY),
  });
}

export function useLimits() {
  return useQuery({
    queryKey: ["limits"],
    queryFn: async () => (await unwrap(api.GET("/api/limits"))).data,
    refetchInterval: useInterval(EVERY),
  });
}

export function useBreakers() {
  return useQuery({
    queryKey: ["breakers"],
    queryFn: async () => (await unwrap(api.GET("/api/breakers"))).data,
    refetchInterval: useInterval(EVERY),
  });
}
