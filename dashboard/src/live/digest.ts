// What the service says once a second about everything that has changed: enough to know which pages to read again.

export type Digest = {
  at: string;
  /** Changes of jobs since the last digest; `ids` and `names` are null when there were too many to list. */
  jobs: number;
  /** Of these, how many were created. */
  created: number;
  ids: string[] | null;
  names: string[] | null;
  queues: string[] | null;
  schedules: string[] | null;
  controls: boolean;
  /** Something may have been missed: read everything again. */
  gap: boolean;
};

export type Filter = {
  id?: string;
  /** The id of a job: it and the jobs below it, whose ids begin with it. */
  tree?: string;
  name?: string;
  queue?: string;
  schedule?: string;
  kind?: "jobs" | "schedules" | "controls";
};

/** Whether a digest may concern what a filter names. */
export function concerns(digest: Digest, filter: Filter): boolean {
  if (digest.gap) return true;
  const jobs = filter.kind !== "schedules" && filter.kind !== "controls" && digest.jobs > 0;
  if (
    jobs &&
    has(digest.ids, filter.id) &&
    hasBelow(digest.ids, filter.tree) &&
    has(digest.names, filter.name) &&
    has(digest.queues, filter.queue)
  ) {
    if (!filter.schedule || has(digest.schedules, filter.schedule)) return true;
  }
  const schedules = filter.kind === undefined || filter.kind === "schedules";
  if (schedules && !filter.id && !filter.tree && changed(digest.schedules) && has(digest.schedules, filter.schedule))
    return true;
  return digest.controls && !filter.id && !filter.tree && filter.kind !== "jobs" && filter.kind !== "schedules";
}

function has(listed: string[] | null, wanted: string | undefined): boolean {
  return wanted === undefined || listed === null || listed.includes(wanted);
}

function hasBelow(listed: string[] | null, tree: string | undefined): boolean {
  return tree === undefined || listed === null || listed.some((id) => id === tree || id.startsWith(`${tree}.`));
}

function changed(listed: string[] | null): boolean {
  return listed === null || listed.length > 0;
}
