// Reading one job: its details with exact numbers, why it waits, its relatives and its last success.
import { useQuery } from "@tanstack/react-query";
import { api, getExact, type Schemas, unwrap } from "../../api/client";

export type Detail = Schemas["JobDetail"];
export type Attempt = Schemas["AttemptOut"];
export type Comparison = Schemas["ComparisonOut"];
export type Handler = Schemas["HandlerOut"];

export const RESERVED = "mainspring:";
export const WEBHOOK = "mainspring:http";
export const EMAIL = "mainspring:email";

const FLOWS: readonly string[] = ["mainspring:flow", "mainspring:batch"];

/** Whether a job is the root of a flow, as far as it shows: it is declared, or waits for jobs that it has made. */
export function isRoot(job: Detail): boolean {
  return !job.flowId && (FLOWS.includes(job.name) || (job.waits?.on.length ?? 0) > 0);
}

export function jobPath(id: string): string {
  return `/api/jobs/${encodeURIComponent(id)}`;
}

export function jobKey(id: string): string[] {
  return ["job", id];
}

export function useJob(id: string) {
  return useQuery({
    queryKey: [...jobKey(id), "detail"],
    queryFn: async () => (await getExact<{ data: Detail }>(`${jobPath(id)}/detail`)).data,
    retry: (failures, error) => failures < 2 && !/not found|no job/i.test(error.message),
  });
}

export function useExplanation(id: string, wanted: boolean) {
  return useQuery({
    queryKey: [...jobKey(id), "explain"],
    enabled: wanted,
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/{job_id}/explain", { params: { path: { job_id: id } } }))).data,
  });
}

export function useRelated(id: string) {
  return useQuery({
    queryKey: [...jobKey(id), "related"],
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/{job_id}/related", { params: { path: { job_id: id } } }))).data,
  });
}

export function useComparison(id: string, wanted: boolean) {
  return useQuery({
    queryKey: [...jobKey(id), "compare"],
    enabled: wanted,
    queryFn: async () => (await getExact<{ data: Comparison }>(`${jobPath(id)}/compare`)).data,
  });
}

export function useHandlers() {
  return useQuery({
    queryKey: ["handlers"],
    queryFn: async () => await unwrap(api.GET("/api/handlers")),
    staleTime: 30_000,
  });
}

/** The handler of a name in live workers; null if there is none. */
export function useHandler(name: string | undefined) {
  return useQuery({
    queryKey: ["handlers", name],
    enabled: !!name && !name.startsWith(RESERVED),
    queryFn: async () => (await unwrap(api.GET("/api/handlers", { params: { query: { name } } }))).data[0] ?? null,
    staleTime: 30_000,
  });
}
