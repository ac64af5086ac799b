// Reading queries again once something that they show has changed.
import type { Query, QueryClient, QueryKey } from "@tanstack/react-query";

const twice = new WeakSet<Query>();

/** Read the queries with these keys again. One that is being read now may not know of the change yet: it is read once
 * more when its answer is there. */
export function readAgain(client: QueryClient, keys: QueryKey[]): void {
  const found = keys.flatMap((queryKey) => client.getQueryCache().findAll({ queryKey }));
  for (const query of new Set(found)) {
    if (query.state.fetchStatus === "fetching") afterwards(client, query);
    else invalidate(client, query);
  }
}

function invalidate(client: QueryClient, query: Query): void {
  void client.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false });
}

function afterwards(client: QueryClient, query: Query): void {
  if (twice.has(query)) return;
  twice.add(query);
  const silence = client.getQueryCache().subscribe((event) => {
    if (event.query !== query || (event.type !== "removed" && query.state.fetchStatus === "fetching")) return;
    silence();
    twice.delete(query);
    if (event.type !== "removed") invalidate(client, query);
  });
}
