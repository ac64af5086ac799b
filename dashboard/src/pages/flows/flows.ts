// Reading flows: pages of the list, one flow, its timeline, and the jobs of a node.
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../api/client";
import { useInterval } from "../../live/interval";
import { LIVE } from "./graph";

export type Listed = Schemas["FlowListed"];
export const FLOWS_KEY = ["flows"];
export const LIST_KEY = [...FLOWS_KEY, "list"];

export function flowKey(id: string): string[] {
  return [...FLOWS_KEY, "one", id];
}

export function flowPath(id: string): string {
  return `/api/flows/${encodeURIComponent(id)}`;
}

export type ListFilter = { state?: string; name?: string };

export function useFlows(filter: ListFilter) {
  return useInfiniteQuery({
    queryKey: [...LIST_KEY, filter.state ?? "", filter.name ?? ""],
    queryFn: ({ pageParam }) =>
      unwrap(
        api.GET("/api/flows", {
          params: { query: { ...filter, limit: 20, cursor: pageParam ?? undefined } as never },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next ?? undefined,
    placeholderData: keepPreviousData,
  });
}

async function readFlow(id: string) {
  return (await unwrap(api.GET("/api/flows/{flow_id}", { params: { path: { flow_id: id } } }))).data;
}

/** A flow with its nodes. */
export function useFlow(id: string) {
  return useQuery({ queryKey: [...flowKey(id), "detail"], queryFn: () => readFlow(id) });
}

/** The nodes of a flow in a list: read once after it has ended, and every few seconds while it goes on. */
export function useRow(flow: Listed) {
  const live = LIVE.includes(flow.state);
  const interval = useInterval(5000);
  return useQuery({
    queryKey: [...FLOWS_KEY, "row", flow.id, live ? "live" : (flow.finishedAt ?? flow.state)],
    queryFn: () => readFlow(flow.id),
    staleTime: live ? 4000 : Number.POSITIVE_INFINITY,
    refetchInterval: live ? interval : false,
  });
}

export function useTimeline(id: string, wanted: boolean) {
  return useQuery({
    queryKey: [...flowKey(id), "timeline"],
    enabled: wanted,
    queryFn: async () =>
      (await unwrap(api.GET("/api/flows/{flow_id}/timeline", { params: { path: { flow_id: id } } }))).data,
  });
}

/** Some jobs of a node, the newest first. */
export function useNodeJobs(id: string, node: string) {
  return useQuery({
    queryKey: [...flowKey(id), "jobs", node],
    queryFn: async () =>
      await unwrap(api.GET("/api/jobs/search", { params: { query: { flowId: id, node, limit: 10 } as never } })),
    placeholderData: keepPreviousData,
  });
}
