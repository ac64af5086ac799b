// The caller of this browser: its name, role and scope; what it may not do is absent from the pages.
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext } from "react";
import { api, Problem, type Schemas, sentOnce, setCsrf, unwrap } from "./client";

export type Session = Schemas["SessionFacts"];
export type Role = Session["role"];
const ORDER: readonly string[] = ["viewer", "operator", "admin"];
const Context = createContext<Session | null>(null);

export const SESSION_KEY = ["session"];

/** The session, null if the browser must log in. */
export function useSessionQuery() {
  return useQuery({
    queryKey: SESSION_KEY,
    queryFn: async () => {
      try {
        const found = (await unwrap(api.GET("/api/session"))).data;
        setCsrf(found.csrfToken);
        return found;
      } catch (error) {
        if (error instanceof Problem && (error.status === 401 || error.status === 403)) return null;
        throw error;
      }
    },
    refetchInterval: 60_000,
  });
}

export function SessionProvider({ session, children }: { session: Session; children: ReactNode }) {
  return <Context value={session}>{children}</Context>;
}

export function useSession(): Session {
  const found = useContext(Context);
  if (!found) throw new Error("There is no session here.");
  return found;
}

/** What the caller may do. `everything`: the key has no scope. */
export function useRole() {
  const session = useSession();
  return {
    name: session.role,
    can: (role: Role) => ORDER.indexOf(session.role) >= ORDER.indexOf(role),
    everything: !session.scope.queues && !session.scope.prefixes,
  };
}

/** Exchange an API key for a session of this browser. */
export async function logIn(key: string): Promise<Session> {
  const asking = unwrap(api.POST("/api/session", { headers: { Authorization: `Bearer ${key}` } }));
  const answer = await sentOnce(asking, "The service does not answer. Try again in a moment.");
  setCsrf(answer.data.csrfToken);
  return answer.data;
}

/** Show the pages of another caller, or the login: nothing that the one before has read is kept. */
export function become(client: QueryClient, session: Session | null): void {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION_KEY[0] });
  client.setQueryData(SESSION_KEY, session);
}

/** End the session in every process of the service. */
export function useLogOut(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    await unwrap(api.DELETE("/api/session"));
    setCsrf(null);
    become(client, null);
  };
}
