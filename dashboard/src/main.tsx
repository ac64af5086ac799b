import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/client";
import { SESSION_KEY, SessionProvider, useSessionQuery } from "./api/session";
import { Login } from "./app/Login";
import { router } from "./app/routes";
import { startTheme } from "./app/theme";
import { LiveProvider } from "./live/live";
import { ErrorPanel, Skeleton } from "./ui/Panel";
import { ToastProvider } from "./ui/Toast";
import "./ui/tokens.css";
import "./ui/base.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      refetchOnWindowFocus: false,
      // A refused request is not asked again; a service that does not answer is, for as long as the page is open.
      retry: (failures, error) =>
        !(error instanceof Problem && error.status >= 400 && error.status < 500) && failures < 2,
      refetchInterval: (query) =>
        query.state.status === "error" && (query.state.error as Problem).status === 0 ? 5000 : false,
    },
  },
});
client.getQueryCache().subscribe((event) => {
  // A session that has ended shows in any answer: the page returns to the login, and afterwards to the same place.
  const error = event.query.state.error;
  if (
    event.type === "updated" &&
    error instanceof Problem &&
    error.status === 401 &&
    event.query.queryKey[0] !== SESSION_KEY[0]
  )
    client.setQueryData(SESSION_KEY, null);
});

function App() {
  const session = useSessionQuery();
  if (session.data)
    return (
      <SessionProvider session={session.data}>
        <LiveProvider>
          <ToastProvider>
            <RouterProvider router={router} />
          </ToastProvider>
        </LiveProvider>
      </SessionProvider>
    );
  if (session.data === null) return <Login />;
  if (session.error) return <ErrorPanel error={session.error} onRetry={() => void session.refetch()} />;
  return <Skeleton rows={3} />;
}

startTheme();
const place = document.getElementById("root");
if (place)
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
