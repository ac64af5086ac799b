// What the pages of schedules read, and the calls behind it.
import { keepPreviousData, useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../api/client";
import { pythonLiteral } from "../../ui/commands";

export type Schedule = Schemas["ScheduleOut"];
export type ListFilter = { text?: string; state?: string; name?: string; queue?: string; tag?: string; order?: string };

export const ROOT = ["schedules"];
/** The last firings, which cost more than a list: they are read again every few seconds, not at every event. */
export const STRIPS = ["schedule-strips"];
/** The last firings are read for a whole page at once, and for no more than this. */
export const PAGE = 40;
const STRIP = 20;
const MOST_TURNS = 8;

/** Pages of schedules. A page that is short because few match is continued at once, a few times. */
export function useSchedules(filter: ListFilter) {
  return useInfiniteQuery({
    queryKey: [...ROOT, "list", filter],
    queryFn: async ({ pageParam }) => {
      const rows: Schedule[] = [];
      let cursor: string | undefined = pageParam ?? undefined;
      for (let turn = 0; turn < MOST_TURNS; turn += 1) {
        const query = { ...filter, limit: PAGE - rows.length, cursor } as never;
        const found = await unwrap(api.GET("/api/schedules", { params: { query } }));
        rows.push(...found.data);
        cursor = found.next ?? undefined;
        if (!cursor || rows.length >= PAGE) break;
      }
      return { rows, next: cursor ?? null };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
  });
}

/** The last firings of the schedules of some pages, by id. */
export function useStrips(pages: readonly (readonly string[])[]): Map<string, Schemas["RecentFiringOut"][]> {
  return useQueries({
    queries: pages
      .filter((ids) => ids.length > 0)
      .map((ids) => ({
        queryKey: [...STRIPS, ids],
        refetchInterval: 10_000,
        queryFn: async () =>
          (await unwrap(api.POST("/api/schedules/recent", { body: { ids: [...ids], count: STRIP } }))).data,
        placeholderData: keepPreviousData,
      })),
    combine: (answers) => new Map(answers.flatMap((one) => one.data ?? []).map((one) => [one.id, one.firings])),
  });
}

export function useSchedule(id: string, enabled = true) {
  return useQuery({
    queryKey: [...ROOT, "one", id],
    enabled,
    queryFn: async () =>
      (await unwrap(api.GET("/api/schedules/{schedule_id}", { params: { path: { schedule_id: id } } }))).data,
  });
}

/** A path with its query, as the calls show it. */
export function pathOf(path: string, query: Record<string, string | number | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** The path of a schedule; its id may have any characters. */
export function schedulePath(id: string, verb = ""): string {
  return `/api/schedules/${id.split("/").map(encodeURIComponent).join("/")}${verb}`;
}

/** Keyword arguments of a call in Python, without those that are not given. */
export function keywords(given: Record<string, unknown>): string {
  return Object.entries(given)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${pythonLiteral(value)}`)
    .join(", ");
}
