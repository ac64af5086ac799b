// What the page of dead letters reads.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../api/client";
import { useInterval } from "../../live/interval";
import type { Filter } from "./words";

export type Group = Schemas["GroupOut"];
export type Redrive = Schemas["RedriveOut"];

export function useGroups(filter: Filter) {
  return useQuery({
    queryKey: ["dead-letters", "groups", filter],
    queryFn: async () =>
      (await unwrap(api.GET("/api/dead-letters/groups", { params: { query: { ...filter, limit: 50 } } }))).data,
    refetchInterval: useInterval(5000),
  });
}

export function useGroupJobs(fingerprint: string) {
  return useInfiniteQuery({
    queryKey: ["dead-letters", "jobs", fingerprint],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      unwrap(api.GET("/api/dead-letters", { params: { query: { fingerprint, limit: 25, cursor: pageParam } } })),
    getNextPageParam: (page) => page.next ?? undefined,
  });
}

export function useSample(id: string) {
  return useQuery({
    queryKey: ["jobs", id, "sample"],
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/{job_id}/detail", { params: { path: { job_id: id } } }))).data,
  });
}

/** The latest redrives, read more often while one is under way. */
export function useRedrives() {
  const calm = useInterval(5000);
  const eager = useInterval(1000);
  return useQuery({
    queryKey: ["redrives"],
    queryFn: async () => (await unwrap(api.GET("/api/redrives", { params: { query: { limit: 10 } } }))).data,
    refetchInterval: (query) => (query.state.data?.some((one) => one.state === "running") ? eager : calm),
  });
}
