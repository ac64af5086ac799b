// Reading jobs: a page of the filter, counts by state, and what a filter may name.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../api/client";
import { serverNow } from "../../lib/time";
import { type Filter, type Known, format, toQuery } from "./filter";

export type Job = Schemas["JobOut"];
export type Page = { jobs: Job[]; next: string | null; complete: boolean; searched: string | null; now: number };

/** How often a short page is continued by itself: each request examines a bounded number of jobs. */
const CONTINUED = 4;
export const JOBS_KEY = ["jobs", "list"];
export const COUNTS_KEY = ["jobs", "counts"];
const NOTHING: Known = { names: [], queues: [], tags: [], errors: [] };
/** The instant that relative times of a filter are counted from, per cursor: a cursor is of one search only. */
const anchors = new Map<string, number>();

/** A page of jobs. Where few match, it is continued a few times until it is full. */
async function readPage(filter: Filter, size: string, after: string | undefined): Promise<Page> {
  const now = (after && anchors.get(after)) || serverNow();
  const page: Page = { jobs: [], next: after ?? null, complete: false, searched: null, now };
  for (let turn = 0; turn < CONTINUED; turn += 1) {
    const query = {
      ...toQuery(filter, now),
      limit: String(Number(size) - page.jobs.length),
      cursor: page.next ?? undefined,
    };
    const found = await unwrap(api.GET("/api/jobs/search", { params: { query: query as never } }));
    page.jobs.push(...found.data);
    page.next = found.next ?? null;
    page.searched = found.searched ?? null;
    page.complete = page.next === null || page.jobs.length >= Number(size);
    if (page.complete) break;
  }
  if (page.next) {
    if (anchors.size > 500) anchors.clear();
    anchors.set(page.next, now);
  }
  return page;
}

export function useJobs(filter: Filter, size: string, after: string | undefined) {
  return useQuery({
    queryKey: [...JOBS_KEY, format(filter), size, after ?? ""],
    queryFn: () => readPage(filter, size, after),
    placeholderData: keepPreviousData,
  });
}

export function useCounts(filter: Filter) {
  const { state: _, ...rest } = filter;
  return useQuery({
    queryKey: [...COUNTS_KEY, format(rest)],
    queryFn: async () =>
      (await unwrap(api.GET("/api/jobs/counts", { params: { query: toQuery(rest) as never } }))).data,
    placeholderData: keepPreviousData,
  });
}

/** Names, queues, tags and types of errors that were seen lately. */
export function useKnown(): Known {
  const query = useQuery({
    queryKey: ["jobs", "suggestions"],
    queryFn: async () => (await unwrap(api.GET("/api/jobs/suggestions"))).data,
    staleTime: 60_000,
  });
  return query.data ?? NOTHING;
}
